"""SearchQA keeps the contract of all environments."""

from env_servers.sdk.contract import EnvironmentContract


class TestSearchQA(EnvironmentContract):
    environment_name = "searchqa"
