"""A stream's outgoing side: events are coalesced while the loop is busy and sent when it goes idle.

It holds the outbox, the credits and the episodes that hang on the stream. At most one write is in
flight; what is added meanwhile goes out with the next. What waits for the client to read counts on
its account, and its commands wait where that is too much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
from grpc.aio import BaseError

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.server.budget import Account

if TYPE_CHECKING:
    from env_servers.server.episode import Episode

__all__ = ["Stream"]

_MAX_BYTES = 256 * 1024
"""Observation text per message; larger messages stall the reader on the other side."""
_EVENT_BYTES = 200
"""Of an event beside its text."""
_MAX_BACKLOG = 16
"""Messages that may wait for a client that does not read, before its commands wait too."""


class Stream:
    """One Interact call."""

    __slots__ = (
        "_add",
        "_bytes",
        "_closed",
        "_counted",
        "_current",
        "_full",
        "_full_bytes",
        "_items",
        "_max_bytes",
        "_max_items",
        "_progress",
        "_send",
        "_sending_bytes",
        "_writing",
        "account",
        "backlogged",
        "client",
        "episodes",
        "in_flight",
        "max_in_flight",
        "owner",
        "tasks",
        "trace_context",
        "unhandled_bytes",
    )

    def __init__(
        self,
        send: Callable[[pb.InteractResponse], Awaitable[None]],
        *,
        client: str,
        account: Account,
        owner: str = "",
        max_items: int,
        max_in_flight: int,
        max_bytes: int,
        trace_context: Any = None,
    ) -> None:
        """Describe a call.

        Args:
            send: Writes a message.
            client: Peer address.
            account: What waits to be sent counts there.
            owner: Name of the authenticated client; empty = it is not told apart.
            max_items: Events per message.
            max_in_flight: Commands that may execute away from the loop at once.
            max_bytes: May wait to be sent before the client's commands wait, too.
            trace_context: That of the call's metadata, where the server traces.
        """
        self._send = send
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._begin_message()
        self._full: list[tuple[pb.InteractResponse, int]] = []
        self._full_bytes = self._sending_bytes = self._counted = 0
        self.backlogged = False
        """So much waits to be sent that no more commands should be handled before. Kept where the
        messages are: every command asks for it."""
        self.unhandled_bytes = 0
        """Of a message whose commands wait until the client reads."""
        self._writing = False
        self._closed = False
        self._progress: asyncio.Event | None = None
        self.client = client
        self.owner = owner
        self.account = account
        self.trace_context = trace_context
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        """Commands that execute away from the loop."""
        self.episodes: set[Episode] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def out_of_credits(self) -> bool:
        """As many commands are in flight as may be."""
        return self.in_flight >= self.max_in_flight

    def event(self, size: int = 0) -> pb.Event:
        """Return a new event in the outbox, to be filled in place; `size` bytes of text follow."""
        size += _EVENT_BYTES
        self._bytes += size
        self._items += 1
        if self._items > self._max_items or (self._bytes > _MAX_BYTES and self._items > 1):
            self._queue_message(self._bytes - size)
            self._bytes, self._items = size, 1
        return self._add()

    def _queue_message(self, size: int) -> None:
        """Let the current message, of `size` bytes, wait to be sent, and begin another one."""
        self._full.append((self._current, size))
        self._full_bytes += size
        self._judge_backlog()
        self._begin_message()

    def _take_message(self) -> pb.InteractResponse:
        """Return the message that waits longest, or else the current one."""
        if self._full:
            response, self._sending_bytes = self._full.pop(0)
            self._full_bytes -= self._sending_bytes
            self._judge_backlog()
            return response
        response, self._sending_bytes = self._current, self._bytes
        self._begin_message()
        return response

    def _judge_backlog(self) -> None:
        self.backlogged = len(self._full) >= _MAX_BACKLOG or self._full_bytes >= self._max_bytes

    def _begin_message(self) -> None:
        self._current = pb.InteractResponse()
        self._add = self._current.events.add
        self._bytes = self._items = 0

    def add_bytes(self, size: int) -> None:
        """Account for `size` bytes of an event whose size was not known beforehand."""
        self._bytes += size

    async def flush(self) -> None:
        """Send all that is in the outbox, or leave it to whoever is already at it.

        Waits where the client does not read: its own later commands must not fill the memory.
        """
        if self._writing or self._closed:
            self._count()
            while self.backlogged and not self._closed:
                await self._wait_for_progress()
            return
        self._writing = True
        try:
            while self._full or self._items:
                response = self._take_message()
                self._count()
                await self._send(response)
                self._sending_bytes = 0
                self._note_progress()
        except (asyncio.InvalidStateError, grpc.RpcError, BaseError):
            # The client is gone: the episodes keep their results for whoever attaches.
            self._closed = True
        finally:
            self._writing = False
            self._sending_bytes = 0
            self._count()
            self._note_progress()

    def _count(self) -> None:
        """Bring the account up to date."""
        held = self._full_bytes + self._bytes + self._sending_bytes + self.unhandled_bytes
        if self._closed:
            held = 0
        self.account.add_outbox(held - self._counted)
        self._counted = held

    async def _wait_for_progress(self) -> None:
        if self._progress is None:
            self._progress = asyncio.Event()
        await self._progress.wait()

    def _note_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    async def finish(self) -> None:
        """Wait for the commands that still execute and send their answers."""
        while self.tasks and not self._closed:
            await asyncio.wait(self.tasks)
        await self.flush()

    def spawn(self, answering: Awaitable[None]) -> None:
        """Answer a command in a task, which takes a credit; the stream's end cancels it."""
        self.in_flight += 1
        task = asyncio.ensure_future(self._answer(answering))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer(self, answering: Awaitable[None]) -> None:
        try:
            await answering
        finally:
            self.in_flight -= 1
        await self.flush()

    def close(self) -> None:
        """Drop the outbox and end the stream's tasks; episodes live on under their leases."""
        self._closed = True
        self._count()
        self._note_progress()
        for task in list(self.tasks):
            task.cancel()
