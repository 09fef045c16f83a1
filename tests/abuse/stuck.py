"""An environment with one task whose second step never comes back from native code."""

import itertools
from collections import deque
from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation, Task

STUCK = "echo_1010000"


class Stuck(EchoEnvironment):
    """Echo, but for the second step of one task: it keeps the interpreter's lock for ever."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="tests.abuse.stuck")
    item_id = ""

    def reset(self, task: Task, options):
        self.item_id = task.item_id
        return super().reset(task, options)

    def step(self, action: str) -> Observation:
        if self.item_id == STUCK and self.episode.steps == 1:
            deque(itertools.repeat(None), maxlen=0)
        return super().step(action)


environment = Stuck
