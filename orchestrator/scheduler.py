"""Which episode is played next: order, limits, resume, retries.

Every key of a run is pending, running, delayed, finished or failed: exactly one of these, and
finished at most once. Pure: no I/O, no clock (callers pass `now`, seconds of any monotonic clock)
and no asyncio; the same calls give the same answers.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.errors import UsageError
from orchestrator.records import EpisodeKey
from orchestrator.retry import Decision, FailedAttempt, Failure, GiveUp, Retry, RetryBudget

__all__ = [
    "Assignment",
    "EnvironmentPlan",
    "GivenUp",
    "Limits",
    "RoundRobin",
    "Scheduler",
    "work_items",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """What a run plays of one environment."""

    environment: str
    item_ids: Sequence[str]
    """In the order in which they are to be played, without repetitions."""
    samples: int = 1
    """Episodes of an item by each policy."""


def work_items(plans: Iterable[EnvironmentPlan], *, policies: Sequence[str]) -> list[EpisodeKey]:
    """Return every key of a run: environments in the order given, then items, policies, samples.

    The samples of an item stand together, so that groups finish early and share prefix caches.
    Raises UsageError where a key would be played twice.
    """
    keys = [
        EpisodeKey(plan.environment, item_id, sample, policy)
        for plan in plans
        for item_id in plan.item_ids
        for policy in policies
        for sample in range(plan.samples)
    ]
    repeated = [key for key, times in Counter(keys).items() if times > 1]
    if repeated:
        raise UsageError(
            f"{len(repeated)} episodes are planned more than once, the first is {repeated[0]}; "
            "play an item more often by asking for more samples"
        )
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many episodes may run at once."""

    total: int
    per_environment: Mapping[str, int] = field(default_factory=dict[str, int])
    """Only where an environment's own limit is lower than the total."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An episode to start now."""

    key: EpisodeKey
    attempt: int
    """From 1, counted over all sessions of the run."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A key that failed for good."""

    attempt: int
    """The last attempt."""
    failure: Failure
    why: GiveUp


class RoundRobin:
    """Takes turns among names, in their order, leaving out those that are not ready."""

    def __init__(self, names: Iterable[str]) -> None:
        self._order = list(names)
        self._cursor = 0

    def add(self, name: str) -> None:
        """Let a name take turns, too, after the others; one that does already stays where it is."""
        if name not in self._order:
            self._order.append(name)

    def choose(self, ready: Collection[str]) -> str | None:
        """Return the next ready name after the last one chosen; None = none is ready."""
        for step in range(1, len(self._order) + 1):
            position = (self._cursor + step) % len(self._order)
            if self._order[position] in ready:
                self._cursor = position
                return self._order[position]
        return None


@dataclass(slots=True)
class _Entry:
    key: EpisodeKey
    attempt: int
    """Number of the next attempt."""
    counted: int = 0
    """Attempts that count against the retry budget so far."""


