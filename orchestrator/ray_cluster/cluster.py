"""Ray itself: the one module of runs that imports it, and only when one asks for a cluster."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, cast

from agent_runtime.logs import get_logger
from orchestrator.errors import ClusterError, ExtraMissing, UsageError
from orchestrator.ray_cluster.actors import Actor, ActorLost
from orchestrator.ray_cluster.placement import Needs, Node
from orchestrator.ray_config import RayConfig

__all__ = ["RayHost", "check_address", "import_ray", "joined_cluster", "open_cluster"]

log = get_logger(__name__)

_LOCAL: Final = "local"
_CONNECT_SECONDS: Final = 10.0
_HEAD_SECONDS: Final = 20.0
"""For which the head may be away: one that is started again with its state is back by then."""
_CALLS: Final = 64
"""Calls of one actor at once: one waits for news while another ends it."""


def import_ray() -> Any:
    """Return the module; raises ExtraMissing."""
    # Nobody is told how Ray is used here unless somebody has said so.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ExtraMissing("--ray", extra="ray") from error


@asynccontextmanager
async def open_cluster(config: RayConfig) -> AsyncGenerator[RayHost]:
    """Join a cluster, or start one of this machine alone, and leave or end it.

    Actors end with the process that started them: with this one, however it ends. Raises
    ExtraMissing, UsageError where no cluster answers or its Ray or Python is another one.
    """
    ray = import_ray()
    if ray.is_initialized():  # a program that uses Ray itself: its cluster is the one
        yield RayHost(ray)
        return
    await check_address(config.address)
    await asyncio.to_thread(_join, ray, config.address)
    try:
        yield RayHost(ray)
    finally:
        await asyncio.to_thread(ray.shutdown)


async def check_address(address: str) -> None:
    """Raise UsageError where nobody listens: Ray would try for four minutes, then end this process.

    Names that Ray knows itself, as `auto`, it looks up at once.
    """
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    if "://" in address or not port.isdecimal():
        raise UsageError(f"--ray {address!r} is neither auto, local nor HOST:PORT of a head")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except OSError as error:  # the timeout, too
        raise UsageError(_absent(address, error)) from error
    writer.close()


def _absent(address: str, error: Exception) -> str:
    return (
        f"no Ray cluster answers at {address!r} ({error or 'in time'}): start one with `ray start "
        "--head`, name its head as HOST:PORT, or play on this machine alone with --ray local"
    )


@contextmanager
def joined_cluster(ray: Any, address: str) -> Generator[None]:
    """Join or start a cluster, whose processes' output is shown here, and leave or end it.

    Raises UsageError where no cluster answers at an address that `check_address` let pass, or its
    Ray or Python is another one.
    """
    _join(ray, address, show_output=True)
    try:
        yield
    finally:
        ray.shutdown()


def _join(ray: Any, address: str, *, show_output: bool = False) -> None:
    settings: dict[str, Any] = {"log_to_driver": show_output, "logging_level": "error"}
    if address == _LOCAL:
        settings["include_dashboard"] = False
    try:
        ray.init(address=address, **settings)
    except (ConnectionError, ValueError) as error:
        raise UsageError(_absent(address, error)) from error
    except RuntimeError as error:  # Ray says so where its or Python's version is another one
        raise UsageError(f"the Ray cluster at {address!r} cannot be used: {error}") from error


class RayHost:
    """A Ray cluster as `actors.Host`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._kinds: dict[type[Any], Any] = {}
        self._client: Any = None

    async def nodes(self) -> Sequence[Node]:
        """Return the nodes that are alive; raises ClusterError where the head is gone.

        Ray itself would end this process a minute after its head, and `ray.nodes` wait until then.
        """

        def ask() -> tuple[Collection[str], Sequence[Mapping[str, Any]]]:
            draining = self._head().get_draining_nodes(timeout=_HEAD_SECONDS)
            return draining, self._ray.nodes()

        try:
            draining, listed = await asyncio.to_thread(ask)
        except self._ray.exceptions.RayError as error:
            raise ClusterError(
                f"the head of the Ray cluster does not answer ({error}): all finished episodes are "
                "kept; start a cluster and resume the run"
            ) from error
        return [
            _to_node(entry, draining=entry["NodeID"] in draining)
            for entry in listed
            if entry["Alive"]
        ]

    def _head(self) -> Any:
        """Return a client of the head, as Ray's own libraries have: nothing else knows drains."""
        if self._client is None:
            internals = importlib.import_module("ray._raylet")
            address = self._ray.get_runtime_context().gcs_address
            self._client = internals.GcsClient(address=address)
        return self._client

    def start(self, kind: type[Any], node: Node, needs: Needs, **arguments: object) -> Actor:
        """Start an actor on a node; it is not restarted by Ray."""
        if kind not in self._kinds:
            self._kinds[kind] = self._ray.remote(kind)
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        strategy = strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
        handle = (
            self._kinds[kind]
            .options(
                num_cpus=needs.cpus,
                memory=needs.memory or None,
                scheduling_strategy=strategy,
                max_concurrency=_CALLS,
                max_restarts=0,
                max_task_retries=0,
            )
            .remote(**arguments)
        )
        return _RayActor(self._ray, handle)


def _to_node(entry: Mapping[str, Any], *, draining: bool) -> Node:
    resources = cast("Mapping[str, float]", entry["Resources"])
    return Node(
        id=entry["NodeID"],
        host=entry["NodeManagerAddress"],
        cpus=resources.get("CPU", 0.0),
        memory=resources.get("memory", 0.0),
        draining=draining,
    )


class _RayActor:
    """A Ray actor as `actors.Actor`."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray = ray
        self._handle = handle

    async def call(self, method: str, *arguments: object) -> Any:
        """Return what a method returns; raises ActorLost."""
        errors = self._ray.exceptions
        try:
            return await getattr(self._handle, method).remote(*arguments)
        except errors.RayTaskError:
            raise  # a defect of ours, with its traceback over there
        except errors.RayError as error:
            raise ActorLost(str(error).partition("\n")[0]) from error

    def kill(self) -> None:
        """End the process; Ray does so as soon as it reaches the node."""
        self._ray.kill(self._handle, no_restart=True)
