"""The environment servers of a run: found or spawned, and shared out by what they can take.

A fleet answers one question: which connection should a new episode use. Servers join and leave
while a run lasts, where their list changes; their health is watched, and one that drains gets no
new episodes. How much the others get `orchestrator.placement` decides. A lost server is tried for
ever and taken back when it answers again. Each time that a stream to a server is opened, it is
asked what it serves: another version of an environment than the run began with is refused, loudly,
and tried again later. Where no server of an environment is left the run waits, and stops at last;
it never gives episodes up for that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.errors import (
    AgentRuntimeError,
    ConnectionLost,
    EnvironmentFailure,
    ServerArgumentsInvalid,
    ServerNotStarted,
)
from agent_runtime.logs import get_logger
from agent_runtime.spawned_server import LogFolder, SpawnedServer
from agent_runtime.supervision import Supervisor
from agent_runtime.temporary_folders import TemporaryFolder
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.discovery import FixedSource, Member, Source, open_source
from orchestrator.errors import FleetError, UsageError
from orchestrator.placement import Placement
from orchestrator.records import enum_name
from orchestrator.server_handle import ServerHandle
from orchestrator.servers import FleetConfig

__all__ = ["Fleet", "FleetConfig", "Place"]

log = get_logger(__name__)

_REVIVE_SECONDS: Final = 1.0
"""Pause between two tries to reach a lost server."""
_REFUSED_SECONDS: Final = 10.0
"""Pause after a server was refused: somebody has to replace it first."""
_LOOK_SECONDS: Final = 0.1
"""Pause between two looks for a server that is back."""
_PAGE: Final = 10_000
_SERVERS_FAULTS: Final = (types_pb2.FAULT_ENVIRONMENT, types_pb2.FAULT_INFRASTRUCTURE)
_UNAVAILABLE: Final = enum_name(pb.ErrorReason, pb.ERROR_REASON_ENVIRONMENT_UNAVAILABLE)


class Place:
    """The place of one episode on a server; it moves with the episode, and is given back once."""

    def __init__(self, fleet: Fleet, environment: str, handle: ServerHandle) -> None:
        """Take a place."""
        self._fleet = fleet
        self._environment = environment
        self._handle = handle
        handle.place(environment, 1)

    @property
    def connection(self) -> Connection:
        """The way to the server."""
        return self._handle.connection

    async def reroute(self, left: Connection) -> Connection:
        """Move to another server than a lost, draining or full one; return the way to it.

        Waits where there is none; raises ConnectionLost when that took too long.
        """
        handle = await self._fleet.elsewhere(self._environment, left)
        handle.place(self._environment, 1)
        self.release()
        self._handle = handle
        return handle.connection

    def another(self) -> Place:
        """Take a further place on the same server, for a fork."""
        return Place(self._fleet, self._environment, self._handle)

    def observe(self, record: episode_pb2.Episode) -> None:
        """Note how an episode fared here: servers that fail or are slow get fewer."""
        self._fleet.observe(self._handle, record)

    def release(self) -> None:
        """Note that the episode is done with its server."""
        self._fleet.release(self._handle, self._environment)


class Fleet:
    """Connections to all servers of a run."""

    def __init__(
        self,
        environments: Sequence[str],
        config: FleetConfig,
        options: ConnectionOptions,
        *,
        optional: Collection[str] = (),
        logs: LogFolder | None = None,
        source: Source | None = None,
        node: str = "",
    ) -> None:
        """Describe a fleet; `start` or the context manager opens it.

        Args:
            environments: What must be served.
            config: Addresses, or what to spawn.
            options: How to connect.
            optional: Environments without which the fleet starts, too: `absent` says why.
            logs: Where spawned servers write their logs; None = a temporary folder that stays only
                where the fleet ends by an error.
            source: Where servers are listed; None = as `config` says.
            node: Machine of a cluster that this process is on: servers there are preferred.
        """
        self.environments = list(environments)
        self.described: dict[str, pb.GetEnvironmentResponse] = {}
        """What the servers say of each environment."""
        self.absent: dict[str, str] = {}
        """Optional environments that no server has, with the reason and what to do."""
        self.failure: FleetError | None = None
        """Why no episode can be played any more; None = some can."""
        self._on_failure: list[Callable[[FleetError], None]] = []
        self.on_event: Callable[[str], None] | None = None
        """Called with a sentence for people when a server joins, leaves, is lost, drains, is
        ejected, or is back."""
        self._on_change: list[Callable[[], None]] = []
        self._config = config
        self._options = options
        self._optional = frozenset(optional)
        self._logs = logs
        self._source = source
        self._node = node
        self._handles: list[ServerHandle] = []
        self._placement = Placement()
        self._spawned: list[SpawnedServer] = []
        self._given_up: set[str] = set()
        """Addresses of spawned servers that are not restarted any more."""
        self._waiting: set[str] = set()
        """Environments of which no server was left when somebody last asked."""
        self._folder: TemporaryFolder | None = None
        self._background = Supervisor()

    def __len__(self) -> int:
        """Return the number of servers, lost ones included."""
        return len(self._handles)

    @property
    def lost(self) -> int:
        """Number of servers that cannot be used now."""
        return sum(handle.connection.lost or bool(handle.refused) for handle in self._handles)

    @property
    def episodes(self) -> int:
        """Number of episodes that were placed here and not yet given back."""
        return sum(handle.episodes for handle in self._handles)

    @property
    def pids(self) -> list[int]:
        """Process ids of the servers that this fleet spawned."""
        return [server.pid for server in self._spawned]

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException as error:
            await self._close_after(error)
            raise
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self._close_after(error)

    async def start(self) -> None:
        """Spawn or find the servers; raises FleetError, ConnectionLost, UsageError."""
        source = self._source or open_source(self._config) or FixedSource(await self._spawn())
        for member in await self._first_members(source):
            self._add(member)
        await self._connect(all_of_them=not source.interval)
        for name in self.environments:
            await self._describe(name)
        for handle in list(self._handles):
            if handle.capacities:
                self._follow_server(handle, handle.connection)
            elif source.interval:
                self._revive_later(handle)
        self._background.start(self._look_for_lost(), "look for lost servers")
        if source.interval:
            self._background.start(self._follow_list(source), "follow the list of servers")

    async def close(self, *, keep_logs: bool = False) -> None:
        """Close the connections and end the servers that were spawned.

        A connection that cannot be closed is logged and holds nothing up: whatever happens, the
        servers end. `keep_logs` leaves a temporary folder of logs where it is.
        """
        await self._background.close()
        closing = [handle.connection.close() for handle in self._handles]
        # Without return_exceptions one failing close would leave every server behind.
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("connection did not close", error=repr(outcome), exc_info=outcome)
        stopping = [server.stop() for server in self._spawned]
        for outcome in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("server did not stop", error=repr(outcome), exc_info=outcome)
        if self._folder is not None and keep_logs and self._logs is None:
            log.warning("server logs kept", folder=str(self._folder.path))
            self._folder.keep()
        elif self._folder is not None:
            self._folder.remove()

    async def _close_after(self, error: BaseException | None) -> None:
        failed = isinstance(error, Exception) and not isinstance(error, UsageError)
        await self.close(keep_logs=failed)

    async def acquire(self, environment: str) -> Place:
        """Return a place for an episode of an environment; give it back with its `release`.

        Waits where no server of it is left; raises ConnectionLost when that took too long.
        """
        handle = self._choose(environment) or await self._wait_for_server(environment)
        return Place(self, environment, handle)

    def capacities(self) -> Mapping[str, int]:
        """Return how many episodes of each environment the servers take that can be used now."""
        return {
            name: sum(it.capacity(name) for it in self._handles if it.takes(name))
            for name in self.described
        }

    # ------------------------------------------------------------------ for places

    async def elsewhere(self, environment: str, left: Connection) -> ServerHandle:
        """Return the server in place of a lost, draining or full one; the full one if all are.

        Waits where there is none; raises ConnectionLost when that took too long.
        """
        self._revive_lost()
        if left.full_until <= time.monotonic():
            self._note_draining(left)
        return self._choose(environment, avoid=left) or await self._wait_for_server(environment)

    def observe(self, handle: ServerHandle, record: episode_pb2.Episode) -> None:
        """Note how an episode fared on a server."""
        if not record.HasField("error"):
            self._placement.played(
                handle.address, record.environment, len(record.steps), record.environment_seconds
            )
        elif record.error.fault in _SERVERS_FAULTS and self._placement.failed(
            handle.address, time.monotonic()
        ):
            self._tell_ejection(handle, "its episodes failed one after another")

    def release(self, handle: ServerHandle, environment: str) -> None:
        """Note that an episode is done with its server."""
        handle.place(environment, -1)
        if handle.leaving and not handle.episodes:
            self._remove(handle)

    # ------------------------------------------------------------------ questions

    async def get_items(self, environment: str, item_ids: Sequence[str]) -> list[pb.TaskSummary]:
        """Return the named tasks; raises UsageError for an unknown one."""
        handle = self._choose(environment) or await self._wait_for_server(environment)
        try:
            return list(await handle.connection.get_tasks(environment, item_ids))
        except EnvironmentFailure as failure:
            raise UsageError(str(failure)) from failure

    async def list_items(self, environment: str, split: str) -> list[pb.TaskSummary]:
        """Return all tasks of a split, in canonical order.

        Raises FleetError where the server's pages do not end with the split.
        """
        handle = self._choose(environment) or await self._wait_for_server(environment)
        sizes = {it.name: it.size for it in self.described[environment].splits}
        tasks: list[pb.TaskSummary] = []
        token = ""
        while True:
            page = await handle.connection.list_tasks(environment, split, token, _PAGE)
            tasks.extend(page.tasks)
            token = page.next_page_token
            if not token:
                return tasks
            if not page.tasks or len(tasks) > sizes[split]:
                raise FleetError(
                    f"{handle.connection.address} lists {environment}'s split {split!r} without "
                    f"an end: {len(tasks)} tasks so far, and it has {sizes[split]}"
                )

    async def _spawn(self) -> Sequence[str]:
        self._folder = TemporaryFolder()
        count = self._config.spawn or max(1, (os.cpu_count() or 1) // 2)
        for number in range(count):
            self._spawned.append(self._spawned_server(number, self._folder.path))
        try:
            await asyncio.gather(*(server.start() for server in self._spawned))
        except ServerArgumentsInvalid as error:
            raise UsageError(str(error)) from error
        except ServerNotStarted as error:
            raise FleetError(str(error)) from error
        return [server.address for server in self._spawned]

    def _spawned_server(self, number: int, folder: Path) -> SpawnedServer:
        def on_failure(error: BaseException) -> None:
            self._give_up(server, error)

        server = SpawnedServer(
            self.environments,
            number,
            sockets=folder,
            logs=self._logs or LogFolder(folder),
            on_failure=on_failure,
            tell=self._tell,
            data=self._config.data,
            options=self._config.server_options,
            skip_unavailable=bool(self._optional),
        )
        return server

    def _tell(self, event: str) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def _give_up(self, server: SpawnedServer, error: BaseException) -> None:
        """Go on without a server that is not restarted any more; without any, end the run."""
        self._given_up.add(server.address)
        remaining = len(self._spawned) - len(self._given_up)
        log.error(
            "server given up",
            server=server.address,
            restarts=server.restarts,
            servers_left=remaining,
            error=str(error),
        )
        self._tell(f"{server.address} is given up, {remaining} servers are left: {error}")
        if remaining == 0:
            self._fail(FleetError(f"no environment server is left: {error}"))

    @contextmanager
    def followed(
        self, on_change: Callable[[], None], on_failure: Callable[[FleetError], None]
    ) -> Generator[None]:
        """Call `on_change` now and whenever `capacities` may have changed.

        And `on_failure` when `failure` is set, at once where it is already.
        """
        on_change()
        self._on_change.append(on_change)
        self._on_failure.append(on_failure)
        if self.failure is not None:
            on_failure(self.failure)
        try:
            yield
        finally:
            self._on_change.remove(on_change)
            self._on_failure.remove(on_failure)

    def _fail(self, failure: FleetError) -> None:
        """Say once that no episode can be played any more."""
        if self.failure is None:
            self.failure = failure
            for tell in tuple(self._on_failure):
                tell(failure)

    async def _describe(self, name: str) -> None:
        hosting = [handle for handle in self._handles if name in handle.connection.environments]
        if not hosting:
            problem = await self._problem_of(name)
            if name not in self._optional:
                raise problem
            self.absent[name] = str(problem)
            return
        answers = await asyncio.gather(*(it.connection.get_environment(name) for it in hosting))
        if len({(answer.version, answer.digest) for answer in answers}) > 1:
            versions = ", ".join(
                f"{handle.address}: {answer.version} {answer.digest}"
                for handle, answer in zip(hosting, answers, strict=True)
            )
            raise FleetError(f"the servers of {name} do not serve the same tasks ({versions})")
        for handle, answer in zip(hosting, answers, strict=True):
            handle.capacities = {**handle.capacities, name: answer.limits.max_episodes}
        self.described[name] = answers[0]

    async def _problem_of(self, name: str) -> UsageError:
        """Return why no server has an environment, in a server's own words where it has some."""
        for handle in self._handles:
            if not handle.connection.environments:
                continue  # it has not answered yet
            try:
                await handle.connection.get_environment(name)
            except EnvironmentFailure as failure:
                if failure.reason == _UNAVAILABLE:
                    return UsageError(str(failure))
        offered = sorted({e for handle in self._handles for e in handle.connection.environments})
        return UsageError(f"no server has the environment {name!r}", valid=offered)

    def _choose(self, environment: str, avoid: Connection | None = None) -> ServerHandle | None:
        """Return the server for an episode; one that is to be avoided, or full, only if all are."""
        now = time.monotonic()
        able = {it.address: it for it in self._handles if it.takes(environment)}
        better = [
            it
            for it in able.values()
            if it.connection is not avoid and it.connection.full_until <= now
        ]
        loads = {it.address: it.load(environment) for it in better or able.values()}
        near = {it.address for it in better if it.member.node == self._node} if self._node else ()
        chosen = self._placement.choose(loads, environment, now, near)
        return able[chosen] if chosen is not None else None

    # ------------------------------------------------------------------ joining and leaving

    async def _first_members(self, source: Source) -> Sequence[Member]:
        """Return the servers to begin with, as soon as some are listed. Raises FleetError."""
        end = time.monotonic() + self._options.connect_deadline
        while True:
            try:
                members = await source.read()
                if members:
                    return members
                raise FleetError(f"{', '.join(self._config.running)} lists no server")
            except FleetError:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(min(source.interval, self._options.connect_deadline / 4))

    async def _connect(self, *, all_of_them: bool) -> None:
        """Connect to the servers at the start; raises where none answers, or one of all."""
        starting = (handle.connection.start() for handle in self._handles)
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        failures = [it for it in outcomes if it is not None]
        if failures and (all_of_them or len(failures) == len(outcomes)):
            raise failures[0]
        for failure in failures:
            if not isinstance(failure, AgentRuntimeError):
                raise failure

    def _add(self, member: Member) -> ServerHandle:
        options = self._options
        if member.tls_name:
            named = replace(options.security, server_name=member.tls_name)
            options = replace(options, security=named)
        handle = ServerHandle(member, Connection(member.address, options))
        self._handles.append(handle)
        self._placement.add(member.address)
        return handle

    async def _follow_list(self, source: Source) -> None:
        """Let servers join and leave as their list says, for ever."""
        told = ""
        while True:
            await asyncio.sleep(source.interval)
            try:
                members = await source.read()
            except (FleetError, UsageError) as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("list of servers not read", error=told)
                    self._tell(f"{told}; the servers stay as they were")
                continue
            told = ""
            self._apply({member.address: member for member in members})

    def _apply(self, members: dict[str, Member]) -> None:
        """Make the fleet what its list says."""
        for handle in list(self._handles):
            member = members.pop(handle.address, None)
            if member is None:
                self._leave(handle)
            elif handle.leaving or member != handle.member:
                handle.member, handle.leaving = member, False
                self._changed()
        for member in members.values():
            log.info("server joins", server=member.address)
            self._revive_later(self._add(member))

    def _leave(self, handle: ServerHandle) -> None:
        """Give a server nothing more; it goes when its episodes have."""
        if not handle.leaving:
            handle.leaving = True
            log.info("server leaves", server=handle.address, episodes=handle.episodes)
            self._tell(f"{handle.address} leaves; its {handle.episodes} episodes may end there")
            self._changed()
        if not handle.episodes:
            self._remove(handle)

    def _remove(self, handle: ServerHandle) -> None:
        self._handles.remove(handle)
        self._placement.remove(handle.address)
        for task in (handle.revival, handle.health):
            if task is not None:
                task.cancel()
        self._background.start(handle.connection.close(), f"close {handle.address}")

    def _changed(self) -> None:
        for tell in tuple(self._on_change):
            tell()

    # ------------------------------------------------------------------ health

    def _follow_server(self, handle: ServerHandle, connection: Connection) -> None:
        """Follow a server's health, and ask it what it serves whenever a stream is opened anew."""
        self._inspect_streams(handle, connection)
        if handle.health is not None:
            handle.health.cancel()
        handle.health = self._background.start(
            self._follow_health(handle, connection), f"health of {handle.address}"
        )

    async def _follow_health(self, handle: ServerHandle, connection: Connection) -> None:
        async for serving in connection.watch_health():
            if serving is handle.draining:
                self._note_health(handle, serving=serving)

    def _note_health(self, handle: ServerHandle, *, serving: bool) -> None:
        """Note that a server begins or ends to drain."""
        handle.draining = not serving
        if serving:
            log.info("server serves again", server=handle.address)
            self._tell(f"{handle.address} takes new episodes again")
        else:
            log.info("server drains", server=handle.address, episodes=handle.episodes)
            self._tell(f"{handle.address} drains; its {handle.episodes} episodes may end there")
        self._changed()

    def _note_return(self, handle: ServerHandle) -> None:
        """Note that a server was away and is back."""
        handle.draining = False
        if self._placement.returned(handle.address, time.monotonic()):
            self._tell_ejection(handle, "it comes and goes")
        self._changed()

    def _tell_ejection(self, handle: ServerHandle, reason: str) -> None:
        seconds = round(self._placement.ejected_for(handle.address, time.monotonic()))
        log.warning("server ejected", server=handle.address, seconds=seconds, reason=reason)
        self._tell(f"{handle.address} gets no new episodes for {seconds} s: {reason}")

    # ------------------------------------------------------------------ lost servers

    async def _wait_for_server(self, environment: str) -> ServerHandle:
        """Wait until a server of an environment is back; raises ConnectionLost where none comes.

        The fleet has failed then: the run stops and keeps what is unplayed for a resume.
        """
        if environment not in self._waiting:
            self._waiting.add(environment)
            log.error(
                "no server left, waiting",
                environment=environment,
                seconds=self._config.wait_for_servers,
            )
            self._tell(
                f"no server of {environment} is left; waiting for one for "
                f"{self._config.wait_for_servers:g} s"
            )
        end = time.monotonic() + self._config.wait_for_servers
        while time.monotonic() < end and not self._all_refused(environment):
            self._revive_lost()
            await asyncio.sleep(_LOOK_SECONDS)
            handle = self._choose(environment)
            if handle is not None:
                self._waiting.discard(environment)
                return handle
        problem = self._absence(environment)
        # For a run: whoever plays single episodes has nothing to resume.
        hint = "All finished episodes are kept: start the servers that the run began with"
        self._fail(FleetError(f"{problem}. {hint} and resume it"))
        await asyncio.sleep(0)  # whoever was told may have cancelled this task
        raise ConnectionLost(problem)

    def _hosts(self, environment: str) -> list[ServerHandle]:
        """Return the servers that have an environment, or of which nobody knows it yet."""
        return [
            handle
            for handle in self._handles
            if environment in handle.capacities or not handle.connection.environments
        ]

    def _all_refused(self, environment: str) -> bool:
        """Whether no server could take an episode, whatever is waited for."""
        hosts = self._hosts(environment)
        return bool(hosts) and all(handle.refused for handle in hosts)

    def _absence(self, environment: str) -> str:
        """Say why an environment has no server."""

        def reason(handle: ServerHandle) -> str:
            if handle.refused:
                return f"was refused: {handle.refused}"
            return "drains" if handle.draining else "does not answer"

        reasons = "; ".join(f"{it.address} {reason(it)}" for it in self._hosts(environment))
        return f"no server of {environment} is left ({reasons or 'none is listed'})"

    async def _look_for_lost(self) -> None:
        """Notice lost servers also where none of their episodes does, for ever."""
        while True:
            await asyncio.sleep(_REVIVE_SECONDS)
            self._revive_lost()

    def _revive_lost(self) -> None:
        for handle in self._handles:
            if handle.connection.lost and not (handle.revival or handle.leaving):
                self._tell_loss(handle)
                self._revive_later(handle)

    def _inspect_streams(self, handle: ServerHandle, connection: Connection) -> None:
        """Have a server asked what it serves before anything is sent on a new stream to it."""

        async def inspect(connection: Connection) -> str:
            problem = await self._identity_problem(handle, connection)
            if problem:
                self._refuse(handle, problem)
            elif connection.reconnects:
                self._note_return(handle)
            return problem

        connection.inspect = inspect

    def _refuse(self, handle: ServerHandle, problem: str) -> None:
        """Say, once for each reason, that a server plays no episode of this run."""
        if problem != handle.refused:
            handle.refused = problem
            log.error("server refused", server=handle.connection.address, problem=problem)
            self._tell(f"{handle.connection.address} is refused: {problem}")

    def _note_draining(self, connection: Connection) -> None:
        """Say once that a server drains: it was to be left, and it is not lost."""
        for handle in self._handles:
            if handle.connection is connection and not (connection.lost or handle.draining):
                self._note_health(handle, serving=False)

    def _tell_loss(self, handle: ServerHandle) -> None:
        log.warning("reviving lost server", server=handle.address, episodes=handle.episodes)
        self._tell(
            f"{handle.address} is lost with {handle.episodes} episodes; it is tried for ever"
        )
        self._changed()

    def _revive_later(self, handle: ServerHandle) -> None:
        """Try to reach a server for ever; its connection is replaced when it answers."""

        def on_failure(_error: BaseException) -> None:
            # The next episode that finds the server lost begins again.
            handle.revival = None

        handle.revival = self._background.start(
            self._revive(handle), f"revive {handle.address}", on_failure=on_failure
        )

    async def _revive(self, handle: ServerHandle) -> None:
        lost = handle.connection
        while True:
            async with AsyncExitStack() as stack:
                fresh = Connection(lost.address, lost.options)
                stack.push_async_callback(fresh.close)
                try:
                    await fresh.start()
                    problem = await self._identity_problem(handle, fresh)
                except ConnectionLost:
                    problem = None  # it is still away
                except AgentRuntimeError as error:
                    problem = str(error)  # it speaks another contract
                if problem == "":
                    stack.pop_all()
                    break
            if problem:
                self._refuse(handle, problem)
            await asyncio.sleep(_REFUSED_SECONDS if problem else _REVIVE_SECONDS)
        self._take_in(handle, fresh)
        await lost.close()

    def _take_in(self, handle: ServerHandle, fresh: Connection) -> None:
        """Use a server that has been reached."""
        was_lost = handle.connection.lost
        handle.connection, handle.revival, handle.refused = fresh, None, ""
        log.info("server is back" if was_lost else "server has joined", server=handle.address)
        self._tell(f"{handle.address} {'is back' if was_lost else 'has joined'}")
        if was_lost:
            self._note_return(handle)
        else:
            self._changed()
        self._follow_server(handle, fresh)

    async def _identity_problem(self, handle: ServerHandle, connection: Connection) -> str:
        """Return why a server must not play this run's episodes; empty = it may.

        Raises ConnectionLost where it does not answer.
        """
        # Of one that has just joined all that it has counts.
        served = handle.capacities or frozenset(connection.environments)
        capacities: dict[str, int] = {}
        for name, began in self.described.items():
            if name not in served:
                continue
            try:
                now = await connection.get_environment(name)
            except EnvironmentFailure as failure:
                return f"it no longer serves {name} ({failure})"
            if (now.version, now.digest) != (began.version, began.digest):
                return (
                    f"it serves {name} {now.version} {now.digest}, and the run began with "
                    f"{began.version} {began.digest}"
                )
            capacities[name] = now.limits.max_episodes
        if not capacities:
            return f"it serves none of {', '.join(self.described)}"
        handle.capacities = capacities
        return ""
