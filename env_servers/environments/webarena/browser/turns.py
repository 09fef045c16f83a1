"""Turns: so many operations of a process at once, and none keeps the others waiting for long.

Pages are waited for in real time. Were all episodes of a process at work at once, each would be
late, and shown half loaded: what an agent sees would depend on how many others there are.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

__all__ = ["Turns"]

_FEWEST: Final = 4
_LONG: Final = 5.0
"""Seconds; most operations take a tenth of one."""


class Turns:
    """Hands out turns."""

    def __init__(self, most: int = 0, seconds: float = _LONG) -> None:
        """Hand out `most` turns at once; 0 = one per core, but at least 4.

        Whoever works for longer than `seconds` goes on, but another one may begin meanwhile: it
        waits for a page that hangs.
        """
        self._free = asyncio.Semaphore(most or max(_FEWEST, os.cpu_count() or 1))
        self._seconds = seconds

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a turn."""
        await self._free.acquire()
        held = True

        def give_back() -> None:
            nonlocal held
            if held:
                held = False
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._seconds, give_back)
        try:
            yield
        finally:
            timer.cancel()
            give_back()
