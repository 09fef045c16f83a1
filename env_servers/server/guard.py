"""Takes the loop back from an inline environment that does not return.

A half-second SIGALRM tick runs in the main thread between bytecodes. When the same inline call has
been running for longer than it may, the tick raises `StepOverrun` inside it. This reaches
any pure-Python loop, which is what `inline` promises to be; it cannot reach a blocking C call.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

__all__ = ["InlineGuard", "StepOverrun"]

_TICK_SECONDS = 0.5


class StepOverrun(BaseException):
    """Raised inside an inline call past its limit; no `except Exception` swallows it."""


class InlineGuard:
    """Marks inline calls. Callers set `active` and `serial` themselves: two writes a step."""

    __slots__ = ("_previous", "_seen", "_since", "active", "limit", "serial")

    def __init__(self, limit: float) -> None:
        """`limit` in seconds."""
        self.limit = limit
        self._seen = -1
        self._since = 0.0
        self._previous: Any = None
        self.active = False
        self.serial = 0
        """Counts calls; callers increment it when they set `active`."""

    def start(self) -> None:
        """Begin ticking.

        Only the main thread may install signal handlers and runs them; a server in another thread
        (some tests) goes without the guard.
        """
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, _TICK_SECONDS, _TICK_SECONDS)

    def stop(self) -> None:
        """End ticking."""
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0)
            if self._previous is not None:
                signal.signal(signal.SIGALRM, self._previous)
                self._previous = None

    def _tick(self, signum: int, frame: FrameType | None) -> None:
        # Runs between two bytecodes of the main thread, wherever that is. Only inside an inline
        # call (`active`) may it raise: anywhere else it would break the event loop.
        if not self.active:
            return
        now = time.monotonic()
        # The clock of a call starts at the first tick that sees it, so the hot path reads no clock;
        # a hang is noticed up to two ticks late.
        if self.serial != self._seen:
            self._seen, self._since = self.serial, now
        elif now - self._since > self.limit:
            self._seen = -1
            raise StepOverrun
