"""Bytes that a server keeps for its clients: journals, kept results, answers that wait to be sent.

One `Budget` per server and one `Account` per client. Whoever adds or removes bytes adds the same
number here, so that asking costs nothing; nothing is ever summed up again. What counts is the size
of texts in memory and a flat figure for the objects around them.
"""

from __future__ import annotations

import asyncio
from collections import Counter

__all__ = ["ENTRY_BYTES", "RESULT_BYTES", "Account", "Budget", "fair_share"]

ENTRY_BYTES = 96
"""Of a journal entry beside its text: the input, its hash, and their places in two lists."""
RESULT_BYTES = 1024
"""Of a kept result: one with a text of up to so many characters counts flat."""
_OUTBOX_SHARE = 4
"""This part of the budget is the most that may wait to be sent."""


def fair_share(capacity: int, taken: int, clients: int) -> int:
    """Return how much of a capacity one of `clients` may hold while `taken` of it is taken.

    A client that is alone may take everything. Beside others it may always hold its equal part, and
    more only while as much again is free: whoever comes later finds room at once, and who holds
    more than that grows no further until the others have caught up.
    """
    return capacity if clients <= 1 else max(1, capacity // clients, capacity - taken)


class Account:
    """What one client holds."""

    __slots__ = (
        "__weakref__",
        "_room",
        "asked",
        "budget",
        "bytes",
        "client",
        "episodes",
        "outbox",
    )

    def __init__(self, client: str, budget: Budget) -> None:
        """`client` is the name of its token or certificate, else its connection."""
        self.client = client
        self.budget = budget
        self.bytes = 0
        """Of the journals and kept results of its episodes."""
        self.outbox = 0
        """Bytes that wait to be sent to it."""
        self.episodes: Counter[str] = Counter()
        """Admitted episodes by environment."""
        self.asked = float("-inf")
        """When it last asked for an episode."""
        self._room: asyncio.Event | None = None

    def add_journal(self, size: int) -> None:
        """Count bytes of a journal; negative = they were given back."""
        self.bytes += size
        self.budget.journals += size

    def add_results(self, size: int) -> None:
        """Count bytes of kept results; negative = they were given back."""
        self.bytes += size
        self.budget.results += size

    def add_outbox(self, size: int) -> None:
        """Count bytes that wait to be sent; negative = they were sent."""
        self.outbox += size
        self.budget.outboxes += size
        if size < 0 and self._room is not None:
            self._room.set()
            self._room = None

    @property
    def held(self) -> int:
        """Bytes in all."""
        return self.bytes + self.outbox

    def has_room(self, size: int = 0) -> bool:
        """Whether so many bytes more may wait to be sent to this client."""
        budget = self.budget
        share = fair_share(budget.outbox_limit, budget.outboxes, budget.clients)
        return self.outbox + size <= share

    async def wait_for_room(self) -> None:
        """Wait until some of what waits for this client was sent."""
        if self._room is None:
            self._room = asyncio.Event()
        await self._room.wait()


class Budget:
    """The bytes of all clients of a server, against one limit."""

    __slots__ = ("clients", "journals", "limit", "outbox_limit", "outboxes", "results")

    def __init__(self, limit: int) -> None:
        """`limit` in bytes; 0 = there is none."""
        self.limit = limit or 1 << 62
        self.outbox_limit = self.limit // _OUTBOX_SHARE
        self.journals = 0
        """Bytes of the inputs of live episodes; what forks share counts once."""
        self.results = 0
        """Bytes of the results that are kept for repeated commands."""
        self.outboxes = 0
        """Bytes of answers that wait for their readers, and of commands that wait for those."""
        self.clients = 1
        """Clients that hold episodes or asked for one a moment ago."""

    @property
    def held(self) -> int:
        """Bytes in all."""
        return self.journals + self.results + self.outboxes
