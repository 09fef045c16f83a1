"""An environment with one task that ends the process which plays it, as the OOM killer would."""

import os
import signal
from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation, Task

BOMB = "echo_1010000"


class Bomb(EchoEnvironment):
    """Echo, but for the third step of one task."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="tests.abuse.bomb")
    item_id = ""

    def reset(self, task: Task, options):
        self.item_id = task.item_id
        return super().reset(task, options)

    def step(self, action: str) -> Observation:
        observation = super().step(action)
        if self.item_id == BOMB and self.episode.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return observation


environment = Bomb
