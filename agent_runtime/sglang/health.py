"""Which engines may serve: a pure state machine of what was seen of them.

    READY      answers, with weights that are known to be right
    UPDATING   its weights are being replaced
    STALE      it was restarted, or an update failed: its weights are not those that it should have
    DOWN       does not answer

Owns one rule: an engine that was restarted serves again only with the version that it had before,
or once somebody has given it new weights. Knows no network and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["EngineHealth", "EngineState", "FleetHealth", "Sighting"]


class EngineState(StrEnum):
    """What may be asked of an engine."""

    READY = "ready"
    """It may serve."""
    UPDATING = "updating"
    """Its weights are being replaced; tokens carry the version that sampled them."""
    STALE = "stale"
    """It answers with weights that it should not have; it may not serve until refitted."""
    DOWN = "down"
    """It does not answer."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """An engine as it described itself."""

    boot: str
    """Differs after a restart; empty = the engine does not tell."""
    version: str
    """Name of the weights that it serves."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine; every event gives the next state."""

    seen: Sighting | None = None
    """The last sighting; None = it was never seen."""
    version: str | None = None
    """The version that it should serve; None = whatever it says when it is first seen."""
    reachable: bool = False
    """It answered when it was last asked."""
    updating: bool = False
    """Somebody is replacing its weights."""
    trusted: bool = True
    """Its weights are those that it should have."""

    @property
    def state(self) -> EngineState:
        """What may be asked of it."""
        if not self.reachable:
            return EngineState.DOWN
        if self.updating:
            return EngineState.UPDATING
        return EngineState.READY if self.trusted else EngineState.STALE

    @property
    def may_serve(self) -> bool:
        """Whether tokens of this engine may be used."""
        return self.reachable and (self.trusted or self.updating)

    def probed(self, sighting: Sighting) -> EngineHealth:
        """It answered."""
        known = replace(self, seen=sighting, reachable=True)
        if self.seen is None or self.version is None:
            return replace(known, version=sighting.version)
        if sighting.boot != self.seen.boot:
            return replace(known, trusted=sighting.version == self.version)
        if self.updating or (not self.trusted and sighting.version == self.seen.version):
            return known
        # Same boot, another name: only somebody who replaced its weights can have changed it.
        return replace(known, trusted=True, version=sighting.version)

    def unreachable(self) -> EngineHealth:
        """It did not answer; what it should serve is remembered."""
        return replace(self, reachable=False)

    def update_begun(self) -> EngineHealth:
        """Its weights are about to be replaced."""
        return replace(self, updating=True)

    def update_done(self, sighting: Sighting) -> EngineHealth:
        """It serves new weights, and says so."""
        return EngineHealth(sighting, sighting.version, reachable=True)

    def update_failed(self) -> EngineHealth:
        """Nobody knows which weights it has."""
        return replace(self, updating=False, trusted=False)


class FleetHealth:
    """Engines by address; the only mutable thing here is which state each is in."""

    def __init__(self, addresses: Iterable[str]) -> None:
        self._engines = {address: EngineHealth() for address in addresses}

    def __getitem__(self, address: str) -> EngineHealth:
        return self._engines[address]

    def __setitem__(self, address: str, health: EngineHealth) -> None:
        self._engines[address] = health

    @property
    def addresses(self) -> tuple[str, ...]:
        """All engines."""
        return tuple(self._engines)

    @property
    def stale(self) -> tuple[str, ...]:
        """Engines that need weights before they may serve."""
        return tuple(a for a, it in self._engines.items() if it.state is EngineState.STALE)

    @property
    def versions(self) -> frozenset[str]:
        """Versions that tokens may carry now."""
        named = (it.version for it in self._engines.values() if it.may_serve)
        return frozenset(version for version in named if version is not None)

    @property
    def may_serve(self) -> bool:
        """Whether requests may be sent.

        A router leaves out engines that are down by itself, but cannot tell that one is stale.
        """
        able = any(engine.may_serve for engine in self._engines.values())
        return able and not self.stale

    def describe(self) -> str:
        """The engines that may not serve, and why."""
        troubled = [f"{a} is {it.state}" for a, it in self._engines.items() if not it.may_serve]
        return ", ".join(troubled) or "all engines serve"
