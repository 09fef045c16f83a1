from __future__ import annotations

from dataclasses import replace

import pytest

from training.data.contents import HeldOutContents
from training.errors import Contaminated, RecipeError
from training.rollouts.division import (
    divide_by_content,
    draw_judges,
    held_out_contents,
    require_disjoint,
)
from training.rollouts.jobs import RolloutConfig
from training.rollouts.task_contents import list_tasks_with_contents
from training.rollouts.tasks import ImitatedTasks, ListedTasks, TaskSplit

WANTED = ImitatedTasks(
    name="maze",
    base_tasks=4,
    large_tasks=8,
    explore=20,
    pretrain_tasks=30,
    validate=6,
    judge_tasks=5,
)


def listed(train: int = 60, evaluation: int = 10, *, copies: int = 1) -> ListedTasks:
    """Tasks of which `copies` have the same content each time."""
    ids = tuple(f"maze_{number}" for number in range(train * copies))
    judged = tuple(f"maze_{1000 + number}" for number in range(evaluation))
    contents = {item: f"content {number // copies}" for number, item in enumerate(ids)}
    return ListedTasks(ids, judged, contents | {item: f"eval {item}" for item in judged})


def parts(split: TaskSplit, tasks: ListedTasks) -> list[set[str]]:
    uses = (split.learned, split.validate, split.judge_pool, split.judge_eval_pool)
    return [{tasks.contents[item] for item in items} for items in uses]


@pytest.mark.parametrize("copies", [1, 3])
def test_no_content_is_in_two_parts(copies):
    tasks = listed(copies=copies)
    split = divide_by_content(WANTED, tasks, seed=0)
    learn, develop, pool, evaluation = parts(split, tasks)
    assert (len(develop), len(pool), len(evaluation)) == (6, 10, 10)
    assert not (learn & develop or learn & pool or develop & pool or evaluation & (learn | pool))
    assert set(split.base) <= set(split.large) <= set(split.explore) <= set(split.pretrain)
    require_disjoint("maze", split, tasks.contents)


def test_seeds_learn_from_other_tasks_and_are_judged_by_the_same_pools():
    tasks = listed()
    one, other = (divide_by_content(WANTED, tasks, seed=seed) for seed in (0, 1))
    assert one.judge_pool == other.judge_pool
    assert one.base != other.base
    assert one.validate != other.validate


def test_a_content_that_both_splits_have_judges_and_nobody_learns_from_it():
    tasks = listed()
    shared = {"maze_1000": "content 0", "maze_1001": "content 1"}
    tasks = replace(tasks, contents={**tasks.contents, **shared})
    learn, develop, pool, evaluation = parts(divide_by_content(WANTED, tasks, seed=0), tasks)
    assert {"content 0", "content 1"} <= evaluation
    assert not {"content 0", "content 1"} & (learn | develop | pool)


def test_more_tasks_than_contents_are_refused_with_the_key():
    many = listed(train=10, copies=6)
    with pytest.raises(
        RecipeError, match=r"maze\.judge_pool: asks for 16 .* 10 different contents"
    ):
        divide_by_content(WANTED, many, seed=0)
    with pytest.raises(RecipeError, match=r"maze\.judge_eval_tasks: asks for 11"):
        divide_by_content(replace(WANTED, judge_eval_tasks=11), listed(), seed=0)
    with pytest.raises(RecipeError, match=r"maze\.pretrain_tasks: asks for 45 .* 44 different"):
        divide_by_content(replace(WANTED, pretrain_tasks=45), listed(), seed=0)


def test_a_division_that_was_changed_by_hand_is_refused_with_the_names():
    tasks = listed()
    split = divide_by_content(WANTED, tasks, seed=0)
    wrong = replace(split, base=(*split.base, split.judge_pool[0]))
    with pytest.raises(Contaminated, match=rf"{split.judge_pool[0]} \(learn\) = .*\(judge\)"):
        require_disjoint("maze", wrong, tasks.contents)


def test_who_judges_is_drawn_by_the_seed_from_the_pool():
    tasks = listed()
    split = divide_by_content(WANTED, tasks, seed=0)
    one, evaluation = draw_judges(WANTED, split, tasks.contents, seed=7)
    other, _ = draw_judges(WANTED, split, tasks.contents, seed=8)
    assert len(one) == 5
    assert set(one) < set(split.judge_pool)
    assert set(one) != set(other)
    assert set(evaluation) == set(tasks.evaluation)
    few, _ = draw_judges(replace(WANTED, judge_eval_tasks=3), split, tasks.contents, seed=7)
    assert few == one


def test_held_out_contents_are_all_but_what_is_learned(tmp_path):
    tasks = listed()
    split = divide_by_content(WANTED, tasks, seed=0)
    path = tmp_path / "held-out.json"
    held_out_contents({"maze": split}, {"maze": tasks.contents}).write(path)
    contents = HeldOutContents.read(path)
    for item in split.learned:
        contents.note("maze", item, item, tasks.contents[item])
    contents.refuse()
    judged = split.judge_pool[0]
    contents.note("maze", "maze_5000", "episode 1", tasks.contents[judged])
    with pytest.raises(Contaminated, match=rf"maze_5000 \(as {judged}\)"):
        contents.refuse()


# What environments say ------------------------------------------------------------


def test_digests_are_of_contents_neither_of_ids_nor_of_seeds():
    games = [
        ImitatedTasks(name="wordle", options={"instructions": "guess"}),
        ImitatedTasks(name="textcraft", categories=("depth 1",), evaluation="train"),
    ]
    asked = list_tasks_with_contents(RolloutConfig(), games)
    wordle = asked["wordle"]
    assert len(set(wordle.contents.values())) == len(wordle.contents) == 2200
    textcraft = asked["textcraft"]
    # The environment lists no two draws of depth 1 that show the same.
    assert len(set(textcraft.contents.values())) == len(textcraft.train)


def test_the_official_wordle_is_one_content_whatever_its_seed():
    game = ImitatedTasks(name="wordle", train="official_eval", evaluation="official_eval")
    asked = list_tasks_with_contents(RolloutConfig(), [game])["wordle"]
    assert len(asked.train) == 25
    assert len(set(asked.contents.values())) == 1


def test_an_environment_that_begins_by_the_seed_of_the_run_is_refused():
    with pytest.raises(RecipeError, match=r"echo: begins otherwise under another seed"):
        list_tasks_with_contents(RolloutConfig(), [ImitatedTasks(name="echo")])
