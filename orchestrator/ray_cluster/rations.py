"""How many episodes a worker of a cluster gets with a message, and how often it is asked.

A message costs the driver as much as many episodes. So it is the rarer the more workers there are,
and the rarer the less a worker has to tell, within two seconds; who has played all that it holds
answers sooner. Each worker has its part of the places for live episodes. So that none of them waits
for a message it gets more episodes than that, twice as many as ended between the last two: its
surplus. What is granted stays granted, so a surplus is never more than the places or 64 (a worker
that was alone at first would keep everything), and it takes no place from others. A worker that
still plays more than its part, because it was told so when there were fewer, leaves so much less
for the next one.

Pure: the driver and the simulation of large clusters (`benchmark.scale`) decide by these rules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from orchestrator.leases import Leases
from orchestrator.scheduler import Assignment, Scheduler

__all__ = ["Ration", "Rations"]

_PAUSE_SECONDS: Final = 0.05
"""Between two messages of a worker at least."""
_PAUSE_FOR_EACH: Final = 0.002
"""Seconds that a further worker adds to the pause: together they send at most 500 messages a
second, each some 0.6 ms of the driver's time, and up to three times that where they are few."""
_ENDED: Final = (16, 32)
"""Episodes that a message tells of: of fewer, and the next one comes later; of more, and sooner.
So a message costs an episode about as much as the episode itself, some 0.03 ms."""
_QUEUE: Final = 64
"""Episodes that may wait at a worker of few places: without, each message would bring as few."""
_PACE: Final = 1.5
"""By how much."""
_LONGEST_PAUSE_SECONDS: Final = 2.0
"""Whatever a worker has to tell; but see `_PAUSE_FOR_EACH`."""
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Ration:
    """What a worker gets now."""

    grants: tuple[Assignment, ...]
    """The next episodes, which it holds from now on."""
    slots: int
    """Episodes that it may have live at once."""
    rest: float
    """Seconds before it answers at the earliest."""
    pause: float
    """Seconds before it answers while it has something left to play."""
    patience: float
    """Seconds after which it answers at the latest."""


@dataclass(slots=True)
class _Share:
    """What is known of a worker."""

    surplus: int = 1
    pause: float = _PAUSE_SECONDS
    reserved: int = 0
    """Episodes that it may have live, at most."""
    slots: int = 0
    """Those that it was last told that it may have live."""


class Rations:
    """Who gets how many. The total of the scheduler's limits is no limit from then on."""

    def __init__(self, scheduler: Scheduler, leases: Leases, concurrency: int) -> None:
        """Describe what is shared out.

        Args:
            scheduler: Says which episode is next.
            leases: Says who holds what.
            concurrency: Episodes that may be live at once, on all workers together.
        """
        self._scheduler = scheduler
        self._leases = leases
        self._concurrency = concurrency
        self.capacity = concurrency
        """Episodes that the servers of now take, of all environments together. Where that is less
        than may be live, every grant takes a place of a server, and nobody gets a surplus."""
        self._shares: dict[str, _Share] = {}
        self._reserved = 0
        """Of all workers; counted, because each message asks."""
        scheduler.limits = replace(scheduler.limits, total=_NO_LIMIT)

    def note(self, worker: str, *, ended: int, live: int) -> None:
        """Note what a worker reports: how many episodes ended, and how many it is playing."""
        if (share := self._shares.get(worker)) is not None:
            share.surplus = max(1, 2 * ended)
            fewest, most = _ENDED
            if ended < fewest:
                share.pause = min(share.pause * _PACE, _LONGEST_PAUSE_SECONDS)
            elif ended > most:
                share.pause = max(share.pause / _PACE, _PAUSE_SECONDS)
            self._reserve(share, live)

    def forget(self, worker: str) -> None:
        """Note that a worker plays nothing any more, as far as anybody knows."""
        if (share := self._shares.pop(worker, None)) is not None:
            self._reserved -= share.reserved

    def with_room(self) -> list[str]:
        """Return the workers that have places for more than they hold."""
        return [
            worker
            for worker, share in self._shares.items()
            if self._leases.takes(worker) and self._leases.load(worker) < share.slots
        ]

    def next(self, worker: str, now: float) -> Ration:
        """Grant a worker what it has room for: one that retires, nothing more."""
        share = self._shares.setdefault(worker, _Share())
        workers = max(1, self._leases.at_work)
        others = self._reserved - share.reserved
        places = min(self._concurrency, self.capacity)
        slots = max(0, min(-(-places // workers), places - others))
        share.slots = slots
        surplus = 0 if self.capacity < self._concurrency else min(share.surplus, max(slots, _QUEUE))
        # Near the end nobody gets more than its part, or others would have nothing to do.
        part = -(-(self._scheduler.pending + self._scheduler.running) // workers)
        room = min(slots + surplus, part) - self._leases.load(worker)
        grants: list[Assignment] = []
        while len(grants) < room and self._leases.takes(worker):
            assignment = self._scheduler.start(now)
            if assignment is None:
                break
            grants.append(assignment)
        if grants:
            self._leases.grant(worker, grants)
        self._reserve(share, max(share.reserved, min(slots, self._leases.load(worker))))
        patience = self._leases.policy.seconds / 4
        rest = max(_PAUSE_FOR_EACH * workers, min(_PAUSE_SECONDS, patience / 2))
        pause = max(rest, min(share.pause, patience / 2))
        return Ration(
            grants=tuple(grants),
            slots=slots,
            rest=rest,
            pause=pause,
            patience=max(pause, min(10 * pause, patience)),
        )

    def _reserve(self, share: _Share, count: int) -> None:
        self._reserved += count - share.reserved
        share.reserved = count
