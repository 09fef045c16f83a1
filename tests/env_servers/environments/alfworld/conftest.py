"""Task sets shared by the ALFWorld tests, and where recorded data is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.tasks import AlfworldTasks
from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions
from tests.kit.data import data_fixture

data_dir = data_fixture("alfworld")


@pytest.fixture(scope="session")
def embedded() -> AlfworldTasks:
    return Alfworld.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> AlfworldTasks:
    return Alfworld.load_tasks(EnvironmentConfig(data_dir))


def start(
    tasks: AlfworldTasks, item: str, profile: str = "agentgym", **options: object
) -> tuple[Alfworld, Observation]:
    """An episode just begun, and what it shows."""
    episode = Alfworld(tasks)
    chosen = ResetOptions(profile=profile, options=options)
    return episode, episode.reset(tasks.get(item), chosen)


def play(episode: Alfworld, *actions: str) -> list[str]:
    """What is told about each action."""
    return [episode.step(action).text for action in actions]


def solve(episode: Alfworld, limit: int = 30) -> tuple[Observation, int]:
    """The last observation of the expert's play, and how many commands it took."""
    observation = Observation("")
    for count in range(1, limit + 1):
        observation = episode.step(episode.advise_expert(count).action)
        assert observation.text != "Nothing happens."
        if observation.terminated or observation.truncated:
            return observation, count
    return observation, limit
