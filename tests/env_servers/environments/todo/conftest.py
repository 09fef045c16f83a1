"""Task sets that several modules play."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env_servers.environments.todo import Todo
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet


def official_data() -> Path | None:
    """Root of the official files, where the to-do tasks are among them."""
    beside = Path(__file__).parents[5] / "shared" / "data"
    folder = Path(os.environ.get("AGENTGYM_DATA", str(beside)))
    return folder if (folder / "tools" / "todo.jsonl").is_file() else None


@pytest.fixture(scope="package")
def data_dir() -> Path:
    folder = official_data()
    if folder is None:
        pytest.skip("needs the official to-do tasks")
    return folder


@pytest.fixture(scope="package")
def tasks() -> ToolTaskSet:
    return Todo.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="package")
def official(data_dir: Path) -> ToolTaskSet:
    return Todo.load_tasks(EnvironmentConfig(data_dir=data_dir))
