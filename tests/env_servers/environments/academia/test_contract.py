"""Academia keeps the contract of all environments, and takes no harm."""

from env_servers.sdk.contract import EnvironmentContract
from env_servers.toolkit.tool_calls.hostile import HostileInputContract


class TestAcademia(EnvironmentContract):
    environment_name = "academia"


class TestHostileInput(HostileInputContract):
    environment_name = "academia"
