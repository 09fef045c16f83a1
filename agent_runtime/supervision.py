"""Background tasks that do not die in silence.

A task that nobody awaits loses its exception: what it did (restarting servers, renewing leases)
just stops. A supervised task is logged with its traceback when it dies, and whoever depends on it
is called. Cancelling a task is how it is ended on purpose, and no failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agent_runtime.logs import get_logger

__all__ = ["Supervisor", "cancel_tasks", "supervise"]

log = get_logger(__name__)

T = TypeVar("T")
OnFailure = Callable[[BaseException], None]

_running: set[asyncio.Task[Any]] = set()
"""Supervised tasks: the event loop itself only has weak references to tasks."""


def supervise(
    coroutine: Coroutine[Any, Any, T], name: str, *, on_failure: OnFailure | None = None
) -> asyncio.Task[T]:
    """Start a background task and keep it until it ends.

    Args:
        coroutine: What the task does.
        name: Names the task in logs, for example "watch environment servers".
        on_failure: Called with the exception when the task died of one.

    Returns:
        The task; cancel it to end it.
    """
    task = asyncio.create_task(coroutine, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)

    def report(ended: asyncio.Task[T]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is None:
            return
        log.error("background task died", task=name, error=repr(error), exc_info=error)
        if on_failure is not None:
            on_failure(error)

    task.add_done_callback(report)
    return task


async def cancel_tasks(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks and wait until they have ended; what they died of is not raised.

    Unlike `await task` under `suppress(CancelledError)` this neither raises what the task died of
    nor swallows the cancellation of the caller.
    """
    unfinished = [task for task in tasks if task is not None and not task.done()]
    for task in unfinished:
        task.cancel()
    if unfinished:
        await asyncio.wait(unfinished)


class Supervisor:
    """The background tasks of one object: started one by one, ended together."""

    def __init__(self, on_failure: OnFailure | None = None) -> None:
        """`on_failure` is called with the exception of any task that dies."""
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self, coroutine: Coroutine[Any, Any, T], name: str, *, on_failure: OnFailure | None = None
    ) -> asyncio.Task[T]:
        """Start a task as `supervise` does; `on_failure` takes the place of the common one."""
        task = supervise(coroutine, name, on_failure=on_failure or self._on_failure)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self) -> None:
        """Wait until all tasks have ended by themselves."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        await cancel_tasks(*self._tasks)
