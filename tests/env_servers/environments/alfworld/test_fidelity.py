"""Recorded experts, played again: the same commands give the same observations."""

from __future__ import annotations

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.tasks import AlfworldTasks
from tests.kit.fidelity import FidelityContract, recordings, replay


class TestRecordedExperts(FidelityContract):
    """One expert of eight; each wins with its last command and not before."""

    environment = Alfworld
    counts = (74, 1304)
    every = 8

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls, official: AlfworldTasks) -> AlfworldTasks:
        return official


@pytest.mark.slow
class TestAllRecordedExperts(TestRecordedExperts):
    counts = (592, 10028)
    every = 1


def test_the_live_first_observation_drops_the_greeting_and_lists_actions(
    official: AlfworldTasks,
) -> None:
    for recording in recordings("alfworld", every=60):
        game = {"game": recording.options["game"]}
        live = replay(Alfworld, official, recording, options=game).observations[0].text
        shown, _, actions = live.partition("\nAVAILABLE ACTIONS: ")
        assert shown == "\n".join(recording.observations[0].split("\n\n")[1:])
        assert actions.startswith("go to ")
        assert actions.endswith(",inventory,look")
