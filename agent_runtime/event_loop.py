"""How a command of this project runs its coroutines: set up for thousands of them at once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

__all__ = ["raise_file_limit", "run_event_loop"]

_NEW_OBJECTS: Final = 250_000
"""More containers than before, so that reference cycles are looked for: 2,000 live episodes are
some 200,000, and to look through those takes as long as 2,000 of their steps."""

T = TypeVar("T")


def run_event_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop where it is installed.

    Reference cycles are looked for rarely: thousands of live episodes are many objects and almost
    no cycles (one object an episode), and with Python's defaults the collector takes a fifth of
    the time.
    """
    gc.set_threshold(_NEW_OBJECTS, 20, 50)
    raise_file_limit()
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.run(work)
    return uvloop.run(work)


def raise_file_limit() -> None:
    """Let as many files be open as the system allows.

    Each request in flight is one, and many systems begin with 1,024.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
