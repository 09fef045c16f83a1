"""A server as a fleet sees it: what it takes, what was placed on it, and how it is reached."""

from __future__ import annotations

import asyncio
from collections import Counter

from agent_runtime.connection import Connection
from orchestrator.discovery import Member

__all__ = ["ServerHandle"]


class ServerHandle:
    """One server of a fleet."""

    def __init__(self, member: Member, connection: Connection) -> None:
        self.member = member
        self.connection = connection
        self.capacities: dict[str, int] = {}
        """Most live episodes of each environment that it has, as it says; empty = it never
        answered."""
        self.live: Counter[str] = Counter()
        """Episodes that were placed here and not yet given back, by environment."""
        self.revival: asyncio.Task[None] | None = None
        """Tries to reach it; None = it is reached, or nobody has missed it."""
        self.health: asyncio.Task[None] | None = None
        """Follows what it says of its health."""
        self.draining = False
        """It takes no new episodes."""
        self.leaving = False
        """It is not listed any more: it goes when its episodes have."""
        self.refused = ""
        """Why it must not play this run's episodes; empty = it may."""

    @property
    def address(self) -> str:
        """Where it is."""
        return self.member.address

    @property
    def episodes(self) -> int:
        """Number of episodes that are placed here."""
        return self.live.total()

    def takes(self, environment: str) -> bool:
        """Whether a new episode of an environment may be placed here."""
        usable = not (self.connection.lost or self.draining or self.leaving)
        return usable and environment in self.capacities

    def capacity(self, environment: str) -> int:
        """Return how many episodes of an environment alone it takes."""
        advertised = max(1, self.capacities[environment])
        return min(advertised, self.member.capacity or advertised)

    def load(self, environment: str) -> float:
        """Return the share of it that is taken with another episode of an environment."""
        live = ((name, count) for name, count in self.live.items() if name in self.capacities)
        own = sum(count / self.capacity(name) for name, count in live)
        return own + 1 / self.capacity(environment)
