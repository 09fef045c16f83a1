"""The ceiling: one TCP connection for all episodes, length-prefixed msgpack, coalesced both ways.

A frame is 4 bytes of length (big endian) and a msgpack list of items. Items up: [episode, action],
or [episode, task index] to reset; items down: [episode, observation, reward, done]. The client
flushes when its event loop has run everything that was ready, at most MAX_ITEMS a frame; the
server answers one frame with one frame and lets its event loop send it before it takes the next,
so that both sides work at the same time. Both sides on uvloop. No resilience of any kind: this is
what the hardware and Python allow, not something to use.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgpack

from benchmark.baselines.entry import ServerArguments, read_arguments, run_server
from benchmark.baselines.game import Game, open_games
from benchmark.drive import Target

__all__ = ["FrameTooLong", "Frames", "MsgpackClient", "serve"]

MAX_ITEMS: Final = 128
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
LENGTH: Final = struct.Struct("!I")


class FrameTooLong(Exception):
    """The peer announced a frame beyond MAX_FRAME_BYTES."""


class Frames:
    """Cuts a byte stream into frames, however it arrives."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        """The frames that are complete now. Raises FrameTooLong."""
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        while size - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(data, at)
            if length > MAX_FRAME_BYTES:
                raise FrameTooLong(f"frame of {length} bytes")
            end = at + LENGTH.size + length
            if end > size:
                break
            yield msgpack.unpackb(data[at + LENGTH.size : end])
            at = end
        self._rest = data[at:]

    @staticmethod
    def pack(items: list[Any]) -> bytes:
        """One frame."""
        body = cast("bytes", msgpack.packb(items))
        return LENGTH.pack(len(body)) + body


class _Connection(asyncio.Protocol):
    """The server's side of one connection and its episodes."""

    _transport: asyncio.Transport

    def __init__(self, make_game: Callable[[], Game]) -> None:
        self._make_game = make_game
        self._games: dict[int, Game] = {}
        self._frames = Frames()
        self._ready: deque[list[Any]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No isinstance: uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        idle = not self._ready
        try:
            self._ready.extend(self._frames.feed(data))
        except (FrameTooLong, ValueError, msgpack.UnpackException):
            self._transport.abort()
            return
        if idle and self._ready:
            self._answer()

    def _answer(self) -> None:
        try:
            answers = [self._play(episode, command) for episode, command in self._ready.popleft()]
        except (KeyError, TypeError, ValueError):
            self._transport.abort()
            return
        self._transport.write(Frames.pack(answers))
        if self._ready:
            asyncio.get_running_loop().call_soon(self._answer)

    def _play(self, episode: int, command: str | int) -> tuple[int, str, float, bool]:
        if isinstance(command, str):
            turn = self._games[episode].step(command)
        else:
            self._games[episode] = game = self._make_game()
            turn = game.reset(command)
        return episode, turn.observation, turn.reward, turn.done


class _Answers(asyncio.Protocol):
    """The client's side: hands items to whoever waits for them."""

    def __init__(self, waiting: dict[int, asyncio.Future[str]]) -> None:
        self._waiting = waiting
        self._frames = Frames()

    def data_received(self, data: bytes) -> None:
        waiting = self._waiting
        for items in self._frames.feed(data):
            for episode, observation, _reward, _done in items:
                future = waiting.pop(episode)
                # A cancelled step leaves its future behind; its answer is nobody's.
                if not future.done():
                    future.set_result(observation)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(exc or ConnectionResetError("the server closed"))


class MsgpackClient:
    """All episodes over one connection."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._ready: list[Any] = []
        self._transport: asyncio.Transport | None = None

    async def open(self, episodes: int) -> None:
        """Connect and reset every episode."""
        self._loop = asyncio.get_running_loop()
        host, port = self._target.host, self._target.port
        self._transport, _ = await self._loop.create_connection(
            lambda: _Answers(self._waiting), host, port
        )
        await asyncio.gather(*(self._ask(episode, episode) for episode in range(episodes)))

    def _ask(self, episode: int, command: str | int) -> asyncio.Future[str]:
        if not self._ready:
            self._loop.call_soon(self._flush)
        self._ready.append((episode, command))
        self._waiting[episode] = future = self._loop.create_future()
        return future

    def _flush(self) -> None:
        assert self._transport is not None, "open() comes first"
        items, self._ready = self._ready, []
        for start in range(0, len(items), MAX_ITEMS):
            self._transport.write(Frames.pack(items[start : start + MAX_ITEMS]))

    async def step(self, episode: int, action: str) -> str:
        """One item each way."""
        return await self._ask(episode, action)

    async def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


async def serve(arguments: ServerArguments) -> None:
    """Serve until cancelled."""
    make_game = open_games(arguments.environment)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(make_game), "127.0.0.1", arguments.port
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    run_server(serve(read_arguments(__doc__)))
