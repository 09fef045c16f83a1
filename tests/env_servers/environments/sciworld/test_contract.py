from __future__ import annotations

import pytest

pytest.importorskip("scienceworld", reason="needs the extra sciworld")

from env_servers.sdk import EnvironmentConfig
from env_servers.sdk.contract import EnvironmentContract, Terms


class TestSciWorld(EnvironmentContract):
    environment_name = "sciworld"
    config = EnvironmentConfig(settings={"sciworld.heap_mib": 384})
    # Short tasks of three kinds: bees and circuits among them.
    terms = Terms(items=("sciworld_2936", "sciworld_1096", "sciworld_4065"), steps=12)
