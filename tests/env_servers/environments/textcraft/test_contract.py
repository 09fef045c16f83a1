"""Textcraft keeps what the SDK promises of every environment."""

from env_servers.sdk.contract import EnvironmentContract


class TestTextcraft(EnvironmentContract):
    environment_name = "textcraft"
