"""Echo in another version: what answers at a server's address after it was replaced."""

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec


class OtherEcho(EchoEnvironment):
    """The same game as far as anybody can see, under another version."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, version="2")


environment = OtherEcho
