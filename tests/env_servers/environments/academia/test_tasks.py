"""Academia's tasks: many, different, disjoint, of several kinds, and all of them can be solved."""

from __future__ import annotations

from collections import Counter

import pytest

from env_servers.environments.academia import Academia
from env_servers.environments.academia.questions import KINDS
from env_servers.environments.academia.tasks import EVAL_SIZE, TRAIN_SIZE
from env_servers.sdk import EnvironmentConfig, InvalidOption, ResetOptions
from env_servers.toolkit.tool_calls import ToolTask, ToolTaskSet


def payloads(tasks: ToolTaskSet, split: str, step: int = 1) -> list[ToolTask]:
    items = tasks.item_ids(split, 0, tasks.splits()[split])[::step]
    return [tasks.get(item).payload for item in items]


def solve_all(tasks: ToolTaskSet, split: str, step: int, profile: str = "agentgym") -> int:
    """Play the expert through a split; every episode has to earn 1 within the rounds."""
    items = tasks.item_ids(split, 0, tasks.splits()[split])[::step]
    for number, item in enumerate(items):
        episode, task = Academia(tasks), tasks.get(item)
        episode.reset(task, ResetOptions(profile=profile))
        seen = episode.step(episode.advise_expert(number).action)
        calls = 1
        while not seen.terminated:
            assert calls < Academia.spec.max_rounds, item
            seen = episode.step(episode.advise_expert(number).action)
            calls += 1
        assert seen.reward == 1.0, (item, task.payload.goal, seen.text[:300])
        assert calls == task.payload.steps, item
    return len(items)


def test_there_are_twelve_thousand_train_and_a_thousand_eval_tasks(tasks: ToolTaskSet) -> None:
    assert dict(tasks.splits()) == {"train": TRAIN_SIZE, "eval": EVAL_SIZE}
    assert (TRAIN_SIZE, EVAL_SIZE) == (12_000, 1_000)


def test_goals_are_all_different_within_and_across_splits(tasks: ToolTaskSet) -> None:
    train = {task.goal for task in payloads(tasks, "train", 11)}
    held_out = {task.goal for task in payloads(tasks, "eval")}
    assert len(train) == -(-TRAIN_SIZE // 11)
    assert len(held_out) == EVAL_SIZE
    assert not train & held_out


def test_answers_have_several_types_and_plans_look_up_one_to_six_things(
    tasks: ToolTaskSet,
) -> None:
    sample = payloads(tasks, "eval", 2)
    types = Counter(type(task.subgoals[0]).__name__ for task in sample)
    assert set(types) == {"str", "int", "float", "list"}
    assert {task.steps for task in sample} >= {3, 4, 5, 6, 7, 8, 9}
    categories = {tasks.category(item) for item in tasks.item_ids("eval", 0, EVAL_SIZE)}
    assert categories == {kind.name for kind in KINDS}


def test_yes_is_no_safe_guess(tasks: ToolTaskSet) -> None:
    found = [task.subgoals[0] for task in payloads(tasks, "train", 17)]
    answers = Counter(answer for answer in found if answer in ("Yes", "No"))
    assert 0.2 < answers["Yes"] / answers.total() < 0.8


def test_the_expert_solves_every_eval_task_and_a_sample_of_train_tasks(tasks: ToolTaskSet) -> None:
    assert solve_all(tasks, "eval", 1) == EVAL_SIZE
    assert solve_all(tasks, "train", 31) > 380
    assert solve_all(tasks, "eval", 17, "fixed") > 50


@pytest.mark.slow
def test_the_expert_solves_every_train_task(tasks: ToolTaskSet) -> None:
    assert solve_all(tasks, "train", 1) == TRAIN_SIZE


def test_loading_graphs_and_doing_nothing_earn_nothing(tasks: ToolTaskSet) -> None:
    for item in tasks.item_ids("eval", 0, 60):
        episode = Academia(tasks)
        episode.reset(tasks.get(item), ResetOptions())
        load = "Action: {} with Action Input: {{}}"
        for action in (
            episode.advise_noop().action,
            load.format("loadPaperNet"),
            load.format("loadAuthorNet"),
            episode.advise_noop().action,
        ):
            seen = episode.step(action)
            assert (seen.reward, seen.terminated) == (0.0, False)


def test_there_is_no_live_service_and_no_unknown_setting() -> None:
    for settings in ({"academia.backend": "live"}, {"academia.key": "1"}):
        with pytest.raises(InvalidOption):
            Academia.load_tasks(EnvironmentConfig(settings=settings))
