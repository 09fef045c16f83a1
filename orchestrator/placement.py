"""Which server a new episode goes to: load, speed, and ejection of servers that fail or flap.

Pure: no I/O, and no clock (callers pass `now`, seconds of any monotonic clock). Ejection is that of
Envoy's outlier detection (https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/
outlier): failures in a row eject a server for a time that grows with each ejection and shrinks
again while the server is sound; only a share of the servers may be ejected at once; where all that
could serve are ejected, they are used nevertheless. Two rules are our own, because an episode stays
where it is and one stream carries all of a server's: a server that keeps coming back (its stream
broke, its health turned) is ejected for that, where Envoy counts requests; and one that answers
more slowly than the others gets less in proportion, where Envoy only ejects.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["OutlierPolicy", "Placement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlierPolicy:
    """When a server gets fewer episodes, or none for a while."""

    failures: int = 5
    """Failed episodes in a row that eject; Envoy's `consecutive_5xx`."""
    returns: int = 3
    """Times that a server may come back within `window`; the last one ejects."""
    window: float = 60.0
    """Seconds for which a return is remembered."""
    ejection: float = 30.0
    """Seconds of the first ejection, of each after it once more; Envoy's `base_ejection_time`.
    So many seconds without a further one take one back."""
    longest_ejection: float = 300.0
    """Seconds; Envoy's `max_ejection_time`."""
    most_ejected: float = 0.1
    """Share of the servers that may be ejected at once, but at least one of several; Envoy's
    `max_ejection_percent` with `always_eject_one_host`."""
    slow_start: float = 30.0
    """Seconds in which a server that was ejected gets its whole share back; Envoy's
    `slow_start_window`."""
    tolerance: float = 2.0
    """Times the median of a step's seconds that a server may take without getting less."""
    measured: int = 5
    """Episodes of a server before its speed counts."""
    smallest_share: float = 0.1
    """What a slow or returning server gets at least: without episodes nobody would notice that it
    is well again."""


@dataclass(slots=True)
class _Record:
    """What is known of one server."""

    failures: int = 0
    """In a row."""
    returns: deque[float] = field(default_factory=deque[float])
    ejections: int = 0
    """In a row, as it was when the last one ended."""
    ejected_until: float = -math.inf
    speeds: dict[str, _Speed] = field(default_factory=dict[str, "_Speed"])


@dataclass(slots=True)
class _Speed:
    seconds: float = 0.0
    """Of a step: a mean in which newer episodes count more."""
    episodes: int = 0


_NEWEST: Final = 0.1
"""Part of the newest episode in a server's mean; of the first ones more, so that it is a mean."""


