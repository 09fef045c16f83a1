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


def item_for(tasks: TextCraftTasks, goal: str, split: str = "") -> str:
    """The first item id of a goal, in one split or in any."""
    for name in [split] if split else tasks.splits():
        for found in tasks.item_ids(name, 0, 10**6):
            if tasks.get(found).payload.goal == goal:
                return found
    raise LookupError(goal)


def start(
    tasks: TextCraftTasks, goal: str, profile: str = "agentgym", **options: object
) -> TextCraft:
    """An episode just begun."""
    episode = TextCraft(tasks)
    reset = ResetOptions(profile=profile, options=options)
    episode.reset(tasks.get(item_for(tasks, goal)), reset)
    return episode
