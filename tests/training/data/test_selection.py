from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.records import EpisodeSummary, summarise
from tests.orchestrator.records import build_episode
from training.data.selection import (
    read_selection,
    score_threshold,
    score_weight,
    select,
    write_selection,
)
from training.errors import DataError


def summary(item: str, score: float | None, *, sample: int = 0, **changes) -> EpisodeSummary:
    plain = summarise(build_episode(item, sample=sample))
    values = {"score": score, "reward": score, "episode_id": f"{item}-{sample}", **changes}
    return plain._replace(**values)


def test_an_episode_is_kept_where_its_score_exceeds_the_threshold():
    found = select([summary("a", 1.0), summary("b", 0.5), summary("c", 0.99)], threshold=0.99)
    assert [it.item_id for it in found.selected] == ["a"]
    assert (found.episodes, found.confirmed, found.failed) == (3, 1, 0)


def test_thresholds_are_those_of_the_original_unless_one_is_given():
    assert score_threshold("textcraft") == 0.99
    assert score_threshold("babyai") == 0.0
    assert score_threshold("sciworld") == 99.0
    assert score_threshold("sciworld", 50.0) == 50.0


def test_a_failed_episode_is_never_kept():
    lost = summary("a", 1.0, fault="POLICY", reason="X", retriable=False)
    found = select([lost, summary("b", 1.0)], threshold=0.0)
    assert [it.item_id for it in found.selected] == ["b"]
    assert found.failed == 1


def test_the_order_depends_on_keys_and_not_on_who_ended_first():
    episodes = [summary(item, 1.0) for item in "cab"]
    there = select(episodes, threshold=0.0).selected
    back = select(reversed(episodes), threshold=0.0).selected
    assert there == back
    assert [it.item_id for it in there] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("repeats", "samples"), [("first", [0]), ("best", [2]), ("all", [0, 1, 2])]
)
def test_of_several_samples_of_a_task_the_rule_says_which_stay(repeats, samples):
    episodes = [
        summary("a", 1.0, sample=0, rounds=9),
        summary("a", 1.0, sample=1, rounds=7),
        summary("a", 2.0, sample=2, rounds=9),
    ]
    found = select(episodes, threshold=0.0, repeats=repeats)
    assert [it.sample for it in found.selected] == samples
    assert found.confirmed == 3


def test_weighting_keeps_every_positive_score_by_its_share_of_a_perfect_one():
    episodes = [summary("a", 25.0), summary("b", 0.0), summary("c", 100.0), summary("d", -3.0)]
    found = select(episodes, threshold=99.0, weighted=True, perfect=100.0)
    assert {it.item_id: it.weight for it in found.selected} == {"a": 0.25, "c": 1.0}
    assert score_weight(250.0, 100.0) == 1.0


def test_a_selection_survives_its_file(tmp_path: Path):
    kept = select([summary("a", 1.0), summary("b", 0.5)], threshold=0.0).selected
    write_selection(tmp_path / "kept.jsonl", kept)
    assert tuple(read_selection(tmp_path / "kept.jsonl")) == kept


def test_a_file_that_is_no_selection_is_refused(tmp_path: Path):
    path = tmp_path / "kept.jsonl"
    path.write_text('{"environment": "maze"}\n')
    with pytest.raises(DataError, match="is no selection"):
        read_selection(path)
