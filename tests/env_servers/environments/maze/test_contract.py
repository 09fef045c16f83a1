"""Maze keeps what the SDK promises of every environment."""

from env_servers.sdk.contract import EnvironmentContract


class TestMaze(EnvironmentContract):
    environment_name = "maze"
