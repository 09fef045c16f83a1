"""Task sets are ordered, disjoint, and addressed by item id."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_servers.sdk import (
    RangeSplit,
    RangeTaskSet,
    StaticTaskSet,
    Task,
    UnknownItem,
    UnknownSplit,
    item_index,
)


def make(index):
    return Task(f"game_{index}", payload=index)


RANGES = RangeTaskSet(
    "game",
    {
        "train": RangeSplit(100, 50, make),
        "eval": RangeSplit(150, 10, make),
        "official_eval": RangeSplit(3, 4, lambda index: Task(f"old_game_{index}")),
    },
    prefixes={"official_eval": "old_game"},
)
STATIC = StaticTaskSet({"train": [make(1), make(2)], "eval": [make(3)]})


@pytest.mark.parametrize("tasks", [RANGES, STATIC])
def test_listed_items_are_distinct_and_come_back(tasks):
    listed = [item for split in tasks.splits() for item in tasks.item_ids(split, 0, 1000)]
    assert len(listed) == len(set(listed)) == sum(tasks.splits().values())
    assert [tasks.get(item).item_id for item in listed] == listed


@given(st.integers(0, 60), st.integers(0, 60))
def test_a_page_is_a_slice_of_the_whole(start, stop):
    whole = RANGES.item_ids("train", 0, 50)
    assert RANGES.item_ids("train", start, stop) == whole[start:stop]


@pytest.mark.parametrize("tasks", [RANGES, STATIC])
@pytest.mark.parametrize(
    "item", ["", "game_", "game_160", "game_99", "x_100", "game_" + "9" * 5000]
)
def test_unknown_items_raise(tasks, item):
    with pytest.raises(UnknownItem) as raised:
        tasks.get(item)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("tasks", [RANGES, STATIC])
def test_unknown_splits_raise_and_name_the_known_ones(tasks):
    with pytest.raises(UnknownSplit, match="train, eval"):
        tasks.item_ids("test", 0, 1)


def test_a_bare_integer_is_an_item():
    assert RANGES.get("155").item_id == "game_155"
    assert STATIC.get("3").item_id == "game_3"


def test_an_integer_that_two_data_sets_share_is_no_item():
    tasks = StaticTaskSet({"train": [make(1), Task("old_game_1")]})
    with pytest.raises(UnknownItem, match=r"game_1, old_game_1"):
        tasks.get("1")


def test_other_prefixes_are_accepted_and_canonical_ids_are_given():
    assert RANGES.item_ids("official_eval", 0, 2) == ["old_game_3", "old_game_4"]
    assert RANGES.get("game_4").item_id == "old_game_4"


@given(st.text())
def test_any_text_is_an_index_or_unknown(text):
    with contextlib.suppress(UnknownItem):
        assert item_index(text, names=("game",)) >= 0


def test_overlapping_ranges_and_repeated_items_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        RangeTaskSet("game", {"a": RangeSplit(0, 5, make), "b": RangeSplit(4, 5, make)})
    with pytest.raises(ValueError, match="twice"):
        StaticTaskSet({"a": [make(1)], "b": [make(1)]})


def test_digests_tell_contents_apart():
    assert (
        STATIC.digest() == StaticTaskSet({"train": [make(1), make(2)], "eval": [make(3)]}).digest()
    )
    assert (
        STATIC.digest() != StaticTaskSet({"train": [make(1), make(3)], "eval": [make(2)]}).digest()
    )
