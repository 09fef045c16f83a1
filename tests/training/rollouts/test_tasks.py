from __future__ import annotations

from dataclasses import replace

import pytest

from training.errors import RecipeError
from training.rollouts.tasks import ImitatedTasks, shuffled_by_hash, split_tasks

TRAIN = [f"maze_{number}" for number in range(100)]
JUDGED = [f"maze_{number}" for number in range(1000, 1020)]


def test_the_base_set_is_part_of_the_large_set_and_both_are_explored():
    division = split_tasks(
        ImitatedTasks(name="maze", base_tasks=10, large_tasks=30, explore=60, evaluate=5),
        TRAIN,
        JUDGED,
    )
    assert set(division.base) < set(division.large) < set(division.explore)
    assert [len(getattr(division, use)) for use in ("base", "large", "explore", "evaluate")] == [
        10,
        30,
        60,
        5,
    ]


def test_what_judges_is_never_learned_from_even_in_a_common_split():
    wanted = ImitatedTasks(
        name="maze", train="train", evaluation="train", base_tasks=10, evaluate=20, validate=15
    )
    division = split_tasks(wanted, TRAIN, TRAIN)
    parts = [set(division.evaluate), set(division.validate), set(division.explore)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(TRAIN)
    assert set(division.base) < set(division.explore)


def test_a_pretraining_may_read_more_than_is_explored_but_nothing_that_judges():
    wanted = ImitatedTasks(name="maze", evaluation="train", base_tasks=5, explore=10, evaluate=20)
    division = split_tasks(replace(wanted, pretrain_tasks=80), TRAIN, TRAIN)
    assert set(division.explore) < set(division.pretrain) == set(TRAIN) - set(division.evaluate)
    with pytest.raises(RecipeError, match=r"maze\.pretrain_tasks"):
        split_tasks(replace(wanted, pretrain_tasks=81), TRAIN, TRAIN)


def test_the_division_does_not_depend_on_the_order_of_the_split():
    wanted = ImitatedTasks(name="maze", base_tasks=10, explore=50)
    assert split_tasks(wanted, TRAIN, JUDGED) == split_tasks(wanted, TRAIN[::-1], JUDGED[::-1])
    assert shuffled_by_hash(TRAIN) != TRAIN


def test_nothing_given_means_the_whole_split():
    division = split_tasks(ImitatedTasks(name="maze", base_tasks=1), TRAIN, JUDGED)
    assert (len(division.explore), len(division.evaluate)) == (100, 20)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"base_tasks": 101}, "maze.base_tasks"),
        ({"base_tasks": 1, "explore": 101}, "maze.explore"),
        ({"base_tasks": 1, "evaluate": 21}, "maze.evaluate"),
        ({"base_tasks": 1, "evaluation": "train"}, "maze.evaluate"),
    ],
)
def test_more_tasks_than_there_are_is_a_typed_error(changes, field):
    wanted = ImitatedTasks(name="maze", **changes)
    judged = TRAIN if wanted.evaluation == "train" else JUDGED
    with pytest.raises(RecipeError) as caught:
        split_tasks(wanted, TRAIN, judged)
    assert caught.value.field == field
