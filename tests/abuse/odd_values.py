"""Echo whose last observation carries a figure that depends on the task's number."""

from dataclasses import replace
from typing import ClassVar, Final

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation

FIGURES: Final = {
    0: {"reward": float("nan")},
    1: {"reward": 1.0, "score": float("inf")},
    2: {"reward": 1e308},
    3: {"reward": 1e308},
}
"""By the last digit of the item; the others are echo's own."""


class OddValues(EchoEnvironment):
    """Gives NaN, infinity or rewards whose sum is no float, in four of ten tasks."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="odd_values")

    def step(self, action: str) -> Observation:
        answer = super().step(action)
        number = int(self.episode.identity.decode().split("_")[1].split("'")[0])
        return answer._replace(**FIGURES.get(number % 10, {})) if answer.terminated else answer


environment = OddValues
