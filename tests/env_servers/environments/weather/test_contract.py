"""Weather keeps what the SDK promises of every environment, and takes no harm."""

from env_servers.sdk.contract import EnvironmentContract
from env_servers.toolkit.tool_calls.hostile import HostileInputContract


class TestWeather(EnvironmentContract):
    environment_name = "weather"


class TestHostileInput(HostileInputContract):
    environment_name = "weather"
