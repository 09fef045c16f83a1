"""A run to write to."""

import pytest

from orchestrator.store import RunStore
from tests.orchestrator.records import build_manifest, build_session


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs" / "first"


@pytest.fixture
def store(folder):
    with RunStore.create(folder, build_manifest(), build_session()) as store:
        yield store
