"""AgentTraj-L's conversations, played again: the same actions give the same observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from env_servers.environments.textcraft import TextCraft
from env_servers.environments.textcraft.tasks import TextCraftTasks
from env_servers.sdk import ActionFormat, Observation, Rejected, ResetOptions
from tests.kit.data import read_conversations


@pytest.fixture(scope="module")
def conversations() -> list[Mapping[str, Any]]:
    return read_conversations("textcraft")


def replay(
    tasks: TextCraftTasks, row: Mapping[str, Any], **options: object
) -> Iterator[tuple[Observation, str | None]]:
    """(our observation, the recorded text) of reset and of every action; the last has none."""
    turns = [turn["value"] for turn in row["conversations"]]
    episode = TextCraft(tasks)
    last = episode.reset(tasks.get(row["item_id"]), ResetOptions(options=options))
    yield last, turns[2]
    for index in range(3, len(turns), 2):
        action = episode.spec.grammar.read(turns[index], ActionFormat.REACT)
        if isinstance(action, Rejected):
            last = episode.render_error(action.message, last)
        else:
            last = episode.step(action)
        yield last, turns[index + 1] if index + 1 < len(turns) else None


def test_every_recorded_observation_comes_back_byte_for_byte(
    official: TextCraftTasks, conversations: list[Mapping[str, Any]]
) -> None:
    pairs = [
        (ours.text, theirs)
        for row in conversations
        for ours, theirs in replay(official, row, as_recorded=True)
        if theirs is not None
    ]
    assert len(pairs) == 1507
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def test_the_live_text_differs_from_the_recorded_in_prefix_and_last_space_only(
    official: TextCraftTasks, conversations: list[Mapping[str, Any]]
) -> None:
    for row in conversations:
        for ours, theirs in replay(official, row):
            assert theirs is None or "Instruction:\n" + ours.text.rstrip(" ") == theirs


def test_every_recorded_conversation_ends_with_success_and_not_before(
    official: TextCraftTasks, conversations: list[Mapping[str, Any]]
) -> None:
    for row in conversations:
        *before, last = [ours for ours, _ in replay(official, row)]
        assert (last.reward, last.terminated) == (1.0, True)
        assert not any(ours.terminated for ours in before)
