"""Generated tasks: many kinds, disjoint, and each solved by the expert."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from env_servers.environments.weather import Weather
from env_servers.environments.weather.gazetteer import load_gazetteer
from env_servers.environments.weather.questions import TEMPLATES
from env_servers.environments.weather.tasks import EVAL_SIZE, TRAIN_SIZE, city_pools
from env_servers.sdk import EnvironmentConfig, Task
from env_servers.toolkit.tool_calls import ToolTask, ToolTaskSet
from tests.env_servers.environments.weather.conftest import begin, play_expert

ROUND = len(TEMPLATES)


def tasks_of(tasks: ToolTaskSet, split: str, count: int) -> list[Task]:
    return [tasks.get(item) for item in tasks.item_ids(split, 0, count)]


def test_there_are_enough_tasks(embedded: ToolTaskSet) -> None:
    assert embedded.splits() == {"train": TRAIN_SIZE, "eval": EVAL_SIZE}
    assert TRAIN_SIZE >= 1000
    assert EVAL_SIZE >= 100


def test_chains_have_one_to_six_calls_and_answers_many_types(embedded: ToolTaskSet) -> None:
    tasks = tasks_of(embedded, "train", 4 * ROUND)
    calls = Counter(task.payload.steps - 1 for task in tasks)
    types = Counter(type(task.payload.subgoals[0]).__name__ for task in tasks)
    assert set(calls) == {1, 2, 3, 4, 5, 6}
    assert set(types) == {"float", "int", "str", "list"}
    assert len({task.category for task in tasks}) == ROUND


def test_train_and_eval_share_no_city_and_no_goal(embedded: ToolTaskSet) -> None:
    train, held_out = city_pools(load_gazetteer())
    assert len(train) > 3000
    assert not {city.name for city in train} & {city.name for city in held_out}
    goals = {task.payload.goal for task in tasks_of(embedded, "train", 5 * ROUND)}
    homes = {task.payload.init["current_location"] for task in tasks_of(embedded, "eval", ROUND)}
    assert homes <= {city.name for city in held_out}
    assert len(goals) > 4 * ROUND


def test_the_tasks_are_the_same_on_every_machine(embedded: ToolTaskSet) -> None:
    """A change of world or templates has to raise the generator's number and this digest."""
    digest = hashlib.blake2b(digest_size=8)
    for split in ("train", "eval"):
        for task in tasks_of(embedded, split, 4 * ROUND):
            digest.update(repr((task.payload.goal, task.payload.subgoals)).encode())
    assert digest.hexdigest() == "984590944164c0d8"


def test_the_same_index_is_always_the_same_task(embedded: ToolTaskSet) -> None:
    again = Weather.load_tasks(EnvironmentConfig())
    for item in embedded.item_ids("eval", 0, ROUND):
        one, other = embedded.get(item).payload, again.get(item).payload
        assert (one.goal, one.subgoals, one.init) == (other.goal, other.subgoals, other.init)
    assert embedded.digest() == again.digest()


@pytest.mark.parametrize("profile", Weather.spec.profiles)
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_what_is_generated(
    embedded: ToolTaskSet, split: str, profile: str
) -> None:
    for number, item in enumerate(embedded.item_ids(split, 0, 2 * ROUND)):
        check(embedded, item, profile, number)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_every_generated_task(embedded: ToolTaskSet, split: str) -> None:
    for number, item in enumerate(embedded.item_ids(split, 0, TRAIN_SIZE)):
        check(embedded, item, "agentgym", number)


def check(tasks: ToolTaskSet, item: str, profile: str, wording: int) -> None:
    """One task: solved by the expert in the steps that it says, and not by doing nothing."""
    payload: ToolTask = tasks.get(item).payload
    seen, steps = play_expert(begin(tasks, item, profile), wording)
    assert (seen.reward, seen.terminated) == (1.0, True), (item, payload.goal, seen.text)
    assert steps == payload.steps
    idle = begin(tasks, item, profile)
    assert idle.step(idle.advise_noop().action).reward == 0.0


def test_thoughts_are_worded_in_several_ways(embedded: ToolTaskSet) -> None:
    item = embedded.item_ids("train", 3, 4)[0]
    thoughts = {begin(embedded, item).advise_expert(seed).thought for seed in range(6)}
    assert len(thoughts) >= 3
