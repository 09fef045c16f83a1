"""The environment servers of a run on a cluster: on every node, followed as nodes come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from agent_runtime.logs import get_logger
from agent_runtime.spawned_server import RestartBackoff
from agent_runtime.supervision import Supervisor
from orchestrator.discovery import Member, ToldSource
from orchestrator.errors import FleetError, UsageError
from orchestrator.ray_cluster.actors import Actor, ActorLost, Host
from orchestrator.ray_cluster.messages import Problem
from orchestrator.ray_cluster.placement import Node, Slot, server_needs
from orchestrator.ray_cluster.server import EnvironmentServer
from orchestrator.servers import FleetConfig

__all__ = ["ServerPool"]

log = get_logger(__name__)

_END_SECONDS: Final = 10.0
"""For which the servers may take to end in order."""


class ServerPool:
    """Servers on the nodes of a cluster; `source` lists those that are up."""

    def __init__(
        self,
        host: Host,
        environments: Sequence[str],
        config: FleetConfig,
        *,
        token: str,
        skip_unavailable: bool,
    ) -> None:
        """Describe what is served; `want` says where."""
        self.source = ToldSource()
        self.on_event: Callable[[str], None] = lambda _event: None
        self._host = host
        self._environments = tuple(environments)
        self._config = config
        self._token = token
        self._skip_unavailable = skip_unavailable
        self._tasks: dict[Slot, asyncio.Task[None]] = {}
        self._actors: dict[Slot, Actor] = {}
        self._leaving: set[Actor] = set()
        """Servers that drain."""
        self._members: dict[Slot, Member] = {}
        self._problem: UsageError | FleetError | None = None
        self._changed = asyncio.Event()
        self._background = Supervisor()

    def want(self, slots: Sequence[Slot], draining: Collection[Node] = ()) -> None:
        """Have a server in each of these slots, and in no other.

        Those on draining nodes end with their last episodes; the others' nodes are gone.
        """
        for slot in slots:
            if slot not in self._tasks:
                task = self._background.start(self._keep(slot), f"server on {slot.node.host}")
                self._tasks[slot] = task
        for slot in self._tasks.keys() - set(slots):
            self._tasks.pop(slot).cancel()
            if slot.node in draining and slot in self._members:
                actor = self._actors.pop(slot)
                self._background.start(self._see_off(actor), f"drain {self._members[slot].address}")
            self._drop(slot)

    async def first(self) -> None:
        """Wait until a server is up; raises UsageError, FleetError where one cannot start."""
        patience = self._config.wait_for_servers
        try:
            async with asyncio.timeout(patience):
                while not self._members:
                    if self._problem is not None:
                        raise self._problem
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            raise FleetError(
                f"no server has started on the Ray cluster within {patience:g} s: `ray status` "
                f"tells whether others hold what one reserves, "
                f"{server_needs(self._environments)}"
            ) from None

    async def close(self) -> None:
        """End the servers."""
        await self._background.close()
        actors = (*self._actors.values(), *self._leaving)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                ending = (actor.call("close") for actor in actors)
                await asyncio.gather(*ending, return_exceptions=True)
        for actor in actors:
            actor.kill()

    async def _keep(self, slot: Slot) -> None:
        backoff = RestartBackoff()
        while True:
            began = time.monotonic()
            await self._serve(slot)
            self._drop(slot)
            delay = backoff.next_delay(time.monotonic() - began)
            if delay is None:
                log.error("servers of a node given up", node=slot.node.host)
                return
            await asyncio.sleep(delay)

    async def _serve(self, slot: Slot) -> None:
        """Run a server from its start until it is lost."""
        actor = self._actors[slot] = self._host.start(
            EnvironmentServer,
            slot.node,
            server_needs(self._environments),
            environments=self._environments,
            number=slot.number,
            host=slot.node.host,
            token=self._token,
            data=self._config.data,
            options=self._config.server_options,
            skip_unavailable=self._skip_unavailable,
        )
        try:
            said: str | Problem = await actor.call("start")
            if isinstance(said, Problem):
                self._note_problem(slot, said)
                return
            log.info("server joins", server=said, node=slot.node.id)
            self._members[slot] = Member(said, node=slot.node.id)
            self._tell_members()
            await actor.call("wait_given_up")
        except ActorLost as error:
            log.warning("server lost", node=slot.node.host, error=str(error))
            self.on_event(f"a server on {slot.node.host} is lost: {error}")

    async def _see_off(self, actor: Actor) -> None:
        """End a server when its last episode has ended; it is not listed any more."""
        self._leaving.add(actor)
        try:
            await actor.call("drain")
        except ActorLost as error:  # with its node, which was not waited for
            log.warning("server lost while it drained", error=str(error))
        self._leaving.remove(actor)
        actor.kill()

    def _note_problem(self, slot: Slot, problem: Problem) -> None:
        text = f"on node {slot.node.host}: {problem.message}"
        log.error("server did not start", problem=text)
        kind = UsageError if problem.kind == "usage" else FleetError
        self._problem = self._problem or kind(text)
        self.on_event(text)
        self._changed.set()

    def _drop(self, slot: Slot) -> None:
        if (actor := self._actors.pop(slot, None)) is not None:
            actor.kill()
        if self._members.pop(slot, None) is not None:
            self._tell_members()

    def _tell_members(self) -> None:
        self.source.members = tuple(self._members.values())
        self._changed.set()
