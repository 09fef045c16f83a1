"""One server process: started in a process group of its own, watched for readiness, ended.

Whatever the server spawned ends with it: it is started as a process group of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from agent_runtime.errors import PolicyMisconfigured, PolicyUnavailable
from agent_runtime.private_files import append_privately
from agent_runtime.serving.commands import Command

__all__ = ["ServerProcess"]

_STOP_SECONDS = 15.0
_PROBE_PAUSE = 0.2
_LAST_LINES = 12
_MISUSED = 2
"""Exit status of a command, also one of argparse, whose arguments cannot be followed."""
_ERROR = "error: "

Probe = Callable[[], Awaitable[bool]]


class ServerProcess:
    """A named server; `start` may be called again after it ended."""

    def __init__(self, name: str, log_file: Path) -> None:
        self.name = name
        self.log_file = log_file
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def start(self, command: Command) -> None:
        """Start the process; its output is appended to the log file."""
        with append_privately(self.log_file) as log:
            self._process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **command.environment},
                # A group of its own: Ctrl-C is for the one who started it, who ends it in order.
                start_new_session=True,
            )

    async def wait_ready(self, probe: Probe, seconds: float) -> None:
        """Wait until the server is ready.

        Args:
            probe: Tells whether it is.
            seconds: The longest wait.

        Raises:
            PolicyMisconfigured: It ended by the status of commands that are asked for what cannot
                be; the error says what it said.
            PolicyUnavailable: It ended otherwise or was not ready in time; the error holds the
                log's end.
        """
        process = self._process
        if process is None:
            raise RuntimeError("the server was not started")
        try:
            async with asyncio.timeout(seconds):
                while process.returncode is None:
                    if await probe():
                        return
                    await asyncio.sleep(_PROBE_PAUSE)
        except TimeoutError:
            problem = f"did not serve within {seconds:g} s"
        else:
            if process.returncode == _MISUSED:
                raise PolicyMisconfigured(f"the {self.name}: {self._last_error()}")
            problem = f"ended with status {process.returncode} before it served"
        raise PolicyUnavailable(f"the {self.name} {problem}; {self.log_file}:\n{self.log_tail()}")

    async def wait(self) -> int:
        """Wait until the process ends; returns its exit status."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return await self._process.wait()

    async def stop(self) -> None:
        """End the process and all that it spawned; by force if it does not end by itself."""
        process = self._process
        if process is None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()

    def _last_error(self) -> str:
        """Return the line that says what was wrong, where the log has one."""
        lines = self.log_tail().splitlines()
        said = [line for line in lines if line.startswith(_ERROR)]
        return said[-1].removeprefix(_ERROR) if said else f"{self.log_file}:\n{self.log_tail()}"

    def log_tail(self) -> str:
        """Return the last lines of the log."""
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        return "\n".join(lines[-_LAST_LINES:]) or "its log is empty"


def _signal_group(leader: int, number: int) -> None:
    # The leader may be gone while its children are not: the group is what counts.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
