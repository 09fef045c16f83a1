"""How many requests an engine is given at once: additive increase, multiplicative decrease.

Owns the limit. It doubles until the engine first reports pressure (requests that wait, a cache that
is nearly full, running requests that were put back, a refusal), then grows by a fixed step while it
is used up, and shrinks by a factor under pressure, at most once per `settle` observations, so that
one burst is punished once. Pure: no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Admission", "AdmissionRules", "Load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRules:
    """When to grow and when to shrink; counts are requests."""

    floor: int = 8
    """The limit never falls below this."""
    ceiling: int = 16_384
    """The limit never grows above this."""
    start: int = 1024
    """The first limit."""
    step: int = 32
    """Growth per observation once the engine has been under pressure."""
    factor: float = 0.7
    """What pressure multiplies the limit by."""
    waiting: float = 0.25
    """Requests that may wait in the engine, as a share of those that run."""
    waiting_least: int = 16
    """Requests that may always wait in the engine."""
    cache: float = 0.95
    """Share of the engine's cache that may be in use."""
    settle: int = 3
    """Observations after a decrease before the next one."""

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.start <= self.ceiling:
            raise ValueError("1 <= floor <= start <= ceiling")
        if not 0 < self.factor < 1 or self.step < 1 or self.settle < 0:
            raise ValueError("factor is between 0 and 1, step at least 1, settle at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What engines report, all of them together."""

    running: int = 0
    waiting: int = 0
    cache: float = 0.0
    """Share of the fullest engine's cache that is in use."""
    retracted: int = 0
    """Running requests that were put back into the queue for want of cache."""


class Admission:
    """The controller; feed it observations, read `limit`."""

    def __init__(self, rules: AdmissionRules | None = None) -> None:
        self.rules = rules or AdmissionRules()
        self._limit = float(self.rules.start)
        self._probing = True
        self._settling = 0

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    def observe(self, load: Load, in_flight: int) -> int:
        """Take in what the engine reports while `in_flight` requests are; the limit from now."""
        if self._pressed(load):
            self._shrink()
        else:
            self._settling = max(0, self._settling - 1)
            if in_flight >= 0.9 * self.limit:
                # An unused limit says nothing about what the engine would bear.
                self._grow()
        return self.limit

    def refused(self) -> int:
        """The engine refused a request for load; the limit from now."""
        self._shrink()
        return self.limit

    def _pressed(self, load: Load) -> bool:
        rules = self.rules
        allowed = max(rules.waiting_least, rules.waiting * load.running)
        return load.waiting > allowed or load.cache > rules.cache or load.retracted > 0

    def _grow(self) -> None:
        grown = self._limit * 2 if self._probing else self._limit + self.rules.step
        self._limit = min(float(self.rules.ceiling), grown)

    def _shrink(self) -> None:
        self._probing = False
        if self._settling:
            self._settling -= 1
            return
        self._settling = self.rules.settle
        self._limit = max(float(self.rules.floor), self._limit * self.rules.factor)
