"""The project's own runtime as a contender of `benchmark.load`, on the path that users take.

Nothing is switched off: idempotency, response cache, leases, journals and state hashes are on.
"""

from __future__ import annotations

import sys
from typing import Final

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.drive import Target, open_each
from benchmark.load import Contender

__all__ = ["SYSTEM", "SYSTEM_UNIX", "SystemClient"]

_NOTE: Final = "whole path: cache, leases, journal and state hash on; uvloop on both sides"


def _server(bind: str) -> tuple[str, ...]:
    command = (sys.executable, "-m", "env_servers", "serve", "{environment}")
    return (*command, "--bind", bind, "--log-level", "error", "--drain", "0")


SYSTEM: Final = Contender(
    name="AgentGym over gRPC",
    client="benchmark.system:SystemClient",
    server=_server("127.0.0.1:{port}"),
    loop="uvloop",
    note=f"{_NOTE}; TCP",
)
SYSTEM_UNIX: Final = Contender(
    name="AgentGym over gRPC, Unix socket",
    client="benchmark.system:SystemClient",
    server=_server("unix:{socket}"),
    transport="unix",
    loop="uvloop",
    note=f"{_NOTE}; Unix socket",
)


class SystemClient:
    """The client library, one coroutine per episode."""

    def __init__(self, target: Target) -> None:
        self._environment = target.environment
        self._connection = Connection(target.address)
        self._episodes: list[RemoteEpisode] = []

    async def open(self, episodes: int, prefix: str = "load") -> None:
        """Open episodes that never end (echo) or that play one task for ever."""
        await self._connection.start()
        split = "train"
        page = await self._connection.list_tasks(self._environment, split, page_size=1)
        for number in range(episodes):
            item = page.tasks[0].item_id
            reset = pb.Reset(environment=self._environment, item_id=item, seed=number)
            if self._environment == "echo":
                reset.options.update({"length": 0})
            self._episodes.append(RemoteEpisode(self._connection, f"{prefix}-{number}", reset))

        async def open_one(number: int) -> None:
            await self._episodes[number].reset()

        await open_each(episodes, open_one)

    async def step(self, episode: int, action: str) -> str:
        """One step of one episode."""
        return (await self._episodes[episode].step(action))[1]

    async def close(self) -> None:
        """Close the connection; the server is stopped by whoever started it."""
        await self._connection.close()
