"""A server as a fleet sees it: what it takes, what was placed on it, and how it is reached."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from agent_runtime.connection import Connection
from orchestrator.discovery import Member

__all__ = ["ServerHandle"]


class ServerHandle:
    """One server of a fleet."""

    def __init__(self, member: Member, connection: Connection) -> None:
        self.address = member.address
        """Where it is."""
        self.connection = connection
        self._member = member
        self._capacities: Mapping[str, int] = {}
        self._live: Counter[str] = Counter()
        self._parts: dict[str, float] = {}
        """Share of it that an episode takes, by environment."""
        self._taken = 0.0
        """Share of it that is taken; kept, because each choice of a server asks all of them."""
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
    def member(self) -> Member:
        """What its list says of it."""
        return self._member

    @member.setter
    def member(self, member: Member) -> None:
        self._member = member
        self._reckon()

    @property
    def capacities(self) -> Mapping[str, int]:
        """Most live episodes of each environment that it has, as it says.

        Empty = it never answered.
        """
        return self._capacities

    @capacities.setter
    def capacities(self, capacities: Mapping[str, int]) -> None:
        self._capacities = capacities
        self._reckon()

    @property
    def episodes(self) -> int:
        """Number of episodes that were placed here and not yet given back."""
        return self._live.total()

    def place(self, environment: str, change: int) -> None:
        """Note that so many more episodes of an environment are here; -1 = one has gone."""
        self._live[environment] += change
        self._add_up()

    def takes(self, environment: str) -> bool:
        """Whether a new episode of an environment may be placed here."""
        usable = not (self.connection.lost or self.draining or self.leaving)
        return usable and environment in self._parts

    def capacity(self, environment: str) -> int:
        """Return how many episodes of an environment alone it takes."""
        advertised = max(1, self._capacities[environment])
        return min(advertised, self._member.capacity or advertised)

    def load(self, environment: str) -> float:
        """Return the share of it that is taken with another episode of an environment."""
        return self._taken + self._parts[environment]

    def _reckon(self) -> None:
        self._parts = {name: 1 / self.capacity(name) for name in self._capacities}
        self._add_up()

    def _add_up(self) -> None:
        self._taken = sum(
            count * self._parts.get(name, 0.0) for name, count in self._live.items() if count
        )
