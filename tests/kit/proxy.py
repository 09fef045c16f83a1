"""A TCP proxy that misbehaves: it cuts, stalls, refuses, and leaves the far side hanging.

Either a test tells it to (`cut`, `refusing`), or it does so by itself, as often as `Faults` says.
Every fault is counted, so that a run can show what it went through. It knows nothing of gRPC.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

__all__ = ["Faults", "FaultyProxy"]

_CHUNK = 16 * 1024
"""Bytes passed on at a time: messages of some size are cut in the middle."""
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with time 0: closing sends RST instead of FIN."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a proxy misbehaves by itself; seconds between two faults of a kind, 0 = never."""

    reset_every: float = 2.0
    """Both sides are cut with RST."""
    stall_every: float = 3.0
    """All data is held back for `stall_seconds`."""
    stall_seconds: float = 1.0
    orphan_every: float = 4.0
    """The client is cut while the server goes on seeing a live connection, beside the one that
    the client opens next."""


_OBEDIENT = Faults(reset_every=0.0, stall_every=0.0, orphan_every=0.0)


@dataclass(slots=True, eq=False)
class _Link:
    """One proxied connection."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])


class FaultyProxy:
    """Forwards a listening port to a target address, badly."""

    def __init__(
        self, target: str, faults: Faults = _OBEDIENT, rng: random.Random | None = None
    ) -> None:
        """`target` is HOST:PORT; without `faults` it misbehaves only when it is told to."""
        self.counts: Counter[str] = Counter()
        """Faults and connections."""
        self.address = ""
        self.refusing = False
        """Whether new connections are hung up on."""
        self.plan: dict[int, Callable[[], None]] = {}
        """What to do, once each, when so many chunks have come from clients in all. Chunks are what
        a read gave: a client in another process is met in mid-play, however fast it is."""
        self._faults = faults
        self._rng = rng or random.Random(0)
        self._links: set[_Link] = set()
        self._orphans: list[asyncio.StreamWriter] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.retarget(target)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        faults = self._faults
        self._tasks = [
            asyncio.create_task(self._repeat(faults.reset_every, self._reset)),
            asyncio.create_task(self._repeat(faults.stall_every, self._stall)),
            asyncio.create_task(self._repeat(faults.orphan_every, self._orphan)),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        if self._server is not None:
            self._server.close()
        pumps = [task for link in self._links for task in link.tasks]
        for link in list(self._links):
            self._break(link)
        for writer in self._orphans:
            writer.close()
        await asyncio.gather(*self._tasks, *pumps, return_exceptions=True)

    def retarget(self, target: str) -> None:
        """Forward new connections to another address."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))

    def cut(self) -> None:
        """Break all connections as a failing network does: with a reset, in mid-message."""
        self.counts["cuts"] += bool(self._links)
        for link in list(self._links):
            self.counts["resets"] += 1
            self._break(link)

    async def cut_at_random(
        self, seed: object, *, shortest: float = 0.01, longest: float = 0.1
    ) -> None:
        """Cut again and again, after times from `shortest` to `longest` seconds."""
        rng = random.Random(str(seed))
        while True:
            await asyncio.sleep(rng.uniform(shortest, longest))
            self.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        self.counts["connections"] += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, far_writer)
        self._links.add(link)
        link.tasks = [
            asyncio.create_task(self._pump(link, reader, far_writer)),
            asyncio.create_task(self._pump(link, far_reader, writer)),
        ]

    async def _pump(
        self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK):
                await self._flowing.wait()
                sink.write(data)
                await sink.drain()
                if sink is link.server:
                    self._follow_plan()
        if link in self._links:
            self._break(link)

    def _follow_plan(self) -> None:
        self.counts["chunks"] += 1
        if (act := self.plan.pop(self.counts["chunks"], None)) is not None:
            act()

    async def _repeat(self, every: float, misbehave: Callable[[], Awaitable[None]]) -> None:
        while every:
            await asyncio.sleep(every * self._rng.uniform(0.5, 1.5))
            await misbehave()

    async def _reset(self) -> None:
        self.cut()

    async def _stall(self) -> None:
        self.counts["stalls"] += 1
        self._flowing.clear()
        await asyncio.sleep(self._faults.stall_seconds)
        self._flowing.set()

    async def _orphan(self) -> None:
        for link in list(self._links):
            self.counts["orphans"] += 1
            self._links.discard(link)
            for task in link.tasks:
                task.cancel()
            _reset_socket(link.client)
            self._orphans.append(link.server)

    def _break(self, link: _Link) -> None:
        self._links.discard(link)
        for writer in (link.client, link.server):
            _reset_socket(writer)
        for task in link.tasks:
            task.cancel()


def _reset_socket(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
