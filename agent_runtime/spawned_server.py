"""Environment servers that this program spawns itself: started, watched, restarted, ended.

A server that dies is started again on the same address, so that its episodes find a server to be
rebuilt on. Restarts wait longer from one to the next and end at last: a server that cannot live
must not be started for ever. What a server writes goes to `server-N.log` in a folder of the
caller's, in JSON lines; what happens to it is logged here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_runtime.errors import ServerArgumentsInvalid, ServerNotStarted
from agent_runtime.logs import get_logger
from agent_runtime.private_files import append_privately
from agent_runtime.supervision import cancel_tasks, supervise
from agent_runtime.tracing import tracing_enabled

__all__ = ["LogFolder", "RestartBackoff", "SpawnedServer"]

log = get_logger(__name__)

_READY_SECONDS = 60.0
"""Longest start: engines like ScienceWorld's load a JVM and their tasks first."""
_STOP_SECONDS = 5.0
_SIGNALS_SECONDS = 0.5
"""Between two signals, or the second one might come before the first one is seen."""
_USAGE_STATUS = 2
"""What a server ends with that was asked for what does not exist."""
_LAST_LINES = 5


@dataclass(slots=True)
class LogFolder:
    """Where servers write their logs; it may be renamed while they run, which keeps their files."""

    path: Path


