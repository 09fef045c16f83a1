"""A cluster without Ray: its actors are objects of this process, which die when they are told."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

from orchestrator.ray_cluster.actors import ActorLost
from orchestrator.ray_cluster.placement import Needs, Node
from orchestrator.ray_cluster.worker import WorkerProcess

__all__ = ["LocalActor", "LocalHost"]


class LocalActor:
    """An object that can be killed: who waits for it, and who calls it afterwards, is told."""

    def __init__(self, made: Any) -> None:
        self._object = made
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def made(self) -> Any:
        """The object, or the worker of a worker's process."""
        return self._object.worker if self.is_worker else self._object

    @property
    def dead(self) -> bool:
        return self._dead.done()

    @property
    def is_worker(self) -> bool:
        return isinstance(self._object, WorkerProcess)

    async def call(self, method: str, *arguments: object) -> Any:
        if self._dead.done():
            raise ActorLost("it is dead")
        work = asyncio.ensure_future(getattr(self._object, method)(*arguments))
        await asyncio.wait([work, self._dead], return_when=asyncio.FIRST_COMPLETED)
        if self._dead.done():
            work.cancel()
            raise ActorLost("it died")
        return work.result()

    def kill(self) -> None:
        if not self._dead.done():
            self._dead.set_result(None)
            if (task := getattr(self.made, "_task", None)) is not None:
                task.cancel()


class LocalHost:
    """Nodes that come and go as a test says."""

    def __init__(self, nodes: int = 2) -> None:
        self.alive = [self.node(number) for number in range(nodes)]
        self.actors: list[LocalActor] = []

    @staticmethod
    def node(number: int) -> Node:
        return Node(id=f"node-{number}", host="127.0.0.1", cpus=2.0, memory=8.0 * (1 << 30))

    async def nodes(self) -> Sequence[Node]:
        return list(self.alive)

    def start(self, kind: type[Any], node: Node, needs: Needs, **arguments: Any) -> LocalActor:
        arguments = pickle.loads(pickle.dumps(arguments))  # as they come to another process
        if kind is WorkerProcess:  # its process is the test's, too
            arguments["on_lease_end"] = lambda: None
        self.actors.append(LocalActor(kind(**arguments)))
        return self.actors[-1]

    def workers(self) -> list[LocalActor]:
        return [it for it in self.actors if it.is_worker]

    @asynccontextmanager
    async def open(self, _config: object):
        """Take the place of `open_cluster`."""
        yield self
