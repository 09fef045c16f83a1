"""Background tasks of a server: reaping leases, watching the parent; and what if one dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any, Final

from env_servers.server.logs import get_logger
from env_servers.server.table import EpisodeTable

__all__ = ["Upkeep", "UpkeepFailed", "reap_leases", "watch_parent"]

_REAP_SECONDS: Final = 1.0
_PARENT_SECONDS: Final = 1.0

log = get_logger("env_servers.upkeep")


class UpkeepFailed(Exception):
    """Raised when a server ends because one of its background tasks died."""


class Upkeep:
    """Runs a server's background tasks in one task group: one that dies ends them all."""

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        """Set when a task has died: the server has to end."""
        self._work: dict[str, Coroutine[Any, Any, None]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Add a task; has to come before `start`."""
        self._work[name] = work

    def start(self) -> None:
        """Run the tasks."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Cancel the tasks and wait until they have ended."""
        for work in self._work.values():
            work.close()  # where `start` never came
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        work, self._work = self._work, {}
        try:
            async with asyncio.TaskGroup() as group:
                for name, coroutine in work.items():
                    group.create_task(self._report(name, coroutine), name=name)
        except ExceptionGroup:
            # Logged by `_report`, with its traceback; `serve` ends the server.
            self.failed.set()

    async def _report(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("background task died", task=name)
            raise


async def reap_leases(table: EpisodeTable) -> None:
    """Discard the episodes whose lease has run out, for ever."""
    while True:
        await asyncio.sleep(_REAP_SECONDS)
        table.reap()


async def watch_parent(parent: int) -> None:
    """Ask this process to end once its parent is another one than `parent`."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)
    log.warning("parent process is gone", parent=parent)
    os.kill(os.getpid(), signal.SIGTERM)