class Scheduler:
    """The state of a run's episodes.

    `start` until it gives None, then report each assignment once by `succeeded`, `failed` or
    `cancelled`. The run is over when `idle` and nothing is pending, or, while draining, when
    `idle`; one that is `endless` takes further keys by `add`, and is over only by draining.
    """

    def __init__(
        self,
        keys: Iterable[EpisodeKey],
        *,
        limits: Limits,
        retries: RetryBudget,
        finished: Collection[EpisodeKey] = (),
        failed: Mapping[EpisodeKey, FailedAttempt] | None = None,
        endless: bool = False,
    ) -> None:
        """Plan the keys that are not finished, in their order.

        Args:
            keys: Everything that the run plays.
            limits: How many episodes may run at once.
            retries: Decides about failed attempts.
            finished: Keys with a finished record.
            failed: Latest attempts of keys that failed in earlier sessions. Their numbers go on,
                and their allowance of attempts is fresh: whoever resumes a run wants them played.
            endless: Whether keys may be added while the run goes on.
        """
        self.limits = limits
        """May be replaced at any time; running episodes are not touched."""
        self.failed_keys: dict[EpisodeKey, GivenUp] = {}
        """Keys that were given up, with why."""
        self._retries = retries
        self._queues: dict[str, deque[_Entry]] = {}
        """What waits to be started, by environment."""
        self._running: dict[EpisodeKey, _Entry] = {}
        self._running_by_environment: Counter[str] = Counter()
        self._delayed: list[tuple[float, int, _Entry]] = []
        self._delays = 0
        self._finished = 0
        self._draining = False
        self._endless = endless
        self._turns = RoundRobin(())
        self.add(keys, finished=frozenset(finished), failed=failed)

    def add(
        self,
        keys: Iterable[EpisodeKey],
        *,
        finished: Collection[EpisodeKey] = (),
        failed: Mapping[EpisodeKey, FailedAttempt] | None = None,
    ) -> None:
        """Plan further keys, behind those that wait already; the arguments are those of the run."""
        for key in dict.fromkeys(keys):
            if key in finished:
                self._finished += 1
                continue
            latest = (failed or {}).get(key)
            entry = _Entry(key, attempt=latest.attempt + 1 if latest else 1)
            self._queues.setdefault(key.environment, deque()).append(entry)
            self._turns.add(key.environment)

    @property
    def pending(self) -> int:
        """Keys that wait to be started, those that wait for a delay included."""
        return sum(len(queue) for queue in self._queues.values()) + len(self._delayed)

    @property
    def running(self) -> int:
        """Keys that were started and not reported yet."""
        return len(self._running)

    def is_running(self, key: EpisodeKey) -> bool:
        """Whether a key was started and not reported yet."""
        return key in self._running

    @property
    def finished(self) -> int:
        """Keys that finished, those of earlier sessions included."""
        return self._finished

    @property
    def idle(self) -> bool:
        """Whether nothing is running."""
        return not self._running

    @property
    def done(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.idle and (self._draining or not (self.pending or self._endless))

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._draining

    def drain(self) -> None:
        """Start nothing more; what waits stays pending, for a resume."""
        self._draining = True

    def start(self, now: float) -> Assignment | None:
        """Return the next episode to start; None = none may start now."""
        if self._draining or len(self._running) >= self.limits.total:
            return None
        self._wake(now)
        free = {name for name, queue in self._queues.items() if queue and self._has_room(name)}
        environment = self._turns.choose(free)
        if environment is None:
            return None
        entry = self._queues[environment].popleft()
        self._running[entry.key] = entry
        self._running_by_environment[environment] += 1
        return Assignment(entry.key, entry.attempt)

    def next_wake(self) -> float | None:
        """Return when the earliest delayed episode may start; None = none is delayed."""
        return self._delayed[0][0] if self._delayed else None

    def succeeded(self, key: EpisodeKey) -> None:
        """Report a running episode that ended without a failure, whatever its reward."""
        self._stop_running(key)
        self._finished += 1
        self._retries.succeeded()

    def failed(self, key: EpisodeKey, failure: Failure, now: float) -> Decision:
        """Report a running episode that failed; says whether it will be played again."""
        entry = self._stop_running(key)
        entry.counted += 1
        decision = self._retries.decide(key, attempts=entry.counted, failure=failure)
        if isinstance(decision, Retry):
            entry.attempt += 1
            self._delays += 1
            # The counter keeps the order of equal times, and entries out of comparisons.
            heapq.heappush(self._delayed, (now + decision.delay, self._delays, entry))
        else:
            self.failed_keys[key] = GivenUp(entry.attempt, failure, decision)
        return decision

    def cancelled(self, key: EpisodeKey) -> None:
        """Report a running episode that was stopped from outside: it goes back, unattempted."""
        entry = self._stop_running(key)
        self._queues[key.environment].appendleft(entry)

    def _stop_running(self, key: EpisodeKey) -> _Entry:
        entry = self._running.pop(key, None)
        if entry is None:
            raise ValueError(f"{key} is not running")
        self._running_by_environment[key.environment] -= 1
        return entry

    def _wake(self, now: float) -> None:
        awake: list[_Entry] = []
        while self._delayed and self._delayed[0][0] <= now:
            awake.append(heapq.heappop(self._delayed)[2])
        # To the front: what was begun first is to end first, and a run has no long tail of retries.
        for entry in reversed(awake):
            self._queues[entry.key.environment].appendleft(entry)

    def _has_room(self, environment: str) -> bool:
        limit = self.limits.per_environment.get(environment, self.limits.total)
        return self._running_by_environment[environment] < limit
