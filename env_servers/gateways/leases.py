"""Ids that clients hold something by, and what becomes of those that nobody uses.

HTTP has no end of a conversation: a client that goes away says nothing. So what is held lapses
after a while without a request, which frees what it occupies on a server. The id stays known for
much longer, so that a late client is told what happened. Ids count from 0 and are never used again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from env_servers.gateways.errors import NoRoom

__all__ = ["Closable", "Lease", "Leases"]

_REMEMBERED: Final = 48
"""A lapsed id is forgotten after so many times the limit without a request."""
_MOST: Final = 100_000
"""Ids at once: what a client may make and never use must end somewhere."""
_LOOKS: Final = 8
"""How often it is looked for lapsed ones within the limit."""


class Closable(Protocol):
    """What can be held."""

    def close(self) -> None:
        """Free what it occupies; called once or several times, and does not wait."""
        ...


Held = TypeVar("Held", bound=Closable)


class Lease(Generic[Held]):
    """Something that is held by an id. Requests for the same id take turns: `async with lease:`."""

    __slots__ = ("_clock", "_lock", "held", "id", "lapsed", "used")

    def __init__(self, number: int, held: Held, clock: Callable[[], float]) -> None:
        self.id = number
        self.held = held
        self.lapsed = False
        """It was closed for want of use. Whoever opens it anew sets this back."""
        self._clock = clock
        self._lock = asyncio.Lock()
        self.used = clock()

    async def __aenter__(self) -> Held:
        await self._lock.acquire()
        return self.held

    async def __aexit__(self, *_: object) -> None:
        self.used = self._clock()
        self._lock.release()

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._lock.locked()


class Leases(Generic[Held]):
    """All leases of one kind."""

    def __init__(
        self,
        idle_limit: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int = _MOST,
    ) -> None:
        """`idle_limit` is in seconds of `clock`; there are at most `most` leases at once."""
        self.idle_limit = idle_limit
        self._most = most
        self._clock = clock
        self.issued = 0
        """How many numbers were given out."""
        self._leases: dict[int, Lease[Held]] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease[Held]]:
        return iter(tuple(self._leases.values()))

    def reserve(self) -> int:
        """Return a number that no lease has had; it may stay unused."""
        self.issued += 1
        return self.issued - 1

    def add(self, held: Held, number: int | None = None) -> Lease[Held]:
        """Hold something under a reserved number, or the next one.

        Raises NoRoom where there are too many; what was to be held is closed then.
        """
        if len(self._leases) >= self._most:
            held.close()
            raise NoRoom(f"there are {self._most:,} environments and episodes: close some of them")
        lease = Lease(self.reserve() if number is None else number, held, self._clock)
        self._leases[lease.id] = lease
        return lease

    def get(self, number: int) -> Lease[Held] | None:
        """Return a lease, lapsed ones included; None = never given out, ended or forgotten."""
        return self._leases.get(number)

    def end(self, number: int) -> bool:
        """Close what is held and forget its id; False = there was none."""
        lease = self._leases.pop(number, None)
        if lease is None:
            return False
        lease.held.close()
        return True

    def sweep(self) -> None:
        """Close what nobody has used for long enough, and forget the oldest ids."""
        now = self._clock()
        for lease in self:
            idle = now - lease.used
            if lease.busy or idle < self.idle_limit:
                continue
            if not lease.lapsed:
                lease.lapsed = True
                lease.held.close()
            if idle >= self.idle_limit * _REMEMBERED:
                del self._leases[lease.id]

    async def keep_sweeping(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(self.idle_limit / _LOOKS)
            self.sweep()

    def close(self) -> None:
        """Close everything."""
        for lease in self:
            self.end(lease.id)
