"""Which engines may serve: a pure state machine of what was seen of them.

    READY      answers, with weights that are known to be right
    UPDATING   its weights are being replaced
    STALE      it was restarted, or an update failed: its weights are not those that it should have
    DOWN       does not answer

One rule: an engine that was restarted serves again only with the version that it had before, or
once it was given new weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["EngineHealth", "EngineInfo", "EngineState", "GroupHealth"]


class EngineState(StrEnum):
    """What may be asked of an engine."""

    READY = "ready"
    """It may serve."""
    UPDATING = "updating"
    """Its weights are being replaced; tokens carry the version that sampled them."""
    STALE = "stale"
    """It answers with weights that it should not have; it may not serve until they are reloaded."""
    DOWN = "down"
    """It does not answer."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself."""

    boot_id: str
    """Differs after a restart; empty = the engine does not tell."""
    version: str
    """Name of the weights that it serves."""


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """One engine; every event gives the next state."""

    info: EngineInfo | None = None
    """What it last said of itself; None = it never answered."""
    version: str | None = None
    """The version that it should serve; None = whatever it says when it first answers."""
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

    def answered(self, info: EngineInfo) -> EngineHealth:
        """Return the state after it answered."""
        reached = replace(self, info=info, reachable=True)
        if self.version is None:
            return replace(reached, version=info.version)
        if self.info is None or info.boot_id != self.info.boot_id:
            return replace(reached, trusted=info.version == self.version)
        if self.updating or (not self.trusted and info.version == self.info.version):
            return reached
        # Same boot, another name: only somebody who replaced its weights can have changed it.
        return replace(reached, trusted=True, version=info.version)

    def expected(self, version: str) -> EngineHealth:
        """Return the state where it is known which version it should serve."""
        serves = self.info is not None and self.info.version == version
        return replace(self, version=version, trusted=serves)

    def updated_elsewhere(self, version: str) -> EngineHealth:
        """Return the state after somebody else has replaced its weights, and says so."""
        if self.info is None or self.state is not EngineState.READY:
            return self.expected(version)
        return self.answered(replace(self.info, version=version))

    def unreachable(self) -> EngineHealth:
        """Return the state after it did not answer; what it should serve is remembered."""
        return replace(self, reachable=False)

    def update_begun(self) -> EngineHealth:
        """Return the state while its weights are replaced."""
        return replace(self, updating=True)

    def update_done(self, info: EngineInfo) -> EngineHealth:
        """Return the state of an engine that serves new weights, and says so."""
        return EngineHealth(info, info.version, reachable=True)

    def update_failed(self) -> EngineHealth:
        """Return the state of an engine of which nobody knows which weights it has."""
        return replace(self, updating=False, trusted=False)


class GroupHealth:
    """The engines behind one address, each with its state."""

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
        return tuple(
            address
            for address, engine in self._engines.items()
            if engine.state is EngineState.STALE
        )

    @property
    def versions(self) -> frozenset[str]:
        """Versions that tokens may carry now."""
        return frozenset(
            engine.version
            for engine in self._engines.values()
            if engine.may_serve and engine.version is not None
        )

    @property
    def may_serve(self) -> bool:
        """Whether requests may be sent.

        A router leaves out engines that are down by itself, but cannot tell that one is stale.
        """
        any_serves = any(engine.may_serve for engine in self._engines.values())
        return any_serves and not self.stale

    def describe(self) -> str:
        """Say which engines may not serve, and why."""
        states = [
            f"{address} is {engine.state}"
            for address, engine in self._engines.items()
            if not engine.may_serve
        ]
        return ", ".join(states) or "all engines serve"
