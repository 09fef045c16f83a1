"""A cluster without Ray, for all tests of this folder."""

from __future__ import annotations

import pytest

from orchestrator.ray_cluster import workplace
from tests.orchestrator.ray_cluster.local_host import LocalHost


@pytest.fixture
def host(monkeypatch):
    def make(nodes: int = 2) -> LocalHost:
        host = LocalHost(nodes)
        monkeypatch.setattr(workplace, "open_cluster", host.open)
        monkeypatch.setattr(workplace, "_NODES_SECONDS", 0.05)
        return host

    return make
