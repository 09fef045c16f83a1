"""Echo in another version: what answers at a server's address after it was replaced."""

from dataclasses import replace
from typing import ClassVar, Final

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation

SIGN: Final = "This is version two."
"""Begins each of its answers."""


class OtherEcho(EchoEnvironment):
    """The same game in other words, under another version."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, version="2")

    def step(self, action: str) -> Observation:
        answer = super().step(action)
        return answer._replace(text=f"{SIGN} {answer.text}")


environment = OtherEcho
