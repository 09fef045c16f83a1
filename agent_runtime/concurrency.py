"""How many requests a model server is given at once: additive increase, multiplicative decrease.

The limit doubles until there is first pressure, then grows by a fixed step while it is used up, and
shrinks by a factor under pressure. What is pressure is said by the load that engines report, or, of
servers that report none, by their answers: refusals, and times far above the usual. Pure: no clock,
no I/O; whoever feeds it reads the limit, and the signal that set it, to log the two together.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any, Final

__all__ = ["ConcurrencyController", "ConcurrencyRules", "Load", "Signal"]


_WINDOW_LEAST: Final = 32
"""Answers after which a median means something."""
_CHANCE: Final = 2.0
"""Standard deviations by which refusals have to be too many. Beside a server that refuses 3 % by
chance the limit of 64 was cut three times in ten thousand answers without them, never with them; a
server that refuses a fifth for load is noticed as often."""
_USUAL_WEIGHT: Final = 0.1
"""How fast the usual time of an answer follows one that is longer: tasks differ, and change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyRules:
    """When to grow and when to shrink; counts are requests."""

    floor: int = 8
    """The limit never falls below this: a series of bursts must not end in one request at a time,
    of which an engine, which works in batches, learns nothing."""
    ceiling: int = 16_384
    """The limit never grows above this: each request in flight is a connection of its own, and
    a process may open only so many."""
    start: int = 1024
    """The first limit: with less, a run's first episodes would wait for the doubling although any
    engine queues what it cannot run yet."""
    step: int = 32
    """Growth per observation once there was pressure. Doubling again would run into the same wall
    every few seconds; 32 twice a second are still some 4,000 in a minute."""
    factor: float = 0.7
    """What pressure multiplies the limit by. Requests in flight end by themselves: halving would
    leave the engine idle until the limit has grown back."""
    waiting: float = 0.25
    """Requests that may wait in the engine, as a share of those that run: a short queue keeps its
    batches full, a long one only makes prefixes fall out of its cache before their turn."""
    waiting_least: int = 16
    """Requests that may always wait: with few that run, the share alone would call every newcomer
    pressure."""
    kv_usage: float = 0.95
    """Share of the engine's cache that may be in use. Above, engines put running requests back
    into the queue and compute them anew."""
    settle: int = 3
    """Reports of load after a decrease before the next one."""
    refusals: int = 5
    """Refusals that may always be: some servers refuse now and then whatever their load."""
    refused: float = 0.1
    """Share of answers that may be refusals, and what chance adds to so many."""
    slow: float | None = None
    """How many times the usual time an answer may take. None = the server reports its load, and
    answers say nothing of it but refusals: their length depends on the task."""

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.start <= self.ceiling:
            raise ValueError("1 <= floor <= start <= ceiling")
        if not 0 < self.factor < 1 or self.step < 1 or self.settle < 0:
            raise ValueError("factor is between 0 and 1, step at least 1, settle at least 0")

    def within(self, ceiling: int | None) -> ConcurrencyRules:
        """Return the same rules under another ceiling; None = their own."""
        ceiling = ceiling or self.ceiling
        start = min(self.start, ceiling)
        return replace(self, ceiling=ceiling, start=start, floor=min(self.floor, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What engines report, all of them together."""

    running: int = 0
    """Requests that are being computed."""
    waiting: int = 0
    """Requests in the engines' queues."""
    kv_usage: float = 0.0
    """Share of the fullest engine's cache that is in use."""
    retracted: int = 0
    """Running requests that were put back into the queue for want of cache."""

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a log event."""
        return asdict(self)


class Signal(StrEnum):
    """What the last observation said."""

    NOTHING = "nothing"
    """Nothing was observed yet."""
    UNUSED = "limit unused"
    """No pressure, but fewer requests than allowed: what more would do, nobody knows."""
    USED = "limit used up without pressure"
    """The limit grows."""
    WAITING = "requests wait in the engine"
    """The limit shrinks."""
    KV_CACHE = "the cache is nearly full"
    """The limit shrinks."""
    RETRACTED = "running requests were put back"
    """The limit shrinks."""
    REFUSED = "requests were refused for load"
    """The limit shrinks."""
    SLOW = "answers take far longer than usual"
    """The limit shrinks."""


class ConcurrencyController:
    """Sets the limit by what a server reports and how it answers."""

    def __init__(self, rules: ConcurrencyRules | None = None) -> None:
        self.rules = rules or ConcurrencyRules()
        self.signal = Signal.NOTHING
        """Why the limit is what it is."""
        self._limit = float(self.rules.start)
        self._probing = True
        self._settling = 0
        self._usual = 0.0
        """Seconds that an answer usually takes; 0 = unknown."""
        self._ignored = 0
        """Answers to come to requests that were sent before the last decrease."""
        self._clear_window()

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    def observe(self, load: Load, in_flight: int) -> int:
        """Take in what the engines report.

        Args:
            load: Their load.
            in_flight: Requests that were sent to them and not answered yet.

        Returns:
            The limit from now on.
        """
        pressure = self._pressure(load)
        if pressure is not None:
            self.signal = pressure
            self._shrink()
            return self.limit
        self._settling = max(0, self._settling - 1)
        if in_flight >= 0.9 * self.limit:
            self.signal = Signal.USED
            self._grow()
        else:
            self.signal = Signal.UNUSED
        return self.limit

    def answered(self, seconds: float, in_flight: int) -> int:
        """Take in that a request was answered; returns the limit from now on.

        Args:
            seconds: How long that took.
            in_flight: Requests that were in flight, this one included.
        """
        if self._ignored:
            self._ignored -= 1
            return self.limit
        self._answers.append(seconds)
        self._most_in_flight = max(self._most_in_flight, in_flight)
        if len(self._answers) >= max(_WINDOW_LEAST, self.limit):
            if self.rules.slow is not None:
                self._judge_window(self.rules.slow)
            self._clear_window()
        return self.limit

    def refused(self, in_flight: int) -> int:
        """Take in that a request was refused for load; returns the limit from now on."""
        if self._ignored:
            self._ignored -= 1
            return self.limit
        self._refusals += 1
        allowed = self.rules.refused * (len(self._answers) + self._refusals)
        # Chance alone brings a share of few answers over the bound every few seconds.
        allowed += _CHANCE * math.sqrt(allowed)
        if self._refusals >= self.rules.refusals and self._refusals > allowed:
            self._shrink_for_answers(Signal.REFUSED, in_flight)
        return self.limit

    def _judge_window(self, slow: float) -> None:
        middle = median(self._answers)
        if self._usual and middle > slow * self._usual:
            self._shrink_for_answers(Signal.SLOW, self._most_in_flight)
        elif self._most_in_flight >= 0.9 * self.limit:
            self.signal = Signal.USED
            self._grow()
        else:
            self.signal = Signal.UNUSED
        longer = middle - (self._usual or middle)
        self._usual = middle if longer <= 0 else self._usual + _USUAL_WEIGHT * longer

    def _shrink_for_answers(self, signal: Signal, in_flight: int) -> None:
        self.signal = signal
        self._settling = 0
        self._shrink()
        # The requests of one burst are refused one by one: it is punished once.
        self._ignored = in_flight
        self._clear_window()

    def _clear_window(self) -> None:
        self._answers: list[float] = []
        self._refusals = 0
        self._most_in_flight = 0

    def _pressure(self, load: Load) -> Signal | None:
        rules = self.rules
        if load.waiting > max(rules.waiting_least, rules.waiting * load.running):
            return Signal.WAITING
        if load.kv_usage > rules.kv_usage:
            return Signal.KV_CACHE
        return Signal.RETRACTED if load.retracted > 0 else None

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
