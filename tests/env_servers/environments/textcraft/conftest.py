"""Task sets shared by the TextCraft tests, and where recorded data is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.textcraft import TextCraft
from env_servers.environments.textcraft.tasks import TextCraftTasks
from env_servers.sdk import EnvironmentConfig, ResetOptions
from tests.kit.data import data_fixture

data_dir = data_fixture("textcraft")


@pytest.fixture(scope="session")
def embedded() -> TextCraftTasks:
    return TextCraft.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> TextCraftTasks:
    return TextCraft.load_tasks(EnvironmentConfig(data_dir))


def start(
    tasks: TextCraftTasks, goal: str, profile: str = "agentgym", **options: object
) -> TextCraft:
    """An episode just begun, in the embedded world."""
    episode = TextCraft(tasks)
    reset = ResetOptions(profile=profile, options={"goal": goal, **options})
    episode.reset(tasks.get("textcraft_1000000"), reset)
    return episode
