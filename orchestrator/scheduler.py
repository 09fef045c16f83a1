"""Which episode is played next: order, mixing, limits, resume, retries.

Owns the state of every key of a run: pending, running, delayed, finished or failed; each is in
exactly one of these, and a key is finished at most once. Pure: no I/O, no clock (callers pass
`now`, seconds of any monotonic clock) and no asyncio; the same calls give the same answers.
Knows nothing of servers, policies or records.
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
    "DeficitRoundRobin",
    "EnvironmentPlan",
    "GivenUp",
    "Limits",
    "Scheduler",
    "work_items",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """What a run plays of one environment."""

    environment: str
    item_ids: Sequence[str]
    """In the order in which they are to be played, without repetitions."""


def work_items(
    plans: Iterable[EnvironmentPlan], *, samples: int, policies: Sequence[str]
) -> list[EpisodeKey]:
    """Every key of a run: environments in the order given, then items, policies, samples.

    The samples of an item stand together, so that groups finish early and share prefix caches.
    Raises UsageError where a key would be played twice.
    """
    keys = [
        EpisodeKey(plan.environment, item_id, sample, policy)
        for plan in plans
        for item_id in plan.item_ids
        for policy in policies
        for sample in range(samples)
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


class DeficitRoundRobin:
    """Takes turns among lanes in proportion to their weights, one unit a turn."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        """Weights are positive; the order of the mapping breaks ties. Raises ValueError."""
        if any(not 0 < weight < float("inf") for weight in weights.values()):
            raise ValueError("weights are positive and finite")
        self._weights = dict(weights)
        self._order = list(weights)
        self._deficits = dict.fromkeys(weights, 0.0)
        self._cursor = 0

    def choose(self, ready: Collection[str]) -> str | None:
        """The lane whose turn it is among the ready ones; the same until it is `charge`d."""
        waiting = [self._weights[name] for name in self._order if name in ready]
        if not waiting:
            return None
        # Quanta are relative to the heaviest ready lane, so that one round always finds a turn.
        unit = max(waiting)
        while True:
            name = self._order[self._cursor]
            if name in ready and self._deficits[name] >= 1:
                return name
            self._cursor = (self._cursor + 1) % len(self._order)
            arriving = self._order[self._cursor]
            if arriving in ready:
                self._deficits[arriving] += self._weights[arriving] / unit

    def charge(self, name: str) -> None:
        """Count one unit for a lane that had its turn."""
        self._deficits[name] -= 1

    def forget(self, name: str) -> None:
        """Drop what an emptied lane saved up: it has no claim to a burst later."""
        self._deficits[name] = min(self._deficits[name], 0.0)


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
    `idle`.
    """

    def __init__(
        self,
        keys: Iterable[EpisodeKey],
        *,
        limits: Limits,
        retries: RetryBudget,
        weights: Mapping[str, float] | None = None,
        strict_mix: bool = False,
        finished: Collection[EpisodeKey] = (),
        failed: Mapping[EpisodeKey, FailedAttempt] | None = None,
        fresh_allowance: bool = False,
    ) -> None:
        """Plan the keys that are not finished, in their order.

        `weights`: per environment, 1 where absent. `strict_mix`: keep the ratio of starts exact
        even where an environment at its limit then holds others back (for training); otherwise no
        slot stays free while anything may run. `failed`: the latest attempts of earlier sessions;
        they count against the retry policy, so that keys may be given up at once, unless
        `fresh_allowance` lets every failed key start anew.
        """
        self.limits = limits
        """May be replaced at any time; running episodes are not touched."""
        self.failed_keys: dict[EpisodeKey, GivenUp] = {}
        """Keys that were given up, with why."""
        self._retries = retries
        self._strict_mix = strict_mix
        self._lanes: dict[str, deque[_Entry]] = {}
        self._running: dict[EpisodeKey, _Entry] = {}
        self._running_by_environment: Counter[str] = Counter()
        self._delayed: list[tuple[float, int, _Entry]] = []
        self._delays = 0
        self._finished = 0
        self._draining = False
        self._admit(keys, frozenset(finished), failed or {}, fresh_allowance)
        self._mixer = DeficitRoundRobin(
            {name: (weights or {}).get(name, 1.0) for name in self._lanes}
        )

    def _admit(
        self,
        keys: Iterable[EpisodeKey],
        finished: Collection[EpisodeKey],
        failed: Mapping[EpisodeKey, FailedAttempt],
        fresh: bool,
    ) -> None:
        for key in dict.fromkeys(keys):
            if key in finished:
                self._finished += 1
                continue
            latest = failed.get(key)
            before = latest.attempt if latest else 0
            if latest and not fresh:
                refusal = self._retries.refusal(before, latest.failure)
                if refusal is not None:
                    self.failed_keys[key] = GivenUp(before, latest.failure, refusal)
                    continue
            entry = _Entry(key, attempt=before + 1, counted=0 if fresh else before)
            self._lanes.setdefault(key.environment, deque()).append(entry)

    @property
    def pending(self) -> int:
        """Keys that wait to be started, those that wait for a delay included."""
        return sum(len(lane) for lane in self._lanes.values()) + len(self._delayed)

    @property
    def running(self) -> int:
        """Keys that were started and not reported yet."""
        return len(self._running)

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
        return self.idle and (self._draining or not self.pending)

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._draining

    def drain(self) -> None:
        """Start nothing more; what waits stays pending, for a resume."""
        self._draining = True

    def start(self, now: float) -> Assignment | None:
        """The next episode to start; None = none may start now."""
        if self._draining or len(self._running) >= self.limits.total:
            return None
        self._wake(now)
        environment = self._next_environment()
        if environment is None:
            return None
        self._mixer.charge(environment)
        lane = self._lanes[environment]
        entry = lane.popleft()
        if not lane:
            self._mixer.forget(environment)
        self._running[entry.key] = entry
        self._running_by_environment[environment] += 1
        return Assignment(entry.key, entry.attempt)

    def next_wake(self) -> float | None:
        """When the earliest delayed episode may start; None = none is delayed."""
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
        self._lanes[key.environment].appendleft(entry)

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
            self._lanes[entry.key.environment].appendleft(entry)

    def _next_environment(self) -> str | None:
        waiting = {name for name, lane in self._lanes.items() if lane}
        free = {name for name in waiting if self._has_room(name)}
        chosen = self._mixer.choose(waiting if self._strict_mix else free)
        return chosen if chosen in free else None

    def _has_room(self, environment: str) -> bool:
        limit = self.limits.per_environment.get(environment, self.limits.total)
        return self._running_by_environment[environment] < limit