class RestartBackoff:
    """How long to wait before a dead server is started again, and when to stop trying."""

    FIRST_SECONDS = 0.1
    """A server that was killed once is back at once: its clients wait 20 s by default."""
    LONGEST_SECONDS = 30.0
    MAX_RESTARTS = 20
    """Restarts in a row: a server with a broken import must not be started for ever."""
    STABLE_SECONDS = 60.0
    """A server that lived so long was sound: its death begins a new row."""
    JITTER = 0.5
    """Share of a delay that is drawn, so that servers that died together do not start together."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """Begin a row; `draw` gives numbers in [0, 1)."""
        self.restarts = 0
        """Restarts in a row."""
        self._draw = draw

    def next_delay(self, uptime: float) -> float | None:
        """Return the seconds to wait after a death; None = give up.

        Args:
            uptime: Seconds that the server was up before it died.
        """
        if uptime >= self.STABLE_SECONDS:
            self.restarts = 0
        if self.restarts >= self.MAX_RESTARTS:
            return None
        doubled = min(self.LONGEST_SECONDS, self.FIRST_SECONDS * 2**self.restarts)
        self.restarts += 1
        return doubled * (1 - self.JITTER * self._draw())


class SpawnedServer:
    """A server process of this program, restarted when it dies."""

    def __init__(
        self,
        environments: Sequence[str],
        number: int,
        *,
        sockets: Path,
        logs: LogFolder,
        on_failure: Callable[[BaseException], None],
        tell: Callable[[str], None],
        address: str = "",
        data: Path | None = None,
        options: Sequence[str] = (),
        skip_unavailable: bool = False,
        drain: float = 0.0,
    ) -> None:
        """Describe a server; `start` runs it.

        Args:
            environments: What it serves.
            number: Tells it from the others in the folder of sockets.
            sockets: Folder for its Unix socket: a short path, sockets allow about 100 characters.
            logs: Folder for `server-NUMBER.log`, which is appended to.
            on_failure: Called with the error when the server is given up.
            tell: Called with a sentence for people when it dies and when it is up again.
            address: HOST:PORT that it listens on; empty = a Unix socket.
            data: Folder of official data files; default: AGENTGYM_DATA.
            options: Further arguments of `python -m env_servers serve`.
            skip_unavailable: Serve the others where an environment is not installed.
            drain: Seconds for which its episodes may go on after `drain` was called.
        """
        self.address = address or f"unix:{sockets / f'server-{number}.sock'}"
        self.restarts = 0
        """Restarts so far."""
        self._number = number
        self._ready_file = sockets / f"server-{number}.ready"
        self._stuck_file = sockets / f"server-{number}.stuck"
        self._logs = logs
        self._environments = environments
        self._data = data
        self._options = options
        self._on_failure = on_failure
        self._tell = tell
        self._skip_unavailable = skip_unavailable
        self._drain = drain
        self._backoff = RestartBackoff()
        self._process: asyncio.subprocess.Process | None = None
        self._watch_task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Process id of the server that runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def log_file(self) -> Path:
        """What the server writes."""
        return self._logs.path / f"server-{self._number}.log"

    async def start(self) -> None:
        """Spawn the server and wait until it listens.

        Raises ServerNotStarted with its last words.
        """
        log.info("server starting", server=self.address, environments=list(self._environments))
        await self._spawn()
        await self._require_ready()
        log.info("server ready", server=self.address, pid=self.pid)
        name = f"watch server {self.address}"
        self._watch_task = supervise(self._keep_alive(), name, on_failure=self._on_failure)

    async def drain(self) -> None:
        """Let the server take no new episodes, and wait until it has ended with the last one."""
        await cancel_tasks(self._watch_task)
        if self._process is not None and self._process.returncode is None:
            log.info("server drains", server=self.address, pid=self._process.pid)
            self._process.terminate()
            await self._process.wait()

    async def stop(self) -> None:
        """End the server; at once if it does not end by itself."""
        await cancel_tasks(self._watch_task)
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        if self._drain and not await _has_ended(process, _SIGNALS_SECONDS):
            process.terminate()  # the first signal drains it, a second one ends that
        if not await _has_ended(process, _STOP_SECONDS):
            log.warning("server did not end, killing it", server=self.address, pid=process.pid)
            process.kill()
            await process.wait()
        log.info("server stopped", server=self.address, pid=process.pid)

    async def _spawn(self) -> None:
        self._ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "env_servers", "serve", *self._environments]
        command += ["--bind", self.address, "--address-file", str(self._ready_file)]
        command += ["--drain", f"{self._drain:g}", "--log-level", "info", "--log-json"]
        command += ["--exit-with-parent", str(os.getpid())]
        command += ["--stuck-file", str(self._stuck_file)]
        if tracing_enabled():
            command.append("--trace")
        if self._skip_unavailable:
            command.append("--skip-unavailable")
        command += self._options
        if self._data is not None:
            command += ["--data", str(self._data)]
        with append_privately(self.log_file) as output:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for this program: it ends its servers itself, in order.
                start_new_session=True,
            )

    async def _wait_ready(self) -> bool:
        """Wait until the server listens; False = it ended, or was too slow and was killed."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READY_SECONDS):
                while self._process.returncode is None:
                    if self._ready_file.exists():
                        return True
                    await asyncio.sleep(0.02)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        return False

    async def _require_ready(self) -> None:
        """Raise ServerNotStarted where the first start fails: the next one would, too."""
        if await self._wait_ready():
            return
        assert self._process is not None
        last_words = self._last_words()
        log.error(
            "server did not start",
            server=self.address,
            last_words=last_words,
            **_exit_fields(self._process.returncode),
        )
        if self._process.returncode == _USAGE_STATUS:
            raise ServerArgumentsInvalid(last_words.removeprefix("error: "))
        names = ", ".join(self._environments)
        raise ServerNotStarted(
            f"the server for {names} did not start:\n{last_words}\nIts whole log: {self.log_file}"
        )

    async def _keep_alive(self) -> None:
        """Start the server again whenever it dies; raises ServerNotStarted when it is given up."""
        assert self._process is not None
        ready_since: float | None = time.monotonic()
        while True:
            status = await self._process.wait()
            uptime = 0.0 if ready_since is None else time.monotonic() - ready_since
            log.warning(
                "server died",
                server=self.address,
                pid=self._process.pid,
                uptime=round(uptime, 3),
                restarts=self.restarts,
                last_words=self._last_words(),
                **_exit_fields(status),
            )
            delay = self._backoff.next_delay(uptime)
            if delay is None:
                raise ServerNotStarted(
                    f"the server at {self.address} was given up after {self._backoff.restarts} "
                    f"restarts; its log: {self.log_file}"
                )
            how = ", ".join(f"{name} {value}" for name, value in _exit_fields(status).items())
            self._tell(f"server {self._number} died ({how}); it is started again")
            log.info("server restarting", server=self.address, delay=round(delay, 3))
            await asyncio.sleep(delay)
            self.restarts += 1
            await self._spawn()
            ready_since = time.monotonic() if await self._wait_ready() else None
            if ready_since is not None:
                log.info(
                    "server restarted", server=self.address, pid=self.pid, restarts=self.restarts
                )
                self._tell(f"server {self._number} is up again, start {self.restarts + 1}")

    def _last_words(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        # A usage error is the one line that is meant for people.
        for line in reversed(lines[-_LAST_LINES:]):
            if line.startswith("error: "):
                return line
        return "\n".join(lines[-_LAST_LINES:]) or "it said nothing"


async def _has_ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait until a process has ended, but not for longer than that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.wait()
    return process.returncode is not None


def _exit_fields(status: int | None) -> dict[str, Any]:
    """Return how a process ended, for a log: its exit status, or the signal that killed it."""
    if status is not None and status < 0:
        return {"signal": signal.Signals(-status).name}
    return {"exit_status": status}
