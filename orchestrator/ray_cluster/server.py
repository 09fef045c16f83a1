"""An environment server on a node of a cluster: its process, started, watched, restarted."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agent_runtime.channel import TOKEN_VARIABLE
from agent_runtime.errors import ServerArgumentsInvalid, ServerNotStarted
from agent_runtime.logs import get_logger
from agent_runtime.spawned_server import LogFolder, SpawnedServer
from agent_runtime.temporary_folders import TemporaryFolder
from orchestrator.ray_cluster.messages import Problem

__all__ = ["EnvironmentServer"]

log = get_logger(__name__)

_DRAIN_SECONDS: Final = 24 * 3600.0
"""For which episodes may go on where a node drains: whoever drains it knows for how long."""


class EnvironmentServer:
    """One server process. `start` it, end it by `close`."""

    def __init__(
        self,
        environments: Sequence[str],
        number: int,
        *,
        host: str,
        token: str,
        data: Path | None,
        options: Sequence[str],
        skip_unavailable: bool,
    ) -> None:
        """Describe a server.

        Args:
            environments: What it serves.
            number: Tells it from the others of the node.
            host: Address of this node, where the others reach it.
            token: Opens it; nobody else who reaches the port may play.
            data: Folder of official data files on this node.
            options: Further arguments of `python -m env_servers serve`.
            skip_unavailable: Serve the others where an environment is not installed.
        """
        os.environ[TOKEN_VARIABLE] = token
        self._folder = TemporaryFolder()
        self._given_up = asyncio.Event()
        self._server = SpawnedServer(
            environments,
            number,
            sockets=self._folder.path,
            logs=LogFolder(self._folder.path),
            on_failure=lambda _error: self._given_up.set(),
            tell=lambda event: log.warning("server", happened=event),
            address=f"{host}:{_free_port(host)}",
            data=data,
            # Plain text, which the token does not protect from who listens within the cluster.
            # Its clients are workers of one run, which shares its places out itself: a server that
            # kept some free for those that ask for none now would take fewer than it says.
            options=("--insecure", "--no-fair-shares", *options),
            skip_unavailable=skip_unavailable,
            drain=_DRAIN_SECONDS,
        )

    async def start(self) -> str | Problem:
        """Start the server; return its address, or why it does not start."""
        try:
            await self._server.start()
        except ServerArgumentsInvalid as error:
            return Problem("usage", str(error))
        except ServerNotStarted as error:
            return Problem("fleet", str(error))
        return self._server.address

    async def wait_given_up(self) -> None:
        """Wait until the server is not restarted any more."""
        await self._given_up.wait()

    async def drain(self) -> None:
        """Take no new episodes; end the server with the last one that it has."""
        await self._server.drain()
        self._folder.remove()

    async def close(self) -> None:
        """End the server."""
        await self._server.stop()
        self._folder.remove()


def _free_port(host: str) -> int:
    """Return a port that nobody listens on now: a server that is restarted has to keep its own."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
