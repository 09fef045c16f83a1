"""The environment servers of a run: found or spawned, and shared out by load.

A fleet answers one question: which connection should a new episode use. A lost server is tried for
ever and taken back when it answers again. Each time that a stream to a server is opened, it is
asked what it serves: another version of an environment than the run began with is refused, loudly,
and tried again later. Where no server of an environment is left the run waits, and stops at last;
it never gives episodes up for that.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
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
from orchestrator.errors import FleetError, UsageError
from orchestrator.records import enum_name
from orchestrator.servers import FleetConfig

__all__ = ["Fleet", "FleetConfig", "ServerHandle"]

log = get_logger(__name__)

_REVIVE_SECONDS: Final = 1.0
"""Pause between two tries to reach a lost server."""
_REFUSED_SECONDS: Final = 10.0
"""Pause after a server was refused: somebody has to replace it first."""
_LOOK_SECONDS: Final = 0.1
"""Pause between two looks for a server that is back."""
_PAGE: Final = 10_000
_UNAVAILABLE: Final = enum_name(pb.ErrorReason, pb.ERROR_REASON_ENVIRONMENT_UNAVAILABLE)


class ServerHandle:
    """A server as the fleet sees it: its connection and how many episodes were placed on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.environments = frozenset(connection.environments)
        self.episodes = 0
        self.reviving = False
        """It was lost, and a task tries to reach it again."""
        self.draining = False
        """It takes no new episodes, and those that it had move to others."""
        self.refused = ""
        """Why it must not play this run's episodes; empty = it may."""


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
    ) -> None:
        """Describe a fleet; `start` or the context manager opens it.

        Args:
            environments: What must be served.
            config: Addresses, or what to spawn.
            options: How to connect.
            optional: Environments without which the fleet starts, too: `absent` says why.
            logs: Where spawned servers write their logs; None = a temporary folder that stays only
                where the fleet ends by an error.
        """
        self.environments = list(environments)
        self.described: dict[str, pb.GetEnvironmentResponse] = {}
        """What the servers say of each environment."""
        self.absent: dict[str, str] = {}
        """Optional environments that no server has, with the reason and what to do."""
        self.failure: FleetError | None = None
        """Why no episode can be played any more; None = some can."""
        self.on_failure: Callable[[FleetError], None] | None = None
        """Called when `failure` is set, by a task in the background."""
        self.on_event: Callable[[str], None] | None = None
        """Called with a sentence for people when a server is lost, drains, or is back."""
        self._config = config
        self._options = options
        self._optional = frozenset(optional)
        self._logs = logs
        self._handles: list[ServerHandle] = []
        self._spawned: list[SpawnedServer] = []
        self._given_up: set[str] = set()
        """Addresses of spawned servers that are not restarted any more."""
        self._waiting: set[str] = set()
        """Environments of which no server was left when somebody last asked."""
        self._folder: TemporaryFolder | None = None
        self._revivals = Supervisor()

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
        addresses = self._config.servers or await self._spawn()
        for address in addresses:
            connection = Connection(address, self._options)
            await connection.start()
            self._handles.append(ServerHandle(connection))
        for name in self.environments:
            await self._describe(name)
        for handle in self._handles:
            self._inspect_streams(handle, handle.connection)

    async def close(self, *, keep_logs: bool = False) -> None:
        """Close the connections and end the servers that were spawned.

        A connection that cannot be closed is logged and holds nothing up: whatever happens, the
        servers end. `keep_logs` leaves a temporary folder of logs where it is.
        """
        await self._revivals.close()
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

    async def acquire(self, environment: str) -> ServerHandle:
        """Return the least loaded server of an environment; give it back with `release`.

        Waits where no server of it is left; raises ConnectionLost when that took too long.
        """
        handle = self._least_loaded(environment) or await self._wait_for_server(environment)
        handle.episodes += 1
        return handle

    def release(self, handle: ServerHandle) -> None:
        """Note that an episode is done with its server."""
        handle.episodes -= 1

    async def reroute(self, environment: str, lost: Connection) -> Connection:
        """Return another connection in place of a lost or draining one.

        Waits where there is none; raises ConnectionLost when that took too long.
        """
        self._revive_lost()
        self._note_draining(lost)
        handle = self._least_loaded(environment, avoid=lost)
        return (handle or await self._wait_for_server(environment)).connection

    async def get_items(self, environment: str, item_ids: Sequence[str]) -> list[pb.TaskSummary]:
        """Return the named tasks; raises UsageError for an unknown one."""
        handle = self._least_loaded(environment)
        assert handle is not None
        try:
            return list(await handle.connection.get_tasks(environment, item_ids))
        except EnvironmentFailure as failure:
            raise UsageError(str(failure)) from failure

    async def list_items(self, environment: str, split: str) -> list[pb.TaskSummary]:
        """Return all tasks of a split, in canonical order.

        Raises FleetError where the server's pages do not end with the split.
        """
        handle = self._least_loaded(environment)
        assert handle is not None
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

    def _fail(self, failure: FleetError) -> None:
        """Say once that no episode can be played any more."""
        if self.failure is None:
            self.failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)

    async def _describe(self, name: str) -> None:
        hosting = [handle for handle in self._handles if name in handle.connection.environments]
        if not hosting:
            problem = await self._problem_of(name)
            if name not in self._optional:
                raise problem
            self.absent[name] = str(problem)
            return
        answers = [await handle.connection.get_environment(name) for handle in hosting]
        if len({(answer.version, answer.digest) for answer in answers}) > 1:
            versions = ", ".join(
                f"{handle.connection.address}: {answer.version} {answer.digest}"
                for handle, answer in zip(hosting, answers, strict=True)
            )
            raise FleetError(f"the servers of {name} do not serve the same tasks ({versions})")
        self.described[name] = answers[0]

    async def _problem_of(self, name: str) -> UsageError:
        """Return why no server has an environment, in a server's own words where it has some."""
        for handle in self._handles:
            try:
                await handle.connection.get_environment(name)
            except EnvironmentFailure as failure:
                if failure.reason == _UNAVAILABLE:
                    return UsageError(str(failure))
        offered = sorted({e for handle in self._handles for e in handle.connection.environments})
        return UsageError(f"no server has the environment {name!r}", valid=offered)

    def _least_loaded(
        self, environment: str, avoid: Connection | None = None
    ) -> ServerHandle | None:
        able = [
            handle
            for handle in self._handles
            if environment in handle.environments and not handle.connection.lost
        ]
        others = [handle for handle in able if handle.connection is not avoid]
        return min(others or able, key=lambda handle: handle.episodes, default=None)

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
        hosts = [handle for handle in self._handles if environment in handle.environments]
        end = time.monotonic() + self._config.wait_for_servers
        while time.monotonic() < end and not all(handle.refused for handle in hosts):
            self._revive_lost()
            await asyncio.sleep(_LOOK_SECONDS)
            handle = self._least_loaded(environment)
            if handle is not None:
                self._waiting.discard(environment)
                return handle
        problem = self._absence(environment, hosts)
        # For a run: whoever plays single episodes has nothing to resume.
        hint = "All finished episodes are kept: start the servers that the run began with"
        self._fail(FleetError(f"{problem}. {hint} and resume it"))
        await asyncio.sleep(0)  # whoever was told may have cancelled this task
        raise ConnectionLost(problem)

    def _absence(self, environment: str, hosts: Sequence[ServerHandle]) -> str:
        """Say why an environment has no server."""
        reasons = "; ".join(
            handle.connection.address
            + (f" was refused: {handle.refused}" if handle.refused else " does not answer")
            for handle in hosts
        )
        return f"no server of {environment} is left ({reasons})"

    def _revive_lost(self) -> None:
        for handle in self._handles:
            if handle.connection.lost and not handle.reviving:
                self._revive_later(handle)

    def _inspect_streams(self, handle: ServerHandle, connection: Connection) -> None:
        """Have a server asked what it serves before anything is sent on a new stream to it."""

        async def inspect(connection: Connection) -> str:
            problem = await self._identity_problem(handle, connection)
            if problem:
                self._refuse(handle, problem)
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
                handle.draining = True
                log.info("server drains", server=connection.address, episodes=handle.episodes)
                self._tell(
                    f"{connection.address} drains; its {handle.episodes} episodes go on elsewhere"
                )

    def _revive_later(self, handle: ServerHandle) -> None:
        """Try to reach a lost server for ever; its connection is replaced when it is back."""
        handle.reviving = True
        address = handle.connection.address
        log.warning("reviving lost server", server=address, episodes=handle.episodes)
        self._tell(f"{address} is lost with {handle.episodes} episodes; it is tried for ever")

        def on_failure(_error: BaseException) -> None:
            # The next episode that finds the server lost begins again.
            handle.reviving = False

        self._revivals.start(self._revive(handle), f"revive {address}", on_failure=on_failure)

    async def _revive(self, handle: ServerHandle) -> None:
        lost = handle.connection
        while True:
            async with AsyncExitStack() as stack:
                fresh = Connection(lost.address, self._options)
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
        self._inspect_streams(handle, fresh)
        handle.connection, handle.reviving, handle.refused = fresh, False, ""
        handle.draining = False
        log.info("server is back", server=lost.address)
        self._tell(f"{lost.address} is back")
        await lost.close()

    async def _identity_problem(self, handle: ServerHandle, connection: Connection) -> str:
        """Return why a server must not play this run's episodes; empty = it may.

        Raises ConnectionLost where it does not answer.
        """
        for name, began in self.described.items():
            if name not in handle.environments:
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
        return ""
