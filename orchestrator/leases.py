"""Which worker holds which episodes of a run that several workers play, and for how long.

A worker holds what was granted to it while it is heard of. One that is silent for longer than its
lease, or known to be dead, is *lost*: it gets nothing more, and what it held goes to others as soon
as it is certain that it writes no more (it is *fenced*), or after a further wait where nobody can
tell. What a lost worker recorded until then counts; what it records later does not, and is
recognised as a duplicate where the records are read (decision 115).

A worker reckons its lease from the moment at which it last answered, and the driver from the moment
at which the answer came, which is later: on clocks that run alike the worker's lease ends first, so
that it can end itself before anybody else holds what it holds.

Pure: no I/O, no clock (callers pass `now`, seconds of any monotonic clock), no asyncio, no Ray.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from orchestrator.scheduler import Assignment

__all__ = ["LeasePolicy", "Leases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePolicy:
    """How long a worker is trusted."""

    seconds: float = 30.0
    """A lease: for so long a worker holds its episodes without being heard of."""
    fence: float = 60.0
    """For so long after its loss a worker's episodes wait for certainty that it writes no more;
    longer than a lease, at whose end a worker that still runs ends itself."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        if not (0 < self.seconds <= self.fence < math.inf):
            raise ValueError("a lease lasts for some seconds, and the fence for as many at least")


@dataclass(slots=True)
class _Lease:
    held: set[Assignment] = field(default_factory=set[Assignment])
    ends: float = 0.0
    """Of a lost worker: when its episodes wait no longer."""
    lost: bool = False
    retiring: bool = False


class Leases:
    """Who holds what."""

    def __init__(self, policy: LeasePolicy | None = None) -> None:
        self.policy = policy or LeasePolicy()
        self._leases: dict[str, _Lease] = {}
        self._holders: dict[Assignment, str] = {}
        self._at_work = 0
        """Workers that are neither lost nor retiring; counted, because each message asks."""
        self._used: set[str] = set()
        """Names that workers had: a name is of one worker, for ever."""

    @property
    def workers(self) -> Collection[str]:
        """Workers that hold a lease, in the order in which they joined."""
        return [name for name, lease in self._leases.items() if not lease.lost]

    @property
    def at_work(self) -> int:
        """Number of workers that hold a lease and take something."""
        return self._at_work

    @property
    def lost(self) -> Collection[str]:
        """Workers that were lost and not released yet."""
        return [name for name, lease in self._leases.items() if lease.lost]

    def held(self, worker: str) -> frozenset[Assignment]:
        """Return what a worker holds, or a lost one held; nothing for one that nobody knows."""
        lease = self._leases.get(worker)
        return frozenset(lease.held) if lease else frozenset()

    def load(self, worker: str) -> int:
        """Return how many episodes a worker holds, or a lost one held."""
        lease = self._leases.get(worker)
        return len(lease.held) if lease else 0

    def holder(self, assignment: Assignment) -> str | None:
        """Return who holds an episode; None = nobody does."""
        return self._holders.get(assignment)

    def join(self, worker: str, now: float) -> None:
        """Give a new worker a lease; raises ValueError for a name that was used before."""
        if worker in self._used:
            raise ValueError(f"there was a worker {worker} before")
        self._used.add(worker)
        self._leases[worker] = _Lease(ends=now + self.policy.seconds)
        self._at_work += 1

    def renew(self, worker: str, now: float) -> bool:
        """Note that a worker was heard of; False = it has no lease any more, and is to end."""
        lease = self._leases.get(worker)
        if lease is None or lease.lost:
            return False
        lease.ends = now + self.policy.seconds
        return True

    def retire(self, worker: str) -> None:
        """Grant a worker nothing more; what it holds it may end."""
        if self.takes(worker):
            self._leases[worker].retiring = True
            self._at_work -= 1

    def takes(self, worker: str) -> bool:
        """Whether something may be granted to a worker."""
        lease = self._leases.get(worker)
        return lease is not None and not (lease.lost or lease.retiring)

    def retired(self, worker: str) -> bool:
        """Whether a worker is through with all that it held before it was retired."""
        lease = self._leases.get(worker)
        return lease is not None and lease.retiring and not (lease.lost or lease.held)

    def grant(self, worker: str, assignments: Iterable[Assignment]) -> None:
        """Give episodes to a worker.

        Raises ValueError where it has no lease, or somebody holds one of them.
        """
        if not self.takes(worker):
            raise ValueError(f"{worker} takes nothing")
        for assignment in assignments:
            if assignment in self._holders:
                raise ValueError(f"{self._holders[assignment]} holds {assignment}")
            self._holders[assignment] = worker
            self._leases[worker].held.add(assignment)

    def settle(self, worker: str, assignment: Assignment) -> bool:
        """Note that a worker is done with an episode, its record being durable, or has given it up.

        False = it does not hold it (any more): what it did counts for nothing.
        """
        if self._holders.get(assignment) != worker:
            return False
        del self._holders[assignment]
        self._leases[worker].held.remove(assignment)
        return True

    def lose(self, worker: str, now: float) -> bool:
        """Note that a worker is dead or to be ended; False = that is known, or nobody knows it."""
        lease = self._leases.get(worker)
        if lease is None or lease.lost:
            return False
        lease.lost = True
        self._at_work -= not lease.retiring
        lease.ends = now + self.policy.fence
        return True

    def silent(self, now: float) -> list[str]:
        """Return the workers whose lease has run out; they are lost from now on."""
        found = [name for name in self.workers if self._leases[name].ends <= now]
        for name in found:
            self.lose(name, now)
        return found

    def overdue(self, now: float) -> list[str]:
        """Return the lost workers for whose end nobody has to wait any longer."""
        return [name for name in self.lost if self._leases[name].ends <= now]

    def release(self, worker: str) -> list[Assignment]:
        """Forget a lost worker that writes no more, or is overdue; return what it still held.

        What of that is on record is to be settled before. The order is that of the keys. Raises
        ValueError where the worker is not lost.
        """
        lease = self._leases.get(worker)
        if lease is None or not lease.lost:
            raise ValueError(f"{worker} is not lost")
        del self._leases[worker]
        for assignment in lease.held:
            del self._holders[assignment]
        return sorted(lease.held, key=lambda assignment: assignment.key)

    def leave(self, worker: str) -> None:
        """Forget a worker that has ended in order; raises ValueError where it holds something."""
        lease = self._leases[worker]
        if lease.held:
            raise ValueError(f"{worker} holds {len(lease.held)} episodes")
        self._at_work -= not (lease.lost or lease.retiring)
        del self._leases[worker]

    def next_wake(self) -> float | None:
        """Return when `silent` or `overdue` may have something to say next; None = never."""
        return min((lease.ends for lease in self._leases.values()), default=None)
