"""Takes the loop back from an inline environment that does not return.

A half-second SIGALRM tick runs in the main thread between bytecodes. When the same inline call has
been running for longer than it may, the tick raises `StepOverrun` inside it. This reaches
any pure-Python loop, which is what `inline` promises to be. Native code that keeps the
interpreter's lock is beyond its reach: `watchdog` looks from outside at the memory that calls are
noted in.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from env_servers.server import watchdog
from env_servers.server.watchdog import CELL_BYTES

__all__ = ["InlineGuard", "StepOverrun"]

_TICK_SECONDS = 0.5
_PATIENCE_SECONDS = 3.0
"""Beyond the limit, before the watchdog acts: a tick notices a hang up to two ticks late."""


class StepOverrun(BaseException):
    """Raised inside an inline call past its limit; no `except Exception` swallows it."""


class InlineGuard:
    """Marks inline calls. Callers write `serial` and their cell themselves: three writes a step."""

    __slots__ = (
        "_memory",
        "_names",
        "_previous",
        "_seen",
        "_since",
        "_watchdog",
        "cells",
        "limit",
        "serial",
    )

    def __init__(self, limit: float, environments: int = 1) -> None:
        """`limit` in seconds; `environments` may ask for a cell each."""
        self.limit = limit
        self._names: list[str] = []
        self._memory = tempfile.TemporaryFile()  # noqa: SIM115 - the watchdog gets it
        self._memory.truncate(CELL_BYTES * environments)
        shared = mmap.mmap(self._memory.fileno(), CELL_BYTES * environments)
        self.cells = memoryview(shared).cast("Q")
        """The serial of the call that each environment executes, 0 = none."""
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._seen = -1
        self._since = 0.0
        self._previous: Any = None
        self.serial = 0
        """Counts calls; callers increment it and write it to their cell."""

    def cell(self, environment: str) -> int:
        """Return the number of the cell that an environment notes its calls in."""
        self._names.append(environment)
        return len(self._names) - 1

    def start_watchdog(self, stuck_file: Path | None) -> None:
        """Have another process end this one where no tick comes; see `watchdog`."""
        if not self._names:
            return
        faulthandler.enable()  # says where it hung
        command = [sys.executable, "-I", watchdog.__file__, "--server", str(os.getpid())]
        command += ["--fd", str(self._memory.fileno())]
        command += ["--limit", str(self.limit + _PATIENCE_SECONDS)]
        command += ["--stuck-file", str(stuck_file or ""), *self._names]
        self._watchdog = subprocess.Popen(
            command,
            pass_fds=[self._memory.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for the server
        )

    def start(self) -> None:
        """Begin ticking.

        Only the main thread may install signal handlers and runs them; a server in another thread
        (some tests) goes without the guard.
        """
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, _TICK_SECONDS, _TICK_SECONDS)

    def stop(self) -> None:
        """End ticking, and the watchdog."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.wait()
            self._watchdog = None
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self._previous is not None:
                signal.signal(signal.SIGALRM, self._previous)
                self._previous = None

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two bytecodes of the main thread, wherever that is. Only inside an inline
        # call (a cell is set) may it raise: anywhere else it would break the event loop.
        if not any(self.cells):
            return
        now = time.monotonic()
        # The clock of a call starts at the first tick that sees it, so the hot path reads no clock;
        # a hang is noticed up to two ticks late.
        if self.serial != self._seen:
            self._seen, self._since = self.serial, now
        elif now - self._since > self.limit:
            self._seen = -1
            raise StepOverrun
