"""An environment that takes as much memory as the action says: `at once MIB` or `slowly MIB`."""

import time
from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation

_MIB = 1024 * 1024
_SLICE = 32


class Hog(EchoEnvironment):
    """Echo, but for actions that name an amount."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="hog")

    def step(self, action: str) -> Observation:
        how, _, amount = action.rpartition(" ")
        if how == "at once":
            kept = [bytearray(int(amount) * _MIB)]
        elif how == "slowly":
            kept = []
            for _ in range(int(amount) // _SLICE):
                kept.append(b"x" * (_SLICE * _MIB))
                time.sleep(0.1)
        return super().step(action)


environment = Hog
