"""Recorded experts, played again: the same commands give the same observations."""

from __future__ import annotations

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.tasks import AlfworldTasks
from env_servers.sdk import ResetOptions
from tests.env_servers.environments.alfworld.conftest import Transcript


def replay(
    tasks: AlfworldTasks, transcript: Transcript
) -> tuple[list[tuple[str, str]], list[bool]]:
    """(ours, recorded) of every observation, and whether the game was won, after each."""
    episode = Alfworld(tasks)
    given = {"game": transcript.game, "step_limit": 0, "as_recorded": True}
    first = episode.reset(tasks.get("alfworld_1000000"), ResetOptions(options=given))
    pairs, won = [(first.text, transcript.first)], [False]
    for command, told in transcript.turns:
        observation = episode.step(command)
        pairs.append((observation.text, told))
        won.append(observation.reward == 1.0 and observation.terminated)
    return pairs, won


def compare(tasks: AlfworldTasks, transcripts: list[Transcript]) -> None:
    for transcript in transcripts:
        pairs, won = replay(tasks, transcript)
        assert [pair for pair in pairs if pair[0] != pair[1]] == [], transcript.game
        assert won[-1], transcript.game
        assert not any(won[:-1]), transcript.game


def test_recorded_observations_come_back_and_the_games_are_won(
    official: AlfworldTasks, transcripts: list[Transcript]
) -> None:
    compare(official, transcripts[::8])


@pytest.mark.slow
def test_all_recorded_observations_come_back_and_all_games_are_won(
    official: AlfworldTasks, transcripts: list[Transcript]
) -> None:
    compare(official, transcripts)
    assert sum(len(transcript.turns) for transcript in transcripts) > 10_000 or (
        len(transcripts) < 592
    )


def test_the_live_first_observation_drops_the_greeting_and_lists_actions(
    official: AlfworldTasks, transcripts: list[Transcript]
) -> None:
    for transcript in transcripts[::60]:
        options = ResetOptions(options={"game": transcript.game})
        live = Alfworld(official).reset(official.get("alfworld_1000000"), options).text
        shown, _, actions = live.partition("\nAVAILABLE ACTIONS: ")
        assert shown == "\n".join(transcript.first.split("\n\n")[1:])
        assert actions.startswith("go to ")
        assert actions.endswith(",inventory,look")
