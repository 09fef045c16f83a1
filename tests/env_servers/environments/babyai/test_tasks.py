from __future__ import annotations

import pytest

from env_servers.environments.babyai.tasks import EVAL, TRAIN, BabyaiTasks, Start
from env_servers.sdk import EMBEDDED_BASE, UnknownItem, UnknownSplit
from tests.env_servers.environments.babyai.play import TASKS


def starts(split: str) -> set[Start]:
    size = TASKS.splits()[split]
    return {TASKS.get(item).payload for item in TASKS.item_ids(split, 0, size)}


def test_an_id_is_a_level_and_a_seed():
    task = TASKS.get("babyai_79")
    assert task.payload == Start(level=40, seed=1)
    assert task.category == "BossLevelNoUnlock"


def test_embedded_splits_are_large_enough():
    assert TASKS.splits()["train"] == len(TRAIN) >= 4000
    assert TASKS.splits()["eval"] == len(EVAL) >= 90


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
