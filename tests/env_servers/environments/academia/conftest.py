"""The graphs and tasks that Academia's tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env_servers.environments.academia import Academia
from env_servers.environments.academia.backends import invented_graphs
from env_servers.environments.academia.graphs import InventedGraphs
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet


@pytest.fixture(scope="session")
def data_dir() -> Path:
    given = os.environ.get("AGENTGYM_DATA")
    path = Path(given) if given else Path(__file__).parents[5] / "shared" / "data"
    if not (path / "tools" / "academia.jsonl").is_file():
        pytest.skip("needs the official tool tasks: set AGENTGYM_DATA")
    return path


@pytest.fixture(scope="session")
def graphs() -> InventedGraphs:
    return invented_graphs()


@pytest.fixture(scope="session")
def tasks() -> ToolTaskSet:
    return Academia.load_tasks(EnvironmentConfig())
