"""AgentTraj-L's conversations, played again on the recording."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from env_servers.environments.movie import Movie
from env_servers.sdk import ActionFormat, Observation, Rejected, ResetOptions
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.data import read_conversations

ANSWERED_IN_OTHER_WORDS = {
    f"movie_{index}"
    for index in (4, 22, 46, 59, 70, 83, 90, 102, 118, 161, 181, 187, 189, 195, 207, 220, 237)
}
"""The conversations hand in something else than today's task file expects."""


@pytest.fixture(scope="module")
def conversations() -> list[Mapping[str, Any]]:
    return read_conversations("movie")


def replay(tasks: ToolTaskSet, row: Mapping[str, Any]) -> Iterator[tuple[Observation, str | None]]:
    """(our observation, the recorded text) of reset and of every reply; the last has none."""
    turns = [turn["value"] for turn in row["conversations"]]
    goal = turns[2].partition("the goal: ")[2].removesuffix("\nGive me one action.")
    episode = Movie(tasks)
    options = ResetOptions(options={"as_recorded": True, "goal": goal})
    last = episode.reset(tasks.get(row["item_id"]), options)
    yield last, turns[2]
    for index in range(3, len(turns), 2):
        action = episode.spec.grammar.read(turns[index], ActionFormat.REACT)
        if isinstance(action, Rejected):
            last = episode.render_error(action.message, last)
        else:
            last = episode.step(action)
        yield last, turns[index + 1] if index + 1 < len(turns) else None


def test_every_recorded_observation_comes_back_byte_for_byte(
    official: ToolTaskSet, conversations: list[Mapping[str, Any]]
) -> None:
    pairs = [
        (ours.text, theirs)
        for row in conversations
        for ours, theirs in replay(official, row)
        if theirs is not None
    ]
    assert len(pairs) == 108 + 321
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_every_conversation_ends_with_its_last_reply_and_not_before(
    official: ToolTaskSet, conversations: list[Mapping[str, Any]]
) -> None:
    for row in conversations:
        *before, last = [ours for ours, _ in replay(official, row)]
        assert last.terminated
        assert not any(ours.terminated for ours in before)


def test_conversations_earn_1_where_they_hand_in_what_the_task_file_expects(
    official: ToolTaskSet, conversations: list[Mapping[str, Any]]
) -> None:
    lost: set[str] = set()
    for row in conversations:
        *_, (last, _) = replay(official, row)
        assert last.reward in (0.0, 1.0)
        if last.reward != 1.0:
            lost.add(row["item_id"])
    assert lost == ANSWERED_IN_OTHER_WORDS


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
