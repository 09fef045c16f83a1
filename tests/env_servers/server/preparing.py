"""Echo with tasks that are prepared only when a test lets them, by the events of this module."""

import threading
from dataclasses import replace
from typing import ClassVar

from env_servers.environments.echo import EchoEnvironment
from env_servers.environments.echo.tasks import echo_tasks
from env_servers.sdk import EnvironmentConfig, EnvironmentSpec, Task, TaskSet

asked, allowed = threading.Event(), threading.Event()
threads: list[str] = []
"""Of each preparation that began."""
faults: list[Exception] = []
"""What the next preparations raise."""


class PreparedTasks(TaskSet):
    def __init__(self) -> None:
        self._prepared: TaskSet | None = None

    def prepare(self) -> None:
        threads.append(threading.current_thread().name)
        asked.set()
        assert allowed.wait(60)
        if faults:
            raise faults.pop()
        self._prepared = echo_tasks()

    @property
    def _tasks(self) -> TaskSet:
        assert self._prepared is not None, "asked before it was prepared"
        return self._prepared

    def splits(self):
        return self._tasks.splits()

    def item_ids(self, split, start, stop):
        return self._tasks.item_ids(split, start, stop)

    def get(self, item_id) -> Task:
        return self._tasks.get(item_id)


class Preparing(EchoEnvironment):
    spec: ClassVar[EnvironmentSpec] = replace(EchoEnvironment.spec, name="preparing")

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        return PreparedTasks()


environment = Preparing
