"""Our AgentTraj: what the experts do, confirmed by the environments themselves."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("tokenizers", reason="the extra `train` is not installed")

from orchestrator.store import RunReader
from training import expert_data
from training.data.selection import Selection, score_threshold
from training.expert_data import PAPER_SIZES, main

pytestmark = pytest.mark.torch

EVERYWHERE = (
    *("maze", "wordle", "textcraft", "babyai", "sciworld", "alfworld", "webshop"),
    *("weather", "movie", "academia", "sheet", "todo", "bird", "searchqa"),
)
MODULES = {"babyai": "minigrid", "sciworld": "scienceworld", "weather": "geographiclib"}


def build(out: Path, env: str, *flags: str) -> list[dict]:
    """The conversations of one environment, from the command."""
    assert main(["--env", env, "--out", str(out), "--spawn", "1", *flags]) == 0
    return json.loads((out / f"{env}.json").read_text())


def replies(conversation: dict) -> list[str]:
    spoken = conversation["conversations"][2:]
    return [turn["value"] for turn in spoken if turn["from"] == "gpt"]


def test_the_sizes_are_those_of_the_paper():
    assert sum(large for _, large in PAPER_SIZES.values()) == 14_485  # AgentTraj-L
    assert all(base <= large for base, large in PAPER_SIZES.values())


def test_further_tasks_are_played_where_the_expert_fails(tmp_path, monkeypatch):
    # A maze that takes more than seven moves counts as a failure.
    real = expert_data.confirmed_episodes

    def strict(played, *, samples=1):
        found = real(played, samples=samples)
        with RunReader.open(played.folder) as reader:
            short = {it.episode_id for it in reader.summaries() if it.rounds <= 7}
        kept = tuple(it for it in found.selected if it.episode_id in short)
        return Selection(kept, found.episodes, len(kept), found.failed)

    monkeypatch.setattr(expert_data, "confirmed_episodes", strict)
    found = build(tmp_path, "maze", "--episodes", "12")
    assert len(found) == len({it["item_id"] for it in found}) == 12
    assert all(len(replies(it)) <= 7 for it in found)
    assert (tmp_path / "maze-2").is_dir()
    # Again: nothing is played twice, and the same comes out.
    assert build(tmp_path, "maze", "--episodes", "12") == found


def test_a_split_with_too_few_tasks_is_played_again_in_other_words(tmp_path):
    found = build(tmp_path, "maze", "--episodes", "60", "--split", "official_eval")
    assert len(found) == 60
    items = [it["item_id"] for it in found]
    assert len(set(items)) < 30
    first = [it for it in found if it["item_id"] == items[0]]
    assert len({" ".join(replies(it)) for it in first}) == len(first) > 1


@pytest.mark.slow
@pytest.mark.parametrize("env", EVERYWHERE)
def test_every_environment_gives_confirmed_episodes_with_thoughts(env, tmp_path):
    module = MODULES.get(env)
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"the extra `{env}` is not installed")
    found = build(tmp_path, env, "--episodes", "8", "--samples", "2")
    assert len(found) == 8
    with RunReader.open(tmp_path / env) as reader:
        confirmed = {
            it.item_id
            for it in reader.summaries()
            if (it.reward if it.score is None else it.score) > score_threshold(env)
        }
        refused = {it.item_id for it in reader.summaries()} - confirmed
    assert refused.isdisjoint(it["item_id"] for it in found)
    assert confirmed
    said = [replies(it) for it in found]
    spoken_at_all = [text for it in said for text in it]
    thoughts = [it.partition("Action")[0].removeprefix("Thought:") for it in spoken_at_all]
    assert all(len(it.split()) >= 3 for it in thoughts), "a thought is a sentence"
    by_item: dict[str, list[str]] = {}
    for it, spoken in zip(found, said, strict=True):
        by_item.setdefault(it["item_id"], []).append("\n".join(spoken))
    twice = [texts for texts in by_item.values() if len(texts) == 2]
    assert twice
    different = sum(texts[0] != texts[1] for texts in twice)
    assert different >= len(twice) / 2, "the seed words thoughts differently"
