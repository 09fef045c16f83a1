"""What belongs on which node of a cluster: how many servers and workers, and what they reserve.

Pure. Ray starts an actor where what it reserves is free; here is said what that is, so that a node
that lacks it is named before anything waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from orchestrator.errors import UsageError
from orchestrator.ray_config import RayConfig

__all__ = ["Needs", "Node", "Slot", "check_room", "place", "server_needs"]

_GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a cluster that is alive."""

    id: str
    host: str = field(compare=False)
    """Its address within the cluster."""
    cpus: float = field(compare=False)
    memory: float = field(compare=False)
    """Bytes that may be reserved on it."""
    draining: bool = field(default=False, compare=False)
    """It is to leave the cluster: nothing new belongs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What an actor reserves."""

    cpus: float = 1.0
    memory: float = 0.0
    """Bytes."""

    def __add__(self, other: Needs) -> Needs:
        return Needs(cpus=self.cpus + other.cpus, memory=self.memory + other.memory)

    def __mul__(self, count: int) -> Needs:
        return Needs(cpus=self.cpus * count, memory=self.memory * count)

    def beyond(self, others: Needs) -> Needs:
        """Return what of this is not among the others'."""
        return Needs(
            cpus=max(0.0, self.cpus - others.cpus), memory=max(0.0, self.memory - others.memory)
        )

    def __str__(self) -> str:
        cpus = f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}"
        memory = f"{self.memory / _GIB:.1f} GiB of memory"
        parts = [cpus] * bool(self.cpus) + [memory] * bool(self.memory)
        return " and ".join(parts) or "nothing"


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for one actor on a node."""

    node: Node
    number: int


_BESIDE: Final = {
    # 1.1 GiB with 1,000 episodes on two cores (the environment's README), more with more cores.
    "sciworld": Needs(cpus=0.0, memory=2 * _GIB),
    # 2 GiB with 60 live episodes, most of it the browser's; a process of its own draws pages.
    "webarena": Needs(cpus=1.0, memory=4 * _GIB),
}
"""What a server reserves beside its one CPU where an environment runs an engine of its own."""
_WORKER: Final = Needs()


def server_needs(environments: Iterable[str]) -> Needs:
    """Return what one server of some environments reserves."""
    return sum((_BESIDE[name] for name in environments if name in _BESIDE), start=Needs())


def place(
    nodes: Sequence[Node], config: RayConfig, server: Needs, *, servers: bool
) -> tuple[list[Slot], list[Slot]]:
    """Return where servers and where workers belong; nodes without room for what is asked get none.

    Args:
        nodes: Those that are alive; draining ones get nothing.
        config: How many on each node.
        server: What a server reserves.
        servers: Whether servers are started at all.
    """
    for_servers: list[Slot] = []
    for_workers: list[Slot] = []
    for node in nodes:
        if node.draining:
            continue
        workers, count = _counts(node, config, server, servers=servers)
        for_servers += [Slot(node, number) for number in range(count)]
        for_workers += [Slot(node, number) for number in range(workers)]
    return for_servers, for_workers


def _counts(node: Node, config: RayConfig, server: Needs, *, servers: bool) -> tuple[int, int]:
    """Return how many workers and servers a node gets."""
    workers = config.ray_workers or max(1, int(node.cpus) // 2)
    count = (config.ray_servers or workers) if servers else 0
    if not config.ray_servers and server.memory and count:
        # Nobody asked for a number: as many as there is memory for, and one at least.
        count = max(1, min(count, int(node.memory // server.memory)))
    while not config.ray_workers and workers > 1 and not _fits(node, workers, count, server):
        workers -= 1
    while not config.ray_servers and count > 1 and not _fits(node, workers, count, server):
        count -= 1
    return (workers, count) if _fits(node, workers, count, server) else (0, 0)


def _fits(node: Node, workers: int, servers: int, server: Needs) -> bool:
    needs = _WORKER * workers + server * servers
    return needs.cpus <= node.cpus and needs.memory <= node.memory


def check_room(
    nodes: Sequence[Node], config: RayConfig, environments: Sequence[str], *, servers: bool
) -> None:
    """Raise UsageError where no node has room for a worker and what is started beside it."""
    server = server_needs(environments)
    if any(place(nodes, config, server, servers=servers)):
        return
    workers = config.ray_workers or 1
    count = (config.ray_servers or 1) if servers else 0
    needs = _WORKER * workers + server * count
    largest = max(nodes, key=lambda node: (node.cpus, node.memory), default=None)
    has = Needs(cpus=largest.cpus, memory=largest.memory) if largest else Needs(cpus=0.0)
    raise UsageError(
        f"no node of the Ray cluster has room for {workers} workers and {count} servers of "
        f"{', '.join(environments)}: they reserve {needs}{_explain(environments)}, and the largest "
        f"of {len(nodes)} nodes has {has}, so it lacks {needs.beyond(has)}; give --ray-workers, "
        "--ray-servers or larger nodes"
    )


def _explain(environments: Sequence[str]) -> str:
    """Say what a server reserves beside its CPU, by environment; empty = nothing."""
    beside = [f"{_BESIDE[name]} for {name}" for name in environments if name in _BESIDE]
    return f" (each server {' and '.join(beside)} beside its CPU)" if beside else ""
