"""Task sets that several modules play."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.todo import Todo
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.data import data_fixture

data_dir = data_fixture("tools/todo.jsonl")


@pytest.fixture(scope="package")
def tasks() -> ToolTaskSet:
    return Todo.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="package")
def official(data_dir: Path) -> ToolTaskSet:
    return Todo.load_tasks(EnvironmentConfig(data_dir=data_dir))
