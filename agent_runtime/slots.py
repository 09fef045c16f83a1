"""A limit on what is in flight that can be changed while it is in use.

Owns fairness: waiters go in the order in which they came. Knows nothing of requests; one event loop
only.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

__all__ = ["Slots"]


class Slots:
    """An asynchronous context manager that at most `limit` tasks are inside of."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def used(self) -> int:
        """Slots in use; above `limit` for a while after it was lowered."""
        return self._used

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        return sum(not waiter.done() for waiter in self._waiters)

    @property
    def limit(self) -> int:
        """Slots there are."""
        return self._limit

    @limit.setter
    def limit(self, value: int) -> None:
        self._limit = value
        self._wake()

    async def __aenter__(self) -> None:
        if self._used < self._limit and not self._waiters:
            self._used += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter  # whoever wakes it has counted the slot
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._leave()
            else:
                with contextlib.suppress(ValueError):  # `_wake` may have dropped it already
                    self._waiters.remove(waiter)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        self._used -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiters and self._used < self._limit:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._used += 1
                waiter.set_result(None)
