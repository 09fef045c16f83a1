"""Task sets shared by the ALFWorld tests, and where recorded data is found."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.tasks import AlfworldTasks
from env_servers.sdk import EnvironmentConfig, Observation, ResetOptions
from tests.kit.data import data_fixture


class Transcript(NamedTuple):
    """A recorded expert: `game` as `<split>/<task>/<trial>`, and what was said in turns."""

    game: str
    first: str
    turns: tuple[tuple[str, str], ...]
    """(command, what was told)."""


data_dir = data_fixture("alfworld")


@pytest.fixture(scope="session")
def embedded() -> AlfworldTasks:
    return Alfworld.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> AlfworldTasks:
    return Alfworld.load_tasks(EnvironmentConfig(data_dir))


@pytest.fixture(scope="session")
def transcripts(data_dir: Path) -> list[Transcript]:
    """The experts that lie beside the official games, in order of their paths."""
    found = []
    for archive in sorted((data_dir / "alfworld").glob("*.tar.xz")):
        with tarfile.open(archive) as members:
            for member in members:
                stream = members.extractfile(member)
                if member.name.endswith("/gt_traj.json") and stream is not None:
                    found.append(_transcript(member.name, json.load(stream)))
    if not found:
        pytest.skip("needs gt_traj.json beside official games")
    return sorted(found)


def _transcript(name: str, said: list[Mapping[str, Any]]) -> Transcript:
    texts = [each["value"] for each in said]
    pairs = tuple(zip(texts[1::2], texts[2::2], strict=True))
    return Transcript("/".join(name.split("/")[-4:-1]), texts[0], pairs)


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
