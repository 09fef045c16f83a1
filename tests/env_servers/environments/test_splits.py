"""No task of a training split is a task of an evaluation split, by content: embedded and official.

By content means: what the agent is shown and what is hidden from it, without ids. Each environment
says below what that is, as strictly as is cheap; some compare goals alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from typing import Final, NamedTuple

import pytest

from env_servers.environments.alfworld.environment import Alfworld
from env_servers.sdk import (
    BUILT_IN,
    Environment,
    EnvironmentConfig,
    EnvironmentUnavailable,
    ResetOptions,
    Task,
    TaskSet,
    load_environment,
)
from tests.kit.data import data_dir

Content = Callable[[type[Environment], TaskSet, Task], Hashable]


def shown(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    """Return the first observation, where that says everything."""
    episode = environment(tasks)
    text = episode.reset(task, ResetOptions()).text
    episode.close()
    return text


def shown_and_hidden(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    episode = environment(tasks)
    text = episode.reset(task, ResetOptions()).text
    return text, episode.fingerprint()


def shown_and_placed(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    """Return what is seen first, and where everything is: ALFWorld's rooms recur."""
    episode = environment(tasks)
    text = episode.reset(task, ResetOptions()).text
    assert isinstance(episode, Alfworld)
    return text, frozenset(episode.episode.play.game.first.facts.items())


def payload(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    return task.payload


def word_game(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    puzzle = task.payload
    return puzzle.vocabulary.words, puzzle.hidden or puzzle.seed


def question(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    return task.payload.question.text


def goal(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    return task.payload.goal


def goal_and_place(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    return task.payload.goal, repr(sorted(task.payload.init.items()))


def goal_and_account(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    spec = task.payload.init["spec"]
    return task.payload.goal, spec.world, spec.date, spec.location


def intent_and_start(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    drawn = task.payload.draw()
    return drawn.intent, drawn.start


def request_and_files(environment: type[Environment], tasks: TaskSet, task: Task) -> Hashable:
    return task.payload.request, task.payload.start.digest


class Rule(NamedTuple):
    """How an environment's tasks are compared."""

    content: Content
    every: int = 1
    """One of so many items of a split is looked at by default."""
    every_slowly: int = 1
    """The same where there is time."""


RULES: Final = {
    "academia": Rule(goal, 17),
    "alfworld": Rule(shown_and_placed, 197, 13),
    "babyai": Rule(shown_and_hidden, 101, 11),
    "bird": Rule(payload),
    "maze": Rule(payload, 3),
    "mcp": Rule(goal),
    "movie": Rule(goal, 17),
    "sciworld": Rule(payload),
    "searchqa": Rule(question, 17),
    "sheet": Rule(goal, 3),
    "shell": Rule(request_and_files, 11, 1),
    "textcraft": Rule(shown),
    "todo": Rule(goal_and_account, 3),
    "weather": Rule(goal_and_place, 3),
    "webarena": Rule(intent_and_start, 11),
    "webshop": Rule(shown),
    "wordle": Rule(word_game),
}
BY_ID: Final = ("echo",)
"""Environments whose tasks are nothing but their ids."""

_OWN_DIVISION: Final = (
    "official_train is all of AgentGym's ids but AgentEval's and runs through all variations; the "
    "embedded splits are the simulator's own: who learns from it is judged on official_eval"
)
KNOWN: Final = {
    ("sciworld", "official_train", "dev"): (1081, _OWN_DIVISION),
    ("sciworld", "official_train", "eval"): (896, _OWN_DIVISION),
    ("todo", "official_train", "official_eval"): (
        1,
        "todo_25 and todo_33 are one task in the published file",
    ),
}
"""How many tasks two splits share all the same, at most, and why."""
_TRAINING: Final = ("train",)
"""What the names of splits to learn from contain."""
_JUDGING: Final = ("eval", "dev", "valid")
"""What the names of splits to judge on contain."""


def contents(name: str, *, slowly: bool) -> dict[str, dict[Hashable, str]]:
    """Return an item id by content, for every split of an environment."""
    config = EnvironmentConfig(data_dir() if data_dir().is_dir() else None)
    rule = RULES[name]
    try:
        environment = load_environment(name).configured(config)
        tasks = environment.load_tasks(config)
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    every = rule.every_slowly if slowly else rule.every
    found = {
        split: {
            rule.content(environment, tasks, tasks.get(item)): item
            for item in tasks.item_ids(split, 0, size)[::every]
        }
        for split, size in tasks.splits().items()
    }
    tasks.close()
    return found


def check(name: str, *, slowly: bool) -> None:
    found = contents(name, slowly=slowly)
    training, judging = (
        [split for split in found if any(part in split for part in parts)]
        for parts in (_TRAINING, _JUDGING)
    )
    assert judging
    for learned, judged in product(training, judging):
        shared = found[learned].keys() & found[judged].keys()
        number, _ = KNOWN.get((name, learned, judged), (0, ""))
        pairs = [(found[learned][each], found[judged][each]) for each in shared]
        assert len(shared) <= number, (learned, judged, pairs[:5])


def test_every_environment_has_a_rule() -> None:
    assert sorted((*RULES, *BY_ID)) == sorted(BUILT_IN)


@pytest.mark.parametrize("name", RULES)
def test_no_task_is_learned_from_and_judged_on(name: str) -> None:
    check(name, slowly=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.every > 1])
def test_no_task_of_all_is_learned_from_and_judged_on(name: str) -> None:
    check(name, slowly=True)
