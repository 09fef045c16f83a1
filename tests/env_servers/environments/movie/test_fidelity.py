"""AgentTraj-L's conversations, played again on the recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from env_servers.environments.movie import Movie
from env_servers.sdk import ResetOptions, TaskSet
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.fidelity import FidelityContract, Replay

ANSWERED_IN_OTHER_WORDS = {
    f"movie_{index}"
    for index in (4, 22, 46, 59, 70, 83, 90, 102, 118, 161, 181, 187, 189, 195, 207, 220, 237)
}
"""The conversations hand in something else than today's task file expects."""


class TestRecordedConversations(FidelityContract):
    environment = Movie
    counts = (108, 321)

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, official: ToolTaskSet) -> ToolTaskSet:
        return official

    def final_reward(self, tasks: TaskSet, episode: Replay) -> float:
        """Return 1 where a conversation hands in what the task file expects, else 0."""
        return float(episode.recording.item_id not in ANSWERED_IN_OTHER_WORDS)


def test_a_call_that_nobody_recorded_is_told_so(official: ToolTaskSet) -> None:
    episode = Movie(official)
    episode.reset(official.get("movie_0"), ResetOptions())
    seen = episode.step('Action: get_movie_details with Action Input: {"movie_id": "1"}')
    assert seen.text == (
        "Observation: ERROR | NotRecorded(get_movie_details was never recorded with "
        "{'movie_id': '1'})\nGive me one action."
    )
    assert (seen.reward, seen.terminated) == (0.0, False)


def test_the_derived_pairs_are_recordings_too(official: ToolTaskSet, data_dir: Path) -> None:
    path = data_dir / "tools" / "derived_movie_io.jsonl"
    episode = Movie(official)
    episode.reset(official.get("movie_0"), ResetOptions())
    asked = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["tool"] == "finish":
            continue
        seen = episode.step(f"Action: {entry['tool']} with Action Input: {entry['input']}")
        answers = [observation["text"] for observation in entry["observations"]]
        shown = seen.text.removeprefix("Observation: ").removesuffix("\nGive me one action.")
        assert shown in answers, entry["tool"]
        asked += 1
    assert asked > 400
