"""Which statements run at once in a process.

Owns two lanes. Every statement starts in the light one, which has room for several. One that turns
out to be heavy is stopped there and run anew when the heavy lane has room; so heavy statements wait
for each other and hold nothing while they wait, and light ones never wait for a heavy one.

It knows nothing of SQL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from env_servers.sdk import EnvironmentUnavailable

__all__ = ["heavy_lane", "light_lane"]

_CORES: Final = os.cpu_count() or 1
_LIGHT: Final = threading.BoundedSemaphore(min(8, 2 * _CORES))
_HEAVY: Final = threading.BoundedSemaphore(max(1, _CORES // 2))
_PATIENCE_SECONDS: Final = 40.0
"""For room in the heavy lane: less than servers grant a step."""


@contextmanager
def light_lane() -> Iterator[None]:
    """Room among the light statements."""
    with _LIGHT:
        yield


@contextmanager
def heavy_lane() -> Iterator[None]:
    """Room among the heavy statements; raises EnvironmentUnavailable where there is none."""
    if not _HEAVY.acquire(timeout=_PATIENCE_SECONDS):
        raise EnvironmentUnavailable(
            "a statement that needs much work had to wait too long: too many others do, too"
        )
    try:
        yield
    finally:
        _HEAVY.release()
