"""Where Movie's tests find official data, and the task sets that they share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from env_servers.environments.movie import Movie
from env_servers.environments.movie.backends import embedded_service
from env_servers.environments.movie.service import EmbeddedService
from env_servers.sdk import EnvironmentConfig
from env_servers.toolkit.tool_calls import ToolTaskSet


def official_data() -> Path | None:
    """The folder of official data, if it has Movie's tasks."""
    given = os.environ.get("AGENTGYM_DATA")
    path = Path(given) if given else Path(__file__).parents[5] / "shared" / "data"
    return path if (path / "tools" / "movie.jsonl").is_file() else None


@pytest.fixture(scope="session")
def data_dir() -> Path:
    path = official_data()
    if path is None:
        pytest.skip("needs the official tool tasks: set AGENTGYM_DATA")
    return path


@pytest.fixture(scope="session")
def service() -> EmbeddedService:
    return embedded_service()


@pytest.fixture(scope="session")
def tasks() -> ToolTaskSet:
    return Movie.load_tasks(EnvironmentConfig())


@pytest.fixture(scope="session")
def official(data_dir: Path) -> ToolTaskSet:
    return Movie.load_tasks(EnvironmentConfig(data_dir=data_dir))
