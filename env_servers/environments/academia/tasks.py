"""Which task an item id of Academia stands for.

Embedded tasks are functions of their index: the index decides the subject (a paper and an author)
and the kind of question. Subjects are divided between train and eval, and a goal names its subject,
so that no goal is in both. AgentEval's twenty tasks are about AgentBoard's published graphs, so
they are there only where those are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from env_servers.environments.academia.backends import (
    InventedResearch,
    PublishedResearch,
    invented_graphs,
)
from env_servers.environments.academia.published import read_published
from env_servers.environments.academia.questions import KINDS, SUBJECTS, make_question
from env_servers.sdk import EMBEDDED_BASE, EnvironmentConfig, InvalidOption, RangeSplit, Task
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    EVAL_BASE,
    LIVE,
    RECORDED,
    Backend,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    official_splits,
    read_tasks,
)
from env_servers.toolkit.tool_calls.people import permuted_index

__all__ = ["EVAL_SIZE", "OFFICIAL_PREFIX", "TRAIN_SIZE", "AcademiaTasks", "load_tasks"]

TRAIN_SIZE: Final = 12_000
EVAL_SIZE: Final = 1_000
VERSION: Final = "1"
"""Changes whenever the graphs or the questions change."""
OFFICIAL_PREFIX: Final = "tool_academia"
"""Of AgentEval's item ids."""
_EVAL_EVERY: Final = 10
"""One subject in so many belongs to eval."""
_KEPT: Final = 1024
"""Tasks that were made; groups of episodes play the same one, and a run its tasks again."""


class AcademiaTasks(ToolTaskSet):
    """A task set whose official ids have a prefix of their own; `academia_3` finds them too."""

    def get(self, item_id: str) -> Task:
        number = item_id.removeprefix("academia_")
        task = self._official_tasks.get(item_id)
        if task is None:
            task = self._official_tasks.get(f"{OFFICIAL_PREFIX}_{number}")
        return task or super().get(item_id)


def load_tasks(config: EnvironmentConfig) -> AcademiaTasks:
    """Embedded tasks, and the official ones where their file and their graphs are in `data_dir`."""
    settings = ToolSettings.read(config, "academia", ("backend",))
    if settings.backend == LIVE:
        raise InvalidOption("academia has no service to be live with", valid=(EMBEDDED, RECORDED))
    backends: dict[str, Backend] = {EMBEDDED: InventedResearch()}
    official: Mapping[str, list[Task]] = {}
    graphs = read_published(config.data_dir) if config.data_dir is not None else None
    if config.data_dir is not None and graphs is not None:
        backends[RECORDED] = PublishedResearch(graphs)
        tasks = read_tasks(config.data_dir, "academia")
        held_out = [task.index for task in tasks or ()]
        official = official_splits(OFFICIAL_PREFIX, tasks, held_out)
    return AcademiaTasks(
        "academia",
        {
            "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _train_task),
            "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _eval_task),
        },
        official,
        backends,
        chosen=settings.backend,
        version=VERSION,
    )


def _train_task(index: int) -> Task:
    number = permuted_index(index - EMBEDDED_BASE, SUBJECTS - SUBJECTS // _EVAL_EVERY)
    decade, offset = divmod(number, _EVAL_EVERY - 1)
    return _task(index, index - EMBEDDED_BASE, decade * _EVAL_EVERY + 1 + offset)


def _eval_task(index: int) -> Task:
    number = permuted_index(index - EVAL_BASE, SUBJECTS // _EVAL_EVERY)
    return _task(index, index - EVAL_BASE, number * _EVAL_EVERY)


@lru_cache(maxsize=_KEPT)
def _task(index: int, number: int, subject: int) -> Task:
    question = make_question(invented_graphs(), number % len(KINDS), subject, index)
    payload = ToolTask(
        goal=question.goal,
        subgoals=(question.answer,),
        index=index,
        plan=question.plan,
        steps=question.loads + question.lookups + 1,
    )
    return Task(f"academia_{index}", payload, question.kind)
