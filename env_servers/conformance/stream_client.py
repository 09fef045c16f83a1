"""One Interact stream as a check sees it: commands in, events out, nothing hidden.

Events are kept until somebody takes them, so that a check can say which one it expects next and
which must not come. It repairs nothing: a stream that breaks stays broken.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import grpc.aio

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import Violation

__all__ = ["StreamClient"]


class StreamClient:
    """A stream with a reader that is always on."""

    def __init__(self, call: Any, timeout: float) -> None:
        self._call = call
        self._timeout = timeout
        self._events: list[pb.Event] = []
        self._arrived = asyncio.Event()
        self.messages = 0
        """Responses received so far."""
        self.ended = False
        self.error: grpc.aio.AioRpcError | None = None
        """What the stream ended with; None while it lives, or when it ended well."""
        self._reader = asyncio.create_task(self._read())

    async def send(self, *commands: pb.Command) -> None:
        """One message with these commands."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(pb.InteractRequest(commands=commands))

    async def ask(self, command: pb.Command) -> pb.Event:
        """Send one command and take the event of its episode and seq that comes next."""
        await self.send(command)
        return await self.answer(command)

    async def ask_all(self, commands: Iterable[pb.Command]) -> list[pb.Event]:
        """Send commands in one message; their events in the order of the commands."""
        batch = list(commands)
        await self.send(*batch)
        return [await self.answer(command) for command in batch]

    async def answer(self, command: pb.Command) -> pb.Event:
        """Take the next event of a command's episode and seq."""
        return await self.take(
            lambda event: event.episode_id == command.episode_id and event.seq == command.seq,
            f"an event of episode {command.episode_id[:40]!r}, seq {command.seq}",
        )

    async def take(self, matches: Callable[[pb.Event], bool], description: str) -> pb.Event:
        """Take the first event that is wanted; raises Violation when it does not come."""
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    for index, event in enumerate(self._events):
                        if matches(event):
                            return self._events.pop(index)
                    if self.ended:
                        reason = self.error.details() if self.error else "without an error"
                        raise Violation(f"the stream ended before {description} came: {reason}")
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise Violation(f"{description} did not come within {self._timeout:g} s") from None

    def untaken_events(self) -> list[pb.Event]:
        """Events that have arrived and that nobody took."""
        return list(self._events)

    async def finish(self) -> list[pb.Event]:
        """Half-close and wait for the server's end; the events that came meanwhile."""
        await self._call.done_writing()
        try:
            async with asyncio.timeout(self._timeout):
                await self._reader
        except TimeoutError:
            raise Violation("the server does not end a stream that the client ended") from None
        return self.untaken_events()

    async def write_bytes(self, data: bytes) -> None:
        """Send raw bytes; only on a stream that was opened raw."""
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await self._call.write(data)

    async def wait_end(self) -> None:
        """Wait until the server ends the stream; raises Violation."""
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(self._reader)
        except TimeoutError:
            raise Violation("the stream goes on") from None

    async def drop(self) -> None:
        """Lose the stream, as a broken connection would."""
        self._call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        try:
            async for response in self._call:
                self.messages += 1
                self._events += response.events
                self._arrived.set()
        except grpc.aio.AioRpcError as error:
            self.error = error
        finally:
            self.ended = True
            self._arrived.set()
