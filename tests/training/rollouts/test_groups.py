from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.records import EpisodeKey
from training.errors import CheckpointDamaged
from training.rollouts.groups import Group, GroupOrder, TakenGroups
from training.rollouts.stream import LiveTime


def order_of(samples: int = 3) -> GroupOrder:
    """Steps of two tasks and of one, in turns: a step may have fewer tasks than it asked for."""
    tasks = (("maze", "maze_1"), ("echo", "echo_1"))
    return GroupOrder(lambda step: tasks[: 2 - step % 2], samples)


def test_groups_are_the_tasks_of_the_steps_in_their_order():
    order = order_of()
    assert [order.group(number) for number in range(4)] == [
        Group(0, "maze", "maze_1"),
        Group(0, "echo", "echo_1"),
        Group(1, "maze", "maze_1"),
        Group(2, "maze", "maze_1"),
    ]


def test_an_item_has_other_keys_each_time_that_it_is_played():
    order = order_of()
    keys = [key for number in range(20) for key in order.keys(number)]
    assert len(set(keys)) == len(keys) == 60
    assert [key.sample for key in order.keys(2)] == [3, 4, 5]
    assert [order.number(key) for key in order_of().keys(17)] == [17, 17, 17]


def test_an_episode_of_another_run_is_refused():
    with pytest.raises(CheckpointDamaged, match="none of this run's"):
        order_of().number(EpisodeKey("echo", "echo_1", 3, "agent"))


def test_what_was_taken_is_found_again_less_a_line_that_was_cut_off(tmp_path: Path):
    path = tmp_path / "taken.jsonl"
    ledger = TakenGroups(path)
    ledger.append([0, 2], [])
    ledger.append([1, 4], [3], [7, 8])
    with path.open("a") as stream:
        stream.write('{"step": 2, "gro')
    again = TakenGroups(path)
    assert again.steps == [(0, 2), (1, 4)]
    assert again.taken == {0, 1, 2, 4} and again.dropped == {3}
    assert again.passed == {3, 7, 8}
    assert [again.read_by(step) for step in (0, 1)] == [(0, 2), (1, 4, 7, 8)]
    again.append([5, 6], [])
    assert TakenGroups(path).steps == [(0, 2), (1, 4), (5, 6)]


@pytest.mark.parametrize("row", [{"step": 1, "groups": [], "dropped": []}, {"step": 0}])
def test_a_ledger_that_lacks_something_is_refused(tmp_path: Path, row):
    path = tmp_path / "taken.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(CheckpointDamaged, match=r"taken\.jsonl"):
        TakenGroups(path)


def test_time_without_anything_live_and_the_mean_number():
    now = 0.0
    live = LiveTime(lambda: now)
    now = 1.0
    live.change(2)
    now = 3.0
    live.change(-1)
    now = 4.0
    assert live.take() == (0.25, 5 / 4)
    now = 6.0
    assert live.take() == (0.0, 1.0)
    assert live.take() == (0.0, 0.0)
    live.note(3)
    now = 7.0
    live.note(0)
    now = 8.0
    assert live.take() == (0.5, 1.5)
