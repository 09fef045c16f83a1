"""The promises that every environment keeps, on embedded games."""

from __future__ import annotations

from env_servers.sdk.contract import EnvironmentContract


class TestAlfworld(EnvironmentContract):
    environment_name = "alfworld"
