"""Which task an item id of Movie stands for.

Embedded tasks are functions of their index: the index decides the film and the kind of question.
Films are divided between train and eval, and a goal names its film (or a person who belongs to it),
so that no goal is in both. Official tasks come from AgentBoard's file; where a conversation was
recorded for one, its calls are the expert's plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from env_servers.environments.movie.backends import (
    SETTINGS,
    EmbeddedFilms,
    LiveFilms,
    RecordedFilms,
    embedded_service,
)
from env_servers.environments.movie.catalogue import FILMS
from env_servers.environments.movie.questions import KINDS, make_question
from env_servers.sdk import EMBEDDED_BASE, EnvironmentConfig, RangeSplit, Task
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    EVAL_BASE,
    LIVE,
    RECORDED,
    Backend,
    PlannedCall,
    Recording,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    fixed_plan,
    official_splits,
    read_tasks,
)
from env_servers.toolkit.tool_calls.people import permuted_index

__all__ = ["AGENT_EVAL", "EVAL_SIZE", "TRAIN_SIZE", "load_tasks"]

TRAIN_SIZE: Final = 12_000
EVAL_SIZE: Final = 1_000
VERSION: Final = "1"
"""Changes whenever the catalogue or the questions change."""
AGENT_EVAL: Final = frozenset(
    (1, 3, 5, 9, 13, 20, 23, 44, 54, 55, 56, 63, 78, 89, 94, 97, 109, 113, 125, 223)
)
"""The ids of AgentEval."""
_EVAL_EVERY: Final = 10
"""One film in so many belongs to eval."""
_PURPOSE: Final = ("This is what the recorded agent looked up here.",)


def load_tasks(config: EnvironmentConfig) -> ToolTaskSet:
    """Embedded tasks, and the official ones where their file is in `data_dir`."""
    settings = ToolSettings.read(config, "movie", SETTINGS)
    backends: dict[str, Backend] = {EMBEDDED: EmbeddedFilms()}
    official: list[ToolTask] | None = None
    if config.data_dir is not None:
        official = read_tasks(config.data_dir, "movie")
        recording = Recording.read(config.data_dir, "movie")
        if recording is not None:
            backends[RECORDED] = RecordedFilms(recording)
            official = official and [_with_plan(task, recording) for task in official]
    if settings.backend == LIVE:
        backends[LIVE] = LiveFilms(settings)
    return ToolTaskSet(
        "movie",
        {
            "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _train_task),
            "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _eval_task),
        },
        official_splits("movie", official, AGENT_EVAL),
        backends,
        chosen=settings.backend,
        version=VERSION,
    )


def _train_task(index: int) -> Task:
    number = permuted_index(index - EMBEDDED_BASE, FILMS - FILMS // _EVAL_EVERY)
    decade, offset = divmod(number, _EVAL_EVERY - 1)
    return _task(index, index - EMBEDDED_BASE, decade * _EVAL_EVERY + 1 + offset)


def _eval_task(index: int) -> Task:
    number = permuted_index(index - EVAL_BASE, FILMS // _EVAL_EVERY)
    return _task(index, index - EVAL_BASE, number * _EVAL_EVERY)


def _task(index: int, number: int, film: int) -> Task:
    question = make_question(embedded_service(), number % len(KINDS), film, index)
    payload = ToolTask(
        goal=question.goal,
        subgoals=(question.answer,),
        index=index,
        plan=question.plan,
        steps=question.lookups + 1,
    )
    return Task(f"movie_{index}", payload, question.kind)


def _with_plan(task: ToolTask, recording: Recording) -> ToolTask:
    """An official task with the calls that succeeded in its conversation, if there is one."""
    calls = [
        PlannedCall(exchange.tool, exchange.arguments, _PURPOSE)
        for exchange in recording.conversations.get(task.index, ())
        if exchange.tool != "finish"
        and exchange.reply is not None
        and not exchange.reply.startswith("ERROR | ")
    ]
    answer = task.subgoals[0]
    return replace(task, plan=fixed_plan(calls, answer), steps=len(calls) + 1)
