"""An event loop whose clock is told: it jumps to the next timer where nothing else is to be done.

What takes minutes in `asyncio.sleep` takes no time, and gives the same answer on any machine,
however busy. For code that waits for nothing but timers and itself; `time.monotonic` is the loop's
clock meanwhile.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest import mock

__all__ = ["run_in_told_time"]

T = TypeVar("T")


class _JumpingSelector(selectors.SelectSelector):
    """Does not wait for the time that it is given, but adds it to the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is left that could ever happen")
        ready = super().select(0)
        if not ready:
            self.now += timeout
        return ready


def run_in_told_time(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, as `asyncio.run` does; time begins at 0."""
    selector = _JumpingSelector()

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        return loop

    with (
        mock.patch.object(time, "monotonic", lambda: selector.now),
        asyncio.Runner(loop_factory=make_loop) as runner,
    ):
        return runner.run(main)
