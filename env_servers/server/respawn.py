"""When the next worker process may be started after some died at their start.

Pure: time is passed in. A worker that dies of what it executes says nothing about the next one, and
is replaced at once. One that dies before it executed anything (a broken import, no memory) would
die again: such starts are spaced out, and after several the pool gives up for a while.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RespawnPolicy"]


@dataclass(slots=True)
class RespawnPolicy:
    """Counts failed starts in a row and spaces out the next ones."""

    first_delay: float = 0.1
    """Seconds after the first failed start; doubled after each further one."""
    max_delay: float = 10.0
    max_failures: int = 8
    """Failed starts in a row after which the pool gives up."""
    pause: float = 60.0
    """Seconds for which it gives up; then one more worker is tried."""
    failures: int = 0
    """Failed starts in a row."""
    next_start: float = 0.0
    """Earliest time of the next start."""

    @property
    def given_up(self) -> bool:
        """So many starts have failed that waiting for the next one is no use."""
        return self.failures >= self.max_failures

    def record_failure(self, now: float) -> None:
        """Note a worker that died before it executed anything."""
        self.failures += 1
        if self.given_up:
            delay = self.pause
        else:
            delay = min(self.first_delay * 2 ** (self.failures - 1), self.max_delay)
        self.next_start = now + delay

    def record_success(self) -> None:
        """Note a worker that executed something."""
        self.failures = 0
        self.next_start = 0.0

    def delay(self, now: float) -> float:
        """Return the seconds until the next start; 0 = now."""
        return max(0.0, self.next_start - now)
