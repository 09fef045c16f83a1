"""What a Sheet episode is worth, and that its tasks can be solved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from env_servers.environments.sheet import SheetWork
from env_servers.environments.sheet.generator import CHAINS, KINDS
from env_servers.environments.sheet.scoring import overlap_share, strict_share
from env_servers.environments.sheet.sessions import get_assignment
from env_servers.sdk import Observation, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet


def begin(tasks: ToolTaskSet, item: str, profile: str = "agentgym", **options: Any) -> SheetWork:
    episode = SheetWork(tasks)
    episode.reset(tasks.get(item), ResetOptions(profile=profile, options=options))
    return episode


def call(episode: SheetWork, tool: str, **arguments: Any) -> Observation:
    return episode.step(f"Action: {tool} with Action Input: {arguments!r}")


def play(tasks: ToolTaskSet, item: str, profile: str = "agentgym") -> list[Observation]:
    episode = begin(tasks, item, profile)
    seen: list[Observation] = []
    while len(seen) < episode.spec.max_rounds and not (seen and seen[-1].terminated):
        seen.append(episode.step(episode.advise_expert(len(seen)).action))
    return seen


def every(tasks: ToolTaskSet, split: str, step: int = 1) -> list[str]:
    return list(tasks.item_ids(split, 0, tasks.splits()[split]))[::step]


@pytest.mark.parametrize("profile", ["agentgym", "fixed"])
def test_the_expert_solves_generated_tasks_with_its_last_call_and_not_before(
    tasks: ToolTaskSet, profile: str
) -> None:
    for item in (*every(tasks, "train", 11), *every(tasks, "eval", 3)):
        seen = play(tasks, item, profile)
        assert (seen[-1].reward, seen[-1].terminated) == (1.0, True), item
        assert len(seen) == tasks.get(item).payload.steps
        assert all((one.reward or 0.0) < 1.0 for one in seen[:-2])


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_expert_solves_every_generated_task(tasks: ToolTaskSet, split: str) -> None:
    for item in every(tasks, split):
        assert play(tasks, item)[-1].reward == 1.0, item


def test_splits_are_large_and_share_no_table(tasks: ToolTaskSet) -> None:
    assert tasks.splits() == {"train": 60 * len(KINDS), "eval": 6 * len(KINDS)}
    titles: dict[str, set[str]] = {}
    seen: Counter[tuple[str, object]] = Counter()
    for split in ("train", "eval"):
        found = [get_assignment(tasks.get(item).payload) for item in every(tasks, split, 5)]
        titles[split] = {assignment.sheet for assignment in found}
        seen.update((one.goal, one.target) for one in found)
    assert not titles["train"] & titles["eval"]
    assert max(seen.values()) == 1


def test_tasks_have_all_chain_lengths_and_kinds_of_work(tasks: ToolTaskSet) -> None:
    for split in ("train", "eval"):
        found = [tasks.get(item) for item in every(tasks, split, 5)]
        assert {task.payload.steps - 2 for task in found} == set(CHAINS)
        assert len({task.category for task in found}) == len(KINDS)


def test_the_category_in_listings_is_that_of_the_task(tasks: ToolTaskSet) -> None:
    for item in (*every(tasks, "train", 97), *every(tasks, "eval", 31)):
        assert tasks.category(item) == tasks.get(item).category


def test_calls_that_were_refused_are_asked_for_again(tasks: ToolTaskSet) -> None:
    episode = begin(tasks, every(tasks, "train")[0])
    call(episode, "freeze_data", dimension="rows", num=1)
    while not (seen := episode.step(episode.advise_expert(0).action)).terminated:
        pass
    assert seen.reward == 1.0


def test_doing_nothing_earns_nothing_in_the_binary_unit(tasks: ToolTaskSet) -> None:
    for item in every(tasks, "train", 60):
        episode = begin(tasks, item, reward="binary")
        assert episode.step(episode.advise_noop().action).reward == 0.0
        sheet = get_assignment(tasks.get(item).payload).sheet
        call(episode, "open_sheet", name=sheet)
        assert episode.step(episode.advise_noop().action).reward == 0.0
        assert call(episode, "finish").reward == 0.0


def test_the_dense_reward_is_the_share_of_equal_cells_and_never_falls(tasks: ToolTaskSet) -> None:
    item = every(tasks, "train")[0]
    assignment = get_assignment(tasks.get(item).payload)
    episode = begin(tasks, item)
    untouched = overlap_share(assignment.book[assignment.sheet].values(), assignment.target)
    assert call(episode, "open_sheet", name=assignment.sheet).reward == untouched
    for row in range(1, 6):
        call(episode, "update_cell", position=f"A{row}", value="wrong")
    assert call(episode, "finish").reward == untouched


def test_profile_fixed_scores_the_final_sheet_only_and_all_of_it(tasks: ToolTaskSet) -> None:
    item = every(tasks, "train")[0]
    assignment = get_assignment(tasks.get(item).payload)
    steps = len(assignment.calls)
    surplus = f"{'ABCDEFGHIJ'[len(assignment.target[0])]}1"
    rewards: dict[str, list[float | None]] = {}
    for profile in ("agentgym", "fixed"):
        episode = begin(tasks, item, profile)
        for _ in range(steps):
            episode.step(episode.advise_expert(0).action)
        before = call(episode, "update_cell", position=surplus, value="surplus").reward
        rewards[profile] = [before, call(episode, "finish").reward]
    assert rewards["agentgym"] == [1.0, 1.0]
    assert rewards["fixed"][0] == 0.0
    assert 0.5 < (rewards["fixed"][1] or 0.0) < 1.0


def test_shares_of_different_sizes() -> None:
    assert overlap_share([["a", "b"]], [["a", "b"], ["c", "d"]]) == 1.0
    assert strict_share([["a", "b"]], [["a", "b"], ["c", "d"]]) == 0.5
    assert overlap_share([], [["a"]]) == strict_share([], [["a"]]) == 0.0


def test_an_episode_shares_nothing_with_another_of_the_same_task(tasks: ToolTaskSet) -> None:
    task = tasks.get(every(tasks, "train")[1])
    sheet = get_assignment(task.payload).sheet
    one, other = SheetWork(tasks), SheetWork(tasks)
    for episode in (one, other):
        episode.reset(task, ResetOptions())
        call(episode, "open_sheet", name=sheet)
    fork = one.fork()
    call(one, "update_cell", position="A1", value="mine")
    for episode in (other, fork):
        assert "mine" not in call(episode, "get_all_values").text
    one.reset(task, ResetOptions())
    call(one, "open_sheet", name=sheet)
    assert "mine" not in call(one, "get_all_values").text


def test_the_random_player_can_neither_break_nor_solve_a_task(tasks: ToolTaskSet) -> None:
    import random

    for number, item in enumerate(every(tasks, "train", 300)):
        episode, rng = begin(tasks, item, reward="binary"), random.Random(number)
        sheet = get_assignment(tasks.get(item).payload).sheet
        call(episode, "open_sheet", name=sheet)
        for _ in range(60):
            action = episode.advise_random(rng).action
            if "finish" not in action:
                seen = episode.step(action)
                assert "ERROR" not in seen.text, action