class Placement:
    """What is known of a fleet's servers; says where the next episode goes."""

    def __init__(self, policy: OutlierPolicy | None = None) -> None:
        self.policy = policy or OutlierPolicy()
        self._servers: dict[str, _Record] = {}
        self._typical: dict[str, float | None] = {}
        """Median seconds of a step by environment; absent = to be computed anew."""

    def add(self, server: str) -> None:
        """Take a server in; one that is known stays as it is."""
        self._servers.setdefault(server, _Record())

    def remove(self, server: str) -> None:
        """Forget a server."""
        if self._servers.pop(server, None) is not None:
            self._typical.clear()

    # ------------------------------------------------------------------ what happened

    def played(self, server: str, environment: str, steps: int, seconds: float) -> None:
        """Note an episode that was played: the steps that were made, and their seconds together."""
        record = self._servers.get(server)
        if record is None:
            return
        record.failures = 0
        if not steps:
            return
        speed = record.speeds.setdefault(environment, _Speed())
        speed.episodes += 1
        newest = max(_NEWEST, 1 / speed.episodes)
        speed.seconds += newest * (seconds / steps - speed.seconds)
        self._typical.pop(environment, None)

    def failed(self, server: str, now: float) -> bool:
        """Note an episode that failed by no fault of its agent; whether that ejects the server."""
        record = self._servers.get(server)
        if record is None:
            return False
        record.failures += 1
        return record.failures >= self.policy.failures and self._eject(record, now)

    def returned(self, server: str, now: float) -> bool:
        """Note that a server was away, or would take nothing, and is back; whether it is ejected.

        One return is a restart or an update; several are a server that nobody can rely on.
        """
        record = self._servers.get(server)
        if record is None:
            return False
        record.returns.append(now)
        while record.returns[0] < now - self.policy.window:
            record.returns.popleft()
        return len(record.returns) >= self.policy.returns and self._eject(record, now)

    def _eject(self, record: _Record, now: float) -> bool:
        """Eject a server, unless it is already or too many are."""
        if now < record.ejected_until or self.ejected(now) >= self._most_ejected():
            return False
        policy = self.policy
        record.ejections = self._ejections(record, now) + 1
        seconds = min(policy.ejection * record.ejections, policy.longest_ejection)
        record.ejected_until = now + seconds
        record.failures = 0
        record.returns.clear()
        return True

    def _ejections(self, record: _Record, now: float) -> int:
        """Return the ejections in a row: each stretch without a further one takes one back."""
        if not record.ejections:
            return 0
        calm = math.floor((now - record.ejected_until) / self.policy.ejection)
        return max(0, record.ejections - max(0, calm))

    def _most_ejected(self) -> int:
        count = len(self._servers)
        return min(count - 1, max(1, math.floor(count * self.policy.most_ejected)))

    # ------------------------------------------------------------------ what follows

    def ejected(self, now: float) -> int:
        """Return how many servers are ejected."""
        return sum(now < record.ejected_until for record in self._servers.values())

    def ejected_for(self, server: str, now: float) -> float:
        """Return for how many seconds more a server gets no new episodes."""
        record = self._servers.get(server)
        return 0.0 if record is None else max(0.0, record.ejected_until - now)

    def share(self, server: str, environment: str, now: float) -> float:
        """Return which part of a sound server's load a server should have: in (0, 1]."""
        record = self._servers.get(server)
        if record is None:
            return 1.0
        share = self._speed_share(record, environment)
        if record.ejections:
            back = (now - record.ejected_until) / self.policy.slow_start
            share *= min(1.0, max(0.0, back))
        return max(share, self.policy.smallest_share)

    def _speed_share(self, record: _Record, environment: str) -> float:
        own = record.speeds.get(environment)
        if own is None or own.episodes < self.policy.measured or not own.seconds:
            return 1.0
        typical = self._typical_seconds(environment)
        return 1.0 if typical is None else min(1.0, self.policy.tolerance * typical / own.seconds)

    def _typical_seconds(self, environment: str) -> float | None:
        """Return the median of the servers' seconds; None = too few were measured.

        Of an even number the lower one of the middle: of two servers the faster one is typical.
        """
        if environment not in self._typical:
            found = [
                speed.seconds
                for record in self._servers.values()
                if (speed := record.speeds.get(environment)) is not None
                and speed.episodes >= self.policy.measured
            ]
            self._typical[environment] = statistics.median_low(found) if found else None
        return self._typical[environment]

    def choose(
        self,
        loads: Mapping[str, float],
        environment: str,
        now: float,
        near: Collection[str] = (),
    ) -> str | None:
        """Return the server for a new episode: the least loaded one for its share.

        One that is near as long as it has room for it within its share. Ejected ones only where
        there are no others: an episode that may fail is better than one that is not played.

        Args:
            loads: The servers that could take it, each with the share of its capacity that is taken
                once the episode is there.
            environment: What is played.
            now: Seconds of a monotonic clock.
            near: Servers on the machine of whoever plays the episode.

        Returns:
            The server; None where there is none.
        """
        close = {
            server: load / self.share(server, environment, now)
            for server, load in loads.items()
            if server in near and not self.ejected_for(server, now)
        }
        if close and min(close.values()) <= 1:
            return min(close, key=close.__getitem__)
        best, best_load = None, math.inf
        spare, spare_load = None, math.inf
        for server, load in loads.items():
            if load >= best_load:  # a share is at most 1, so most need not be asked for
                continue
            load /= self.share(server, environment, now)
            if self.ejected_for(server, now):
                if load < spare_load:
                    spare, spare_load = server, load
            elif load < best_load:
                best, best_load = server, load
        return spare if best is None else best
