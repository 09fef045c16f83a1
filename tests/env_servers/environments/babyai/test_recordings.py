"""AgentTraj-L's conversations, played again: the same actions must give the same words."""

from __future__ import annotations

import pytest

from env_servers.sdk import ActionFormat, Rejected, read_first_action
from tests.env_servers.environments.babyai.play import begin
from tests.kit.data import read_conversations


@pytest.fixture(scope="module")
def recordings() -> list[tuple[str, list[str]]]:
    return [
        (entry["item_id"], [turn["value"] for turn in entry["conversations"][2:]])
        for entry in read_conversations("babyai")
    ]


def test_the_recorded_actions_give_the_recorded_observations_without_exception(recordings):
    """As the server of the recordings read them: everything after `Action:` is the action."""
    steps = 0
    for item_id, turns in recordings:
        episode, seen = begin(item_id, available_actions=False)
        for reply, recorded in zip(turns[1::2], [*turns[2::2], None], strict=True):
            steps += 1
            action = read_first_action(reply)
            assert isinstance(action, str)
            seen = episode.step(action)
            if recorded is not None:
                assert seen.text == recorded, (item_id, action)
        assert seen.terminated, item_id
    assert steps > 2300


def test_first_observations_are_the_recorded_ones(recordings):
    for item_id, turns in recordings:
        assert begin(item_id, available_actions=False)[1].text == turns[0], item_id


def test_with_todays_reply_parser_95_percent_of_the_observations_are_the_recorded_ones(recordings):
    """Today's parser takes one line; recorded replies with several lines differ."""
    same = total = 0
    for item_id, turns in recordings:
        episode, seen = begin(item_id, available_actions=False)
        for reply, recorded in zip(turns[1::2], turns[2::2], strict=False):
            if seen.terminated:
                break
            action = episode.spec.grammar.read(reply, ActionFormat.REACT)
            seen = (
                episode.render_error(action.message, seen)
                if isinstance(action, Rejected)
                else episode.step(action)
            )
            total += 1
            same += seen.text == recorded
    assert same / total >= 0.95
