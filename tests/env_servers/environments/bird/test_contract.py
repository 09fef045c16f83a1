"""BIRD keeps the contract of all environments."""

from env_servers.sdk.contract import EnvironmentContract


class TestBird(EnvironmentContract):
    environment_name = "bird"
