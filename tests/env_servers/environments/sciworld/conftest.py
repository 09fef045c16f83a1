from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("scienceworld", reason="needs the extra sciworld")

from env_servers.environments.sciworld import SciWorld
from env_servers.environments.sciworld.java import find_java
from env_servers.environments.sciworld.simulator_pool import SimulatorPool
from env_servers.environments.sciworld.tasks import SciWorldTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable
from tests.kit.data import data_fixture

HEAP_MIB = 512


data_dir = data_fixture("sciworld")


@pytest.fixture(scope="session")
def java() -> Path:
    try:
        return find_java()
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tasks(java: Path) -> Iterator[SciWorldTasks]:
    """One pool for all tests that do not break theirs."""
    settings = {"sciworld.heap_mib": HEAP_MIB, "sciworld.java": str(java)}
    loaded = SciWorld.load_tasks(EnvironmentConfig(settings=settings))
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def pool(java: Path) -> Iterator[SimulatorPool]:
    """A pool that tests may break; it mends itself."""
    made = SimulatorPool(java, HEAP_MIB)
    yield made
    made.close()
