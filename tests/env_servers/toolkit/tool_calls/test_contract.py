"""An environment on the tool layer keeps what the SDK promises, and takes no harm."""

from env_servers.sdk.contract import EnvironmentContract
from env_servers.toolkit.tool_calls.hostile import HostileInputContract
from tests.env_servers.toolkit.tool_calls.stall import Stall


class TestStall(EnvironmentContract):
    environment = Stall


class TestHostileInput(HostileInputContract):
    environment_name = "tests.env_servers.toolkit.tool_calls.stall"
