"""The graphs and tasks that Academia's tests share."""

from __future__ import annotations

import pytest

from env_servers.environments.academia import Academia
from env_servers.environments.academia.backends import invented_graphs
from env_servers.environments.academia.graphs import InventedGraphs
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.data import data_fixture

data_dir = data_fixture("tools/academia.jsonl")


@pytest.fixture(scope="session")
def graphs() -> InventedGraphs:
    return invented_graphs()


@pytest.fixture(scope="session")
def tasks() -> ToolTaskSet:
    return Academia.load_tasks(EnvironmentConfig())
