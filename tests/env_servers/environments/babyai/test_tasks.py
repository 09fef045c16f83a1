from __future__ import annotations

import pytest

from env_servers.environments.babyai.find_repeats import room
from env_servers.environments.babyai.levels import LEVELS
from env_servers.environments.babyai.tasks import TRAIN, BabyaiTasks, Start
from env_servers.sdk import EMBEDDED_BASE, UnknownItem, UnknownSplit, item_index
from tests.env_servers.environments.babyai.play import TASKS


def items_of(split: str, level: int) -> list[str]:
    ids = TASKS.item_ids(split, 0, TASKS.splits()[split])
    return [item for item in ids if TASKS.get(item).payload.level == level]


def starts(split: str) -> set[Start]:
    size = TASKS.splits()[split]
    return {TASKS.get(item).payload for item in TASKS.item_ids(split, 0, size)}


def test_an_id_is_a_level_and_a_seed():
    task = TASKS.get("babyai_79")
    assert task.payload == Start(level=40, seed=1)
    assert task.category == "BossLevelNoUnlock"


def test_embedded_splits_are_large_enough():
    assert TASKS.splits()["train"] == len(TRAIN) - 812 >= 4000
    assert TASKS.splits()["eval"] == 10 * len(LEVELS) >= 90


def test_the_smallest_levels_have_no_room_twice() -> None:
    for level in (4, 13):
        items = [item for split in ("train", "eval") for item in items_of(split, level)]
        rooms = {room(TASKS, item_index(item, names=("babyai",))) for item in items}
        assert len(rooms) == len(items) > 100


def test_every_level_has_ten_eval_items_and_items_left_out_keep_their_ids() -> None:
    for level in range(1, len(LEVELS) + 1):
        assert len(items_of("eval", level)) == 10
    left_out = "babyai_2000003"
    assert left_out not in items_of("eval", 4)
    assert TASKS.get(left_out).payload == Start(level=4, seed=50_000)


@pytest.mark.parametrize("split", ["train", "eval", "official_train"])
def test_every_split_covers_all_levels(split):
    assert {start.level for start in starts(split)} == set(range(1, 41))


def test_no_level_and_seed_is_in_two_splits():
    train, evaluation, official = map(starts, ("train", "eval", "official_train"))
    assert not train & evaluation
    assert not official & (train | evaluation)
    assert min(start.seed for start in train | evaluation) * 40 >= EMBEDDED_BASE


def test_listed_evaluation_ids_leave_official_train():
    tasks = BabyaiTasks([3, 2000])
    assert list(tasks.item_ids("official_eval", 0, 5)) == ["babyai_3", "babyai_2000"]
    assert "babyai_3" not in tasks.item_ids("official_train", 0, 900)
    assert tasks.digest() != BabyaiTasks().digest()


def test_any_official_id_can_be_played_but_no_id_between_the_splits():
    assert TASKS.get("babyai_10675").payload == Start(level=36, seed=266)
    with pytest.raises(UnknownItem):
        TASKS.get(f"babyai_{EMBEDDED_BASE + 500_000}")
    with pytest.raises(UnknownSplit):
        TASKS.item_ids("official_eval", 0, 1)
