"""A command that executes away from the event loop, and those who wait for its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server import errors

__all__ = ["BackgroundTasks", "InFlight"]

T = TypeVar("T")


class InFlight(Generic[T]):
    """One executing command: the opening of an episode, a step or a consultation."""

    __slots__ = ("cancelled", "closed", "owner", "request", "seq", "task")

    def __init__(
        self, seq: int, request: object, task: asyncio.Task[T], *, owner: str = ""
    ) -> None:
        """`request` identifies the command: an equal one joins it, another one is refused."""
        self.seq = seq
        self.request = request
        self.task = task
        self.owner = owner
        """Name of the client whose command it is, for the opening of an episode."""
        self.closed = False
        """The episode was closed while this opened it."""
        self.cancelled: asyncio.Future[None] = task.get_loop().create_future()
        """Settled when those who wait now are to give up; whoever asks later waits afresh."""

    def join(self, command: pb.Command) -> Coroutine[Any, Any, T]:
        """Return a wait for the outcome on behalf of a command that arrives now.

        The wait raises CommandError when the command is cancelled or its deadline passes first.
        """
        # Taken now: a cancellation may come before the coroutine runs for the first time.
        return self._wait(self.cancelled, command)

    def cancel_waiters(self) -> None:
        """Let all current waiters give up; the command itself goes on."""
        self.cancelled.set_result(None)
        self.cancelled = self.task.get_loop().create_future()

    def close(self) -> None:
        """Let all waiters give up, and let whoever finishes the command know that it was closed."""
        self.closed = True
        self.cancel_waiters()

    async def _wait(self, cancelled: asyncio.Future[None], command: pb.Command) -> T:
        if self.task.done():  # as an inline opening is by now
            return self.task.result()
        timeout = command.deadline_ms / 1000 or None
        done, _ = await asyncio.wait(
            {self.task, cancelled}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if self.task in done:
            return self.task.result()
        raise errors.cancelled(command) if done else errors.deadline_exceeded(command)


class BackgroundTasks:
    """Tasks that outlive the stream that asked for them: openings, steps and consultations."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        """Also keeps the tasks alive: the event loop itself holds only weak references."""

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run work; whoever waits for the task reports its error."""
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self._forget)
        return task

    def cancel(self) -> None:
        """Cancel everything that still runs."""
        for task in self.running:
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled():
            # Marks the error as seen: all who waited for the task may have given up.
            task.exception()
