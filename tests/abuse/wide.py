"""An environment whose observations are as long as the action says."""

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation


class Wide(EchoEnvironment):
    """Answers a number with so many characters, a negative one with them as info."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="wide")

    def step(self, action: str) -> Observation:
        answer = super().step(action)
        if action.startswith("-"):
            return answer._replace(info={"x": "y" * -int(action)})
        return answer._replace(text="x" * int(action)) if action.isdecimal() else answer


environment = Wide
