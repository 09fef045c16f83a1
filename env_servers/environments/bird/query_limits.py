"""How many statements run at once in a process.

Every statement starts as a light one, of which several run at once. One that turns out to be heavy
is stopped and run anew when there is room among the heavy ones. So heavy statements wait for each
other and hold nothing while they wait, and light ones never wait for a heavy one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

from env_servers.sdk import EnvironmentUnavailable

__all__ = ["QueryLimits", "process_query_limits"]

_PATIENCE_SECONDS: Final = 24.0
"""How long a heavy statement waits for room: less than the time that servers grant a step."""
_NO_ROOM: Final = "a statement that needs much work had to wait too long: too many others do, too"


class QueryLimits:
    """Room for so many light and so many heavy statements; safe to use from several threads."""

    def __init__(self, light: int, heavy: int, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._light = threading.BoundedSemaphore(light)
        self._heavy = threading.BoundedSemaphore(heavy)
        self._patience_seconds = patience_seconds

    @contextmanager
    def light_query(self, deadline: float) -> Iterator[None]:
        """Hold room among the light statements; `deadline` in `time.monotonic`.

        Raises:
            EnvironmentUnavailable: Where there is none by then.
        """
        left = deadline - time.monotonic()
        with _room(self._light, left, "a statement had to wait too long: too many others run"):
            yield

    @contextmanager
    def heavy_query(self, deadline: float) -> Iterator[None]:
        """Hold room among the heavy statements; `deadline` in `time.monotonic`.

        Raises:
            EnvironmentUnavailable: Where there is none by then, or for too long.
        """
        left = min(self._patience_seconds, deadline - time.monotonic())
        with _room(self._heavy, left, _NO_ROOM):
            yield


@contextmanager
def _room(semaphore: threading.Semaphore, seconds: float, refusal: str) -> Iterator[None]:
    if not semaphore.acquire(timeout=max(0.0, seconds)):
        raise EnvironmentUnavailable(refusal)
    try:
        yield
    finally:
        semaphore.release()


@cache
def process_query_limits() -> QueryLimits:
    """Return the limits that all databases of this process share, as they share its cores."""
    cores = os.cpu_count() or 1
    return QueryLimits(light=min(8, 2 * cores), heavy=max(1, cores // 2))
