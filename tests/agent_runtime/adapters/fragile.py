"""An environment with one task whose second step fails."""

from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.sdk import EnvironmentSpec, Observation, Task

NAME = "tests.agent_runtime.adapters.fragile"
BREAKS = "echo_1000001"


class Fragile(EchoEnvironment):
    """Echo, but for the second step of one task."""

    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name=NAME)
    item_id = ""

    def reset(self, task: Task, options):
        self.item_id = task.item_id
        return super().reset(task, options)

    def step(self, action: str) -> Observation:
        if self.item_id == BREAKS and self.episode.steps == 1:
            raise RuntimeError("it is broken")
        return super().step(action)


environment = Fragile
