"""Processes on the nodes of a cluster, as a run sees them, whatever starts them.

`cluster` makes them of Ray's actors; tests make them of objects in their own process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from orchestrator.ray_cluster.placement import Needs, Node

__all__ = ["Actor", "ActorLost", "Host"]


class ActorLost(Exception):
    """When an actor is dead, or its node is not reached."""


class Actor(Protocol):
    """An object in a process of its own, on some node."""

    async def call(self, method: str, *arguments: object) -> Any:
        """Return what a method returns; raises ActorLost."""
        ...

    def kill(self) -> None:
        """End its process at once, as far as it can be reached; do not wait for it."""
        ...


class Host(Protocol):
    """Where actors are started."""

    async def nodes(self) -> Sequence[Node]:
        """Return the nodes that are alive; raises ClusterError."""
        ...

    def start(self, kind: type[Any], node: Node, needs: Needs, **arguments: object) -> Actor:
        """Make an object of a class in a new process on a node; calls wait until it is there."""
        ...
