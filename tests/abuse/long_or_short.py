"""Tasks of odd numbers take twelve steps and succeed, the others take two and do not.

So long episodes are the successes, and whatever hits long ones more hits the score. A step may end
its process, as an OOM kill does. Not deterministic: a lost episode cannot be rebuilt.
"""

import os
import random
from dataclasses import replace
from typing import ClassVar, Final

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation, StopReason

HAZARD: Final = 0.025
"""Of a step that it ends its worker: about a fifth of all attempts are lost."""


class LongOrShort(EchoEnvironment):
    """Half of the tasks are long and won."""

    spec: ClassVar[EnvironmentSpec] = replace(
        EchoEnvironment.spec, name="long_or_short", deterministic=False
    )

    def step(self, action: str) -> Observation:
        if random.random() < HAZARD:
            os._exit(1)
        text = super().step(action).text
        won = int(self.episode.identity.decode().split("_")[1].split("'")[0]) % 2 == 1
        ended = self.episode.steps == (12 if won else 2)
        if not ended:
            return Observation(text)
        reason = StopReason.GOAL_REACHED if won else StopReason.GOAL_FAILED
        return Observation(text, reward=float(won), terminated=True, stop_reason=reason)


environment = LongOrShort
