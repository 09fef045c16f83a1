"""A cluster as a run uses it: servers and workers on its nodes, as nodes come and go."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from agent_runtime.channel import TOKEN_VARIABLE, ConnectionOptions
from agent_runtime.logs import get_logger
from agent_runtime.policies import PolicySpec
from agent_runtime.redaction import remember
from agent_runtime.supervision import Supervisor
from orchestrator.active_runs import ActiveRun, Work
from orchestrator.config import RunConfig
from orchestrator.discovery import ToldSource
from orchestrator.errors import ClusterError
from orchestrator.fleet import Fleet
from orchestrator.leases import LeasePolicy
from orchestrator.ray_cluster.actors import Actor, Host
from orchestrator.ray_cluster.cluster import open_cluster
from orchestrator.ray_cluster.driver import RolloutDriver, Staffing
from orchestrator.ray_cluster.installation import installed_versions
from orchestrator.ray_cluster.messages import Outcome, RunPart, Welcome
from orchestrator.ray_cluster.placement import Needs, Node, Slot, check_room, place, server_needs
from orchestrator.ray_cluster.servers import ServerPool
from orchestrator.ray_cluster.worker import WorkerProcess
from orchestrator.run_folder import WriterLock, is_written, shard_folder
from orchestrator.run_limits import RunAccount
from orchestrator.scheduler import Scheduler
from orchestrator.store import RunReader, RunStore

__all__ = ["Workplace", "open_workplace", "wait_for_workers"]

log = get_logger(__name__)

_NODES_SECONDS: Final = 2.0
"""Between two looks at which nodes there are."""
_WORKER_NEEDS: Final = Needs()
_LOOK_SECONDS: Final = 0.2
"""Between two looks at the lock of a shard."""


async def wait_for_workers(store: RunReader, lease: float) -> None:
    """Wait until the workers of a former session have ended: what they record has to be known.

    They end when their driver has, or with their leases of so many seconds. Raises RunLocked where
    one goes on.
    """
    end = time.monotonic() + 2 * lease
    for name in store.manifest.shards:
        shard = shard_folder(store.folder, name)
        while is_written(shard):
            if time.monotonic() > end:
                WriterLock(shard).release()  # says who writes
            await asyncio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def open_workplace(
    config: RunConfig, environments: Sequence[str], *, skip_unavailable: bool
) -> AsyncGenerator[Workplace]:
    """Join or start the cluster of a run, with servers on it unless the run names its own.

    Raises what `open_cluster` raises, UsageError where no node has room or a server cannot be
    started, ClusterError, FleetError.
    """
    async with open_cluster(config.cluster) as host, AsyncExitStack() as stack:
        workplace = Workplace(host, config, environments, skip_unavailable=skip_unavailable)
        stack.push_async_callback(workplace.close)
        await workplace.start()
        yield workplace


class Workplace:
    """Servers and workers of a run on the nodes of a cluster."""

    def __init__(
        self,
        host: Host,
        config: RunConfig,
        environments: Sequence[str],
        *,
        skip_unavailable: bool,
    ) -> None:
        self._host = host
        self._config = config
        self._environments = tuple(environments)
        self._token = ""
        self.servers: ServerPool | None = None
        """None = the run names servers that are running already."""
        if not config.fleet.running:
            # Servers listen on their nodes' addresses, where others might play, too.
            self._token = os.environ.get(TOKEN_VARIABLE, "") or secrets.token_urlsafe(32)
            remember(self._token)
            self.servers = ServerPool(
                host,
                environments,
                config.fleet,
                token=self._token,
                skip_unavailable=skip_unavailable,
            )
        self._slots: Sequence[Slot] = ()
        """Where workers belong."""
        self._idle: dict[Slot, Actor] = {}
        """Processes whose workers ended in order: what is played next begins there at once."""
        self._driver: RolloutDriver | None = None
        self._lost: ClusterError | None = None
        """Why nothing can be played here any more."""
        self._background = Supervisor()

    @property
    def source(self) -> ToldSource | None:
        """Lists the servers; None = the run itself names where they are."""
        return self.servers.source if self.servers is not None else None

    async def start(self) -> None:
        """Start the servers, wait for the first one, and follow the cluster's nodes from now on."""
        nodes = await self._host.nodes()
        with_servers = self.servers is not None
        check_room(nodes, self._config.cluster, self._environments, servers=with_servers)
        await self._look()
        if self.servers is not None:
            await self.servers.first()
        self._background.start(self._follow(), "follow the nodes")

    async def close(self) -> None:
        """End the servers and idle processes; the workers have ended with what they played."""
        await self._background.close()
        self._end_idle(())
        if self.servers is not None:
            await self.servers.close()

    def options(self, options: ConnectionOptions) -> ConnectionOptions:
        """Return how this process reaches the servers."""
        if not self._token:
            return options
        security = replace(options.security, token=self._token, insecure=True)
        return replace(options, security=security)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_NODES_SECONDS)
            try:
                await self._look()
            except ClusterError as error:
                self._lost = error
                if self._driver is not None:
                    self._driver.fail(error)
                return

    async def _look(self) -> None:
        """Have servers and workers where they belong on the nodes of now."""
        nodes = await self._host.nodes()
        with_servers = self.servers is not None
        for_servers, for_workers = place(
            nodes,
            self._config.cluster,
            server_needs(self._environments),
            servers=with_servers,
        )
        self._slots = for_workers
        self._end_idle(for_workers)
        draining = {node for node in nodes if node.draining}
        if self.servers is not None:
            self.servers.want(for_servers, draining)
        if self._driver is not None:
            self._driver.want(for_workers, draining)

    def make_player(
        self,
        runs: Sequence[ActiveRun],
        fleet: Fleet,
        policies: Mapping[str, PolicySpec],
        work: Work,
    ) -> RolloutDriver:
        """Return what has runs played here.

        Args:
            runs: What is played; each worker has a shard of each.
            fleet: Knows the servers of now.
            policies: What workers play, by the names that records give.
            work: What is left to play, and who is told.
        """
        parts = [
            RunPart(
                config=run.config,
                folder=run.store.folder.resolve(),
                manifest=run.store.manifest,
                tasks=run.tasks,
            )
            for run in runs
        ]
        return self.drive(
            parts,
            [run.store for run in runs],
            fleet,
            policies,
            work.scheduler,
            account=work.account,
            on_outcome=lambda outcome: work.progress.count(outcome.counts),
            on_limit=work.on_limit,
            tell=work.progress.tell,
        )

    def drive(
        self,
        parts: Sequence[RunPart],
        stores: Sequence[RunStore],
        fleet: Fleet,
        policies: Mapping[str, PolicySpec],
        scheduler: Scheduler,
        *,
        account: RunAccount,
        on_outcome: Callable[[Outcome], None],
        on_limit: Callable[[str], None],
        tell: Callable[[str], None],
    ) -> RolloutDriver:
        """Return what has a scheduler's episodes played here; one after the other, several times.

        Args:
            parts: The runs, as workers need to know them.
            stores: Of the runs, in the same order.
            fleet: Knows the servers of now.
            policies: What workers play, by the names that records give.
            scheduler: Says which episode is next.
            account: What may be spent.
            on_outcome: Sees what became of every episode, once its record is stored.
            on_limit: Is told that a limit was reached.
            tell: Is told what happens to servers and workers.

        Raises:
            ClusterError: The cluster was lost meanwhile.
        """
        if self._lost is not None:
            raise self._lost
        if self.servers is not None:
            self.servers.on_event = tell
        lease = self._config.cluster.ray_lease
        driver = self._driver = RolloutDriver(
            scheduler,
            fleet,
            self._staffing(parts, stores, policies),
            on_outcome,
            account=account,
            on_limit=on_limit,
            tell=tell,
            leases=LeasePolicy(seconds=lease, fence=2 * lease),
        )
        driver.want(self._slots)
        return driver

    def _staffing(
        self,
        parts: Sequence[RunPart],
        stores: Sequence[RunStore],
        policies: Mapping[str, PolicySpec],
    ) -> Staffing:
        sessions = stores[0].manifest.sessions

        return Staffing(
            hire=self._hire,
            welcome=lambda name, slot: self._welcome(name, slot.node, parts, policies),
            release=self._release,
            stores=stores,
            versions=installed_versions(sessions[-1].code_hash or ""),
            concurrency=self._config.concurrency,
            source=self.source,
            patience=self._config.fleet.wait_for_servers,
            session=len(sessions),
        )

    def _hire(self, slot: Slot) -> Actor:
        """Return the idle process of a slot, or a new one."""
        idle = self._idle.pop(slot, None)
        return idle or self._host.start(WorkerProcess, slot.node, _WORKER_NEEDS)

    def _release(self, slot: Slot, actor: Actor) -> None:
        """Keep a process for what is played next, where workers belong there still."""
        if slot in self._slots:
            self._idle[slot] = actor
        else:
            actor.kill()

    def _end_idle(self, wanted: Collection[Slot]) -> None:
        """End the processes in which nobody works, but those of some slots."""
        for slot in self._idle.keys() - set(wanted):
            self._idle.pop(slot).kill()

    def _welcome(
        self,
        name: str,
        node: Node,
        parts: Sequence[RunPart],
        policies: Mapping[str, PolicySpec],
    ) -> Welcome:
        return Welcome(
            name=name,
            node=node.id,
            runs=tuple(parts),
            policies=policies,
            workers=max(1, len(self._slots)),
            members=tuple(self.servers.source.members) if self.servers is not None else None,
            token=self._token,
            lease=self._config.cluster.ray_lease,
        )
