"""WebShop keeps the contract of all environments."""

from env_servers.sdk.contract import EnvironmentContract


class TestWebshop(EnvironmentContract):
    environment_name = "webshop"
