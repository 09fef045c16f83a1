"""An environment that waits: `meet` for another episode of the process, `hang` for ever.

Any other action only counts, `linger` slowly. `exit` ends the process. With the setting
`meeting.loads`, a file, it can be loaded once, and the file has a line for each time it was tried.
"""

import asyncio
import copy
import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import (
    Advice,
    AsyncEnvironment,
    EnvironmentConfig,
    EnvironmentSpec,
    EnvironmentUnavailable,
    Execution,
    Observation,
    ResetOptions,
    Task,
    TaskSet,
    View,
)
from env_servers.toolkit.drawing import text_view

_waiting: list[asyncio.Event] = []


class Meeting(AsyncEnvironment):
    spec: ClassVar[EnvironmentSpec] = replace(
        EchoEnvironment.spec, name="meeting", execution=Execution.PROCESS
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        if path := config.settings.get("meeting.loads"):
            with Path(path).open("a+") as loads:
                loads.write("loaded\n")
                loads.seek(0)
                if len(loads.readlines()) > 1:
                    raise EnvironmentUnavailable("it was loaded already")
        return echo_tasks()

    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        self.steps = 0
        self.drawing = False
        return Observation("Step 0, begun.")

    async def step_async(self, action: str) -> Observation:
        assert not self.drawing, "a step began while a picture was made"
        if action == "hang":
            await asyncio.Event().wait()
        if action == "exit":
            os._exit(1)
        if action == "meet":
            await self._meet()
        await asyncio.sleep(0.2 if action == "linger" else 0)
        self.steps += 1
        return Observation(f"Step {self.steps}, {action}.")

    async def render_async(self) -> list[View]:
        self.drawing = True
        await asyncio.sleep(0.2)
        self.drawing = False
        return [text_view("steps", "Steps", str(self.steps))]

    async def _meet(self) -> None:
        if _waiting:
            _waiting.pop().set()
            return
        met = asyncio.Event()
        _waiting.append(met)
        await met.wait()

    async def fork_async(self) -> "Meeting":
        return copy.copy(self)

    async def advise_expert_async(self, seed: int) -> Advice:
        return Advice(f"say {self.steps}")


environment = Meeting
