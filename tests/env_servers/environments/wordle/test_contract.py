"""Wordle keeps what the SDK promises of every environment."""

from env_servers.sdk.contract import EnvironmentContract


class TestWordle(EnvironmentContract):
    environment_name = "wordle"
