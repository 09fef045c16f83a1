"""Where Movie's tests find official data, and the task sets that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from env_servers.environments.movie import Movie
from env_servers.environments.movie.backends import embedded_service
from env_servers.environments.movie.service import EmbeddedService
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet
from tests.kit.data import data_fixture

data_dir = data_fixture("tools/movie.jsonl")


@pytest.fixture(scope="session")
def service() -> EmbeddedService:
    return embedded_service()


@pytest.fixture(scope="session")
def tasks() -> ToolTaskSet:
    return Movie.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> ToolTaskSet:
    return Movie.load_tasks(EnvironmentConfig(data_dir=data_dir))
