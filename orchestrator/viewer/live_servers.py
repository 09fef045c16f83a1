"""The environment servers that the viewer asks: begun when first needed, on a loop of their own.

Pages are answered in threads; connections to servers live on one asyncio loop, in a thread that
begins with the first question. A server is found or started as the run says that it was played, and
as the command's own flags say, which go before it. What a stranger's run says is not followed:
neither its addresses nor its arguments.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from agent_runtime.errors import ConnectionLost
from agent_runtime.logs import get_logger
from agent_runtime.supervision import cancel_tasks, supervise
from orchestrator.client import ClientConfig, connection_options
from orchestrator.configuration import convert
from orchestrator.errors import FleetError
from orchestrator.fleet import Fleet
from orchestrator.manifest import is_own, read_manifest
from orchestrator.servers import FleetConfig
from orchestrator.trust import check_environments

__all__ = ["VIEWED_FLEET", "LiveServers"]

log = get_logger(__name__)

T = TypeVar("T")

VIEWED_FLEET: Final = FleetConfig(wait_for_servers=20.0)
"""Where the flags say nothing: a person waits for a lost server, not a run of days."""
_IDLE_SECONDS: Final = 900.0
"""After which a server without episodes ends."""
_LOOK_SECONDS: Final = 5.0
"""Pause between two looks for such servers."""

_ONE_WORKER: Final = ("--workers", "1")
"""Of a server that is started here: a person looks at one state at a time."""

_Key = tuple[str, FleetConfig]


@dataclass(slots=True)
class _Kept:
    """The servers of an environment."""

    starting: asyncio.Task[Fleet]
    used: float
    """When somebody asked for them, or had episodes there, by the monotonic clock."""

    @property
    def fleet(self) -> Fleet | None:
        """None = they are starting, or could not be."""
        task = self.starting
        failed = not task.done() or task.cancelled() or task.exception() is not None
        return None if failed else task.result()

    @property
    def useless(self) -> bool:
        """Whether no episode can be played on them any more."""
        return self.starting.done() and (self.fleet is None or self.fleet.failure is not None)


class LiveServers:
    """Environment servers for runs that are looked at. Any thread may ask."""

    def __init__(
        self,
        flags: FleetConfig = VIEWED_FLEET,
        client: ClientConfig | None = None,
        *,
        trust_run: bool = False,
    ) -> None:
        """Describe them; nothing is started before `run` is called.

        Args:
            flags: Where environments are served, before what a run says.
            client: How servers are reached.
            trust_run: Whether the environment of a stranger's run may be a package of this folder.
        """
        self._flags = flags
        self._options = connection_options(client or ClientConfig())
        self._trust_run = trust_run
        self._kept: dict[_Key, _Kept] = {}
        self._asked: set[asyncio.Task[Any]] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float) -> T:
        """Await `work` on the loop of the servers, from another thread, and return what it does.

        Raises what `work` raises, and FleetError where it takes longer than `timeout` seconds or
        the viewer ends.
        """
        with self._lock:
            if self._closed:
                work.close()
                raise FleetError("the viewer ends: no environment is asked any more")
            loop = self._loop or self._begin()
            answer = asyncio.run_coroutine_threadsafe(self._answer(work, timeout), loop)
        try:
            return answer.result()
        except concurrent.futures.CancelledError as error:
            raise FleetError("the viewer ended before the environment had answered") from error

    def interrupt(self) -> None:
        """Give up what is asked now; whoever waits for it is told that the viewer ends."""

        def cancel() -> None:
            for task in self._asked:
                task.cancel()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(cancel)

    def close(self) -> None:
        """End all servers and the loop; no process is left behind."""
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            if thread.is_alive():
                loop.call_soon_threadsafe(self._ending.set)
            thread.join()

    async def fleet(self, folder: Path, environment: str) -> Fleet:
        """Return the servers of an environment for a run, started if need be; call it in `run`.

        They stay until nothing was played on them for a quarter of an hour.

        Raises:
            UsageError: The environment is not installed here (it says what to install), the server
                has it not, or a stranger's run asks for what must not be started.
            FleetError: No server could be started or reached.
        """
        key = environment, self._config(folder, environment)
        while (kept := self._kept.get(key)) is not None and kept.useless:
            await self._discard(key)
        if kept is None:
            # A task of its own: whoever asked first may give up, and others wait for the same.
            starting = asyncio.create_task(self._start(*key), name=f"start {environment}")
            kept = self._kept[key] = _Kept(starting, 0.0)
        kept.used = time.monotonic()
        return await asyncio.shield(kept.starting)

    def _config(self, folder: Path, environment: str) -> FleetConfig:
        """Return where an environment of a run is served. Raises UsageError."""
        flags = self._flags
        if flags.running:
            return flags
        if not is_own(folder):
            if not self._trust_run:
                check_environments([environment])
            options = flags.server_options or _ONE_WORKER
            return replace(flags, spawn=flags.spawn or 1, server_options=options)
        settings = read_manifest(folder).sessions[-1].settings.get("fleet", {})
        recorded = convert(FleetConfig, cast("Mapping[str, Any]", settings))
        return replace(
            flags,
            servers=() if flags.spawn else recorded.servers,
            servers_dns="" if flags.spawn else recorded.servers_dns,
            servers_file=None if flags.spawn else recorded.servers_file,
            spawn=flags.spawn or 1,
            data=flags.data or recorded.data,
            server_options=flags.server_options or (*_ONE_WORKER, *recorded.server_options),
        )

    async def _start(self, environment: str, config: FleetConfig) -> Fleet:
        fleet = Fleet([environment], config, self._options)
        try:
            # Entered, not started: what was begun is ended where the rest fails.
            return await fleet.__aenter__()
        except ConnectionLost as error:
            raise FleetError(
                f"{error}. Give the address of a server of {environment} by --servers, or "
                "--spawn 1 to start one here"
            ) from error

    def _begin(self) -> asyncio.AbstractEventLoop:
        """Begin the loop in its thread."""
        begun: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        # Not waited for where the process ends at once: servers end with their parent.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(begun)), name="environment servers", daemon=True
        )
        self._thread.start()
        self._loop = begun.result()
        return self._loop

    async def _live(self, begun: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        begun.set_result(asyncio.get_running_loop())
        sweep = supervise(self._sweep(), "end idle environment servers")
        await self._ending.wait()
        await cancel_tasks(sweep, *self._asked)
        await asyncio.gather(*(self._discard(key) for key in list(self._kept)))

    async def _answer(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._asked.add(task)
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await work
        except TimeoutError as error:
            if limit.expired():
                raise FleetError(f"no answer within {timeout:g} s; try it again") from error
            raise
        finally:
            self._asked.discard(task)

    async def _sweep(self) -> None:
        """End servers that nobody uses."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for key, kept in list(self._kept.items()):
                if kept.fleet is not None and kept.fleet.episodes:
                    kept.used = now
                idle = kept.starting.done() and now - kept.used > _IDLE_SECONDS
                if (kept.useless or idle) and self._kept.get(key) is kept:
                    log.info("environment server is let go", environment=key[0])
                    await self._discard(key)

    async def _discard(self, key: _Key) -> None:
        kept = self._kept.pop(key)
        await cancel_tasks(kept.starting)
        if kept.fleet is not None:
            await kept.fleet.close()
