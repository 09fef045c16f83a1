"""Which official tasks can be played here, and why the others cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from env_servers.environments.webarena.official.logins import Logins
from env_servers.environments.webarena.official.settings import OfficialSettings
from env_servers.environments.webarena.official.sites import Site
from env_servers.environments.webarena.official.stage import OfficialStage
from env_servers.environments.webarena.official.task_file import (
    AGENTEVAL,
    OfficialTask,
    read_tasks,
)
from env_servers.sdk import EnvironmentUnavailable, UnknownItem

__all__ = ["OfficialTasks"]

_PUBLISHED: Final = 812


class OfficialTasks:
    """The tasks of the published file."""

    def __init__(self, path: Path | None, settings: OfficialSettings) -> None:
        """`path` is the task file, if there is one. Raises DamagedTasks."""
        self.settings = settings
        self._logins = Logins(settings.sites, settings.accounts)
        tasks = () if path is None else read_tasks(path)
        self._tasks = {task.number: task for task in tasks}
        playable = [task.number for task in tasks if self._lack(task) is None]
        listed = {
            "official_eval": [number for number in AGENTEVAL if number in playable],
            "official_test": [number for number in playable if number not in AGENTEVAL],
        }
        self.splits: Mapping[str, Sequence[int]] = {
            name: numbers for name, numbers in listed.items() if numbers
        }
        """Numbers of tasks that can be played, of splits that have any."""

    def get(self, number: int) -> OfficialTask:
        """Return a task.

        Raises:
            EnvironmentUnavailable: It cannot be played here; says what it needs.
            UnknownItem: It is not in the file.
        """
        if not self._tasks and number < _PUBLISHED:
            raise EnvironmentUnavailable(
                f"webarena_{number} is an official task: it needs config_files/test.raw.json of "
                "WebArena at webarena/test.raw.json in the folder that AGENTGYM_DATA or --data "
                "names, and the addresses of its sites (--set webarena.shopping=http://HOST:PORT)"
            )
        task = self._tasks.get(number)
        if task is None:
            numbers = f"webarena_0..webarena_{max(self._tasks, default=_PUBLISHED - 1)} (official)"
            raise UnknownItem(f"unknown item webarena_{number}", valid=numbers)
        if (lack := self._lack(task)) is not None:
            raise lack
        return task

    def stage(self, task: OfficialTask) -> OfficialStage:
        """Return the stage of one episode."""
        return OfficialStage(task, self.settings, self._logins)

    def digest(self) -> bytes:
        """Return what identifies the tasks that can be played, and who judges them."""
        digest = hashlib.blake2b(self.settings.judge.name.encode(), digest_size=8)
        for numbers in self.splits.values():
            for number in numbers:
                task = self._tasks[number]
                digest.update(f"{number}\0{task.intent}\0{task.start_urls}\0{task.entry}".encode())
        return digest.digest() if self.splits else b""

    def _lack(self, task: OfficialTask) -> EnvironmentUnavailable | None:
        """What a task cannot be played without."""
        try:
            task.place(self.settings.sites)
        except EnvironmentUnavailable as error:
            return EnvironmentUnavailable(f"{task.item_id}: {error}")
        needed = {*task.logins, *([Site.SHOPPING_ADMIN] if task.asks_the_shop else [])}
        lacking = sorted(site for site in needed if site not in self.settings.accounts)
        if lacking:
            return EnvironmentUnavailable(
                f"{task.item_id} needs an account on {' and '.join(lacking)}: say "
                "--set webarena.accounts=FILE with its name and password"
            )
        return None
