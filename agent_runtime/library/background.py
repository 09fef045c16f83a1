"""An event loop in a thread, for programs that have none: what the synchronous library runs on.

One loop serves the whole process, so that the episodes of all environments share connections. It
works beside a loop of the program's own, in a notebook for example.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from agent_runtime.errors import ProcessForked
from agent_runtime.library.places import close_places

__all__ = ["wait_for"]

T = TypeVar("T")

_CLOSE_SECONDS = 10.0
"""What open servers get to end when the program ends; they end with their parent in any case."""


class _Background:
    """The loop and its thread, started when first needed."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; raises ProcessForked in a fork of who started it."""
        with self._starting:
            if self._loop is None:
                self._pid = os.getpid()
                self._loop = _new_event_loop()
                name = "agentgym"
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=name, daemon=True
                )
                self._thread.start()
                atexit.register(self._close)
            if self._pid != os.getpid():
                raise ProcessForked(
                    "this process was forked after agentgym was used; gRPC does not survive that. "
                    'Start processes by "spawn" or "forkserver", or use agentgym only in them'
                )
            if threading.current_thread() is self._thread:
                raise RuntimeError("the background loop cannot wait for itself: use agentgym.aio")
            return self._loop

    def _close(self) -> None:
        if self._loop is not None and self._pid == os.getpid():
            closing = asyncio.run_coroutine_threadsafe(close_places(), self._loop)
            with contextlib.suppress(TimeoutError):
                closing.result(_CLOSE_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_background = _Background()


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the background loop and return its result, or raise what it raises.

    An interrupt (Ctrl-C) cancels it. Raises ProcessForked in a process that was forked from one
    that had used the library.
    """
    try:
        loop = _background.loop()
    except (ProcessForked, RuntimeError):
        coroutine.close()
        raise
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
