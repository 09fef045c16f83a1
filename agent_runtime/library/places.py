"""Servers that the library plays on: found at an address or started here, and shared.

All environments of one event loop that are asked for alike share one server process and one
connection, so that the commands of all their episodes travel together. The last one to leave ends
the server.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakKeyDictionary

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.logs import get_logger
from agent_runtime.spawned_server import LogFolder, SpawnedServer
from agent_runtime.temporary_folders import TemporaryFolder

__all__ = ["OpenPlace", "Place", "close_places", "enter", "leave"]

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which server an environment is played on."""

    environment: str
    target: str = ""
    """HOST:PORT or unix:PATH of a running server; empty = one is started here."""
    data: Path | None = None
    """Folder of official data files for a server that is started; default: AGENTGYM_DATA."""
    server_options: tuple[str, ...] = ()
    """Further arguments of `python -m env_servers serve`."""
    connection: ConnectionOptions


class OpenPlace:
    """A connection that several environments share, and the server behind it if it is ours."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.users = 0
        self._stack = AsyncExitStack()
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Open between `open` and `close`."""
        assert self._connection is not None
        return self._connection

    async def open(self) -> None:
        """Connect, to a new server if need be; raises ServerNotStarted, ConnectionLost."""
        async with AsyncExitStack() as stack:
            address = self.place.target or await self._spawn(stack)
            connection = Connection(address, self.place.connection)
            await connection.start()
            stack.push_async_callback(connection.close)
            self._connection, self._stack = connection, stack.pop_all()

    async def close(self) -> None:
        """Close the connection, end the server and remove its folder."""
        await self._stack.aclose()

    async def _spawn(self, stack: AsyncExitStack) -> str:
        folder = TemporaryFolder()
        stack.callback(folder.remove)
        server = SpawnedServer(
            [self.place.environment],
            0,
            sockets=folder.path,
            logs=LogFolder(folder.path),
            # Whoever plays finds out by ConnectionLost; both calls were logged already.
            on_failure=lambda _error: None,
            tell=lambda _event: None,
            data=self.place.data,
            options=self.place.server_options,
        )
        stack.push_async_callback(server.stop)
        await server.start()
        return server.address


@dataclass(slots=True)
class _LoopPlaces:
    """What one event loop has open."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """So that two that ask at the same time get the same server."""
    open: dict[Place, OpenPlace] = field(default_factory=dict[Place, OpenPlace])


_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopPlaces] = WeakKeyDictionary()


def _places() -> _LoopPlaces:
    return _of_loop.setdefault(asyncio.get_running_loop(), _LoopPlaces())


async def enter(place: Place) -> OpenPlace:
    """Return the open place, which is shared; give it back with `leave`.

    Raises:
        ServerNotStarted: The server that is to be started does not come up.
        ConnectionLost: Nobody answers at the address.
        ConnectionMisconfigured: The token would travel in plain text, or TLS files do not fit.
        ContractMismatch: The server speaks another revision of the protocol.
    """
    places = _places()
    async with places.opening:
        shared = places.open.get(place)
        if shared is None or shared.connection.lost:
            # Those that still hold a lost one leave it by themselves.
            shared = OpenPlace(place)
            await shared.open()
            places.open[place] = shared
        shared.users += 1
        return shared


async def leave(shared: OpenPlace) -> None:
    """Give a place back; the last one closes it."""
    shared.users -= 1
    if shared.users:
        return
    places = _places()
    if places.open.get(shared.place) is shared:
        del places.open[shared.place]
    await shared.close()


async def close_places() -> None:
    """Close everything that this loop has open, whoever still uses it."""
    places = _places()
    while places.open:
        _, shared = places.open.popitem()
        await shared.close()
