"""Whether a request to a model server is sent again, and when; and whether the server is down.

A request has no side effect, so that repeating it costs little, while playing its episode anew
costs all of it and favours short episodes. Pure: callers pass the time and the jitter.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from agent_runtime.errors import Trouble

__all__ = [
    "Breaker",
    "Outage",
    "Overdue",
    "Patience",
    "RefillingBudget",
    "Repeat",
    "RequestCounts",
    "RequestRetries",
    "RequestRetry",
    "Stop",
]

_COSTLY: Final = frozenset({Trouble.BROKEN, Trouble.TIMEOUT, Trouble.INVALID, Trouble.STALE})
"""The server may have worked for nothing, or the request itself may be what ended it."""
_WASTED: Final = frozenset({Trouble.INVALID, Trouble.STALE})
"""A reply came, and was thrown away."""
_SILENT: Final = frozenset({Trouble.DOWN, Trouble.BROKEN, Trouble.TIMEOUT})
"""There was no answer, not even a refusal."""
_SILENT_IN_A_ROW: Final = 3
_FAILED_IN_A_ROW: Final = 8
"""Answers without a good one among them that make a server down: beside a server that refuses and
spoils one of ten, eight in a row come once in a hundred million."""


_PATIENCE_ANSWERS: Final = 200
_PATIENCE_FACTOR: Final = 8.0
_PATIENCE_LEAST: Final = 10.0
"""Seconds: no server is quick enough to be given up sooner, for it may be busy for a while."""
_LATE_FACTOR: Final = 2.0
"""Few answers take twice as long as the slowest of 200: one in a thousand even where times have so
heavy a tail that their variance has no end."""
_LATE_LEAST: Final = 0.5
"""Seconds: pauses of this process and of the network are no signs of a lost request."""
_LATE_TIMES: Final = 3
"""How often one request is hurried. With two, a request that was lost three times held one run of a
hundred for 40 seconds where 1 % are lost; a request that takes longer than all others by its nature
is given its time then."""
_HURRIED_AT_ONCE: Final = 16.0
"""Requests that may be hurried together: a server that is slow for a moment makes all late."""
_LOOK: Final = 1.0
"""Seconds between two looks at a request at most: what is known of its server changes."""
_LOOK_LEAST: Final = 0.001
"""Seconds: what is left may be too little to move a clock, and would be looked at for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRetry:
    """How requests to model servers are repeated; all sampling seeds stay the same."""

    seconds: float = 600.0
    """How long one request is sent again, counted from its first failure, and how long a server
    may be down before its run ends; 0 = requests are sent once."""
    sends: int = 4
    """How often one request may be sent where the connection broke, time ran out or the answer
    could not be read: the server may have worked each time, or the request may be what ends it.
    What failed because the server is down does not count."""
    budget: float | None = 10_000.0
    """Repeats that a policy may spend at once; `inf` = no limit."""
    refill: float = 0.5
    """What an answered request gives back to the budget, up to `budget`."""
    first_delay: float = 0.5
    """Longest pause before the first repeat, in seconds; doubled for each further one. The pause is
    drawn between 0 and this, so that requests do not come back at once."""
    max_delay: float = 30.0
    """Seconds; a server's own wish may be longer, up to five minutes."""
    hurried: float = 0.02
    """Share of a server's answers that may be asked for again at once because they are late: they
    take twice as long as the slowest of the 200 before them. 0 = a late answer is waited for."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        if self.budget == math.inf:
            object.__setattr__(self, "budget", None)
        if self.sends < 1:
            raise ValueError("sends is at least 1")
        figures = (self.seconds, self.budget or 0.0, self.refill, self.first_delay, self.max_delay)
        if not all(math.isfinite(figure) and figure >= 0 for figure in figures):
            raise ValueError("seconds, budget, refill and delays are numbers that are not negative")
        if not 0 <= self.hurried <= 1:
            raise ValueError("hurried is a share, between 0 and 1")

    def longest_pause(self, repeats: int) -> float:
        """Return the upper end of the pause before a repeat; `repeats` counts from 1."""
        # ldexp saturates where 2**repeats would not be a float any more.
        return min(self.max_delay, math.ldexp(self.first_delay, min(repeats - 1, 64)))


@dataclass(frozen=True, slots=True)
class Repeat:
    """Send it again after `delay` seconds."""

    delay: float


class Stop(StrEnum):
    """Do not send it again; why."""

    TIME = "its time is over"
    SENDS = "it was sent often enough"
    BUDGET = "the budget for repeated requests is used up"


class RefillingBudget:
    """How many repeats may be made: each takes one, each success gives a part of one back."""

    def __init__(self, budget: float | None, refill: float) -> None:
        """`budget` is what there is at first and at most; None = no limit."""
        self._most = math.inf if budget is None else budget
        self._refill = refill
        self.left = self._most
        """Repeats that could be made now."""

    def take(self) -> bool:
        """Take one repeat; returns whether there was one."""
        if self.left < 1:
            return False
        self.left -= 1
        return True

    def refill(self) -> None:
        """Note a success."""
        self.left = min(self._most, self.left + self._refill)


class RequestRetries:
    """Decides about the requests of one policy."""

    def __init__(self, policy: RequestRetry, draw: Callable[[], float] = random.random) -> None:
        """`draw` gives the jitter, a number from 0 to 1."""
        self.policy = policy
        self._draw = draw
        self._budget = RefillingBudget(policy.budget, policy.refill)
        self._hurried = RefillingBudget(_HURRIED_AT_ONCE if policy.hurried else 0, policy.hurried)

    @property
    def tokens(self) -> float:
        """Repeats that could be made now."""
        return self._budget.left

    def answered(self) -> None:
        """Note a request that was answered."""
        self._budget.refill()
        self._hurried.refill()

    def hurry(self, troubles: Mapping[Trouble, int]) -> bool:
        """Return whether a request may be sent again at once because its answer is late.

        It counts as one that was not answered in time. Call again later where it may not yet.

        Args:
            troubles: How often it has failed so far, by reason.
        """
        # As `decide` would have it of a request that has met a timeout more.
        last = _costly_sends(troubles) + 1 >= self.policy.sends
        return not last and self._hurried.take() and self._budget.take()

    def decide(
        self, troubles: Mapping[Trouble, int], *, elapsed: float, retry_after: float | None
    ) -> Repeat | Stop:
        """Whether to send a request again that has just failed.

        Args:
            troubles: How often it has failed so far, by reason.
            elapsed: Seconds since it first failed.
            retry_after: Seconds that the server asked to wait; None = it did not ask.
        """
        policy = self.policy
        if _costly_sends(troubles) >= policy.sends:
            return Stop.SENDS
        left = policy.seconds - elapsed
        if left <= 0:
            return Stop.TIME
        if not self._budget.take():
            return Stop.BUDGET
        pause = self._draw() * policy.longest_pause(sum(troubles.values()))
        # The last try is made when the time is over, not before: only then is a server that stayed
        # down known to be down for good.
        return Repeat(min(pause + (retry_after or 0.0), left))


def _costly_sends(troubles: Mapping[Trouble, int]) -> int:
    return sum(troubles.get(trouble, 0) for trouble in _COSTLY)


class Breaker:
    """Whether a server is down: then one request at a time asks whether it is back.

    Closed while the server answers. Opened by failures in a row; after a pause, which grows from
    probe to probe, one request may go through, and any good answer closes it again.
    """

    def __init__(self, policy: RequestRetry, draw: Callable[[], float] = random.random) -> None:
        """`draw` gives the jitter, a number from 0 to 1."""
        self.reason = ""
        """What the latest failure said."""
        self.trouble: Trouble | None = None
        """Its kind."""
        self._policy = policy
        self._draw = draw
        self._failures = 0
        """In a row."""
        self._silent = 0
        """Of these, the latest without any answer."""
        self._failing_since = 0.0
        self.pauses = 0
        """Pauses since the server was up; 0 = it is."""
        self._closed_until: float | None = None
        """When a probe may go through; None = the server is up."""
        self._probing = False

    @property
    def open(self) -> bool:
        """Whether the server is down."""
        return self._closed_until is not None

    def down_seconds(self, now: float) -> float:
        """Return how long the server has been down; 0 = it is up."""
        return now - self._failing_since if self.open else 0.0

    def blocked(self, now: float) -> float:
        """Return for how many seconds no request may be sent; 0 = one may, `inf` = a probe runs."""
        if self._closed_until is None:
            return 0.0
        return math.inf if self._probing else max(0.0, self._closed_until - now)

    def enter(self) -> bool:
        """Note that a request is sent, which is not blocked; returns whether it is the probe."""
        self._probing = self.open
        return self._probing

    def left(self) -> None:
        """Note a probe that ended without saying anything of the server: it was cancelled."""
        self._probing = False

    def answered(self) -> bool:
        """Note a good answer; returns whether the server was down until now."""
        was_open = self.open
        self._failures = self._silent = self.pauses = 0
        self._closed_until, self._probing = None, False
        return was_open

    def failed(
        self, trouble: Trouble, reason: str, now: float, *, probe: bool, retry_after: float | None
    ) -> bool:
        """Note a failure; returns whether the server counts as down only from now on."""
        self.trouble, self.reason = trouble, reason
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        self._silent = self._silent + 1 if trouble in _SILENT else 0
        if self.open:
            if probe:
                self._pause(now, retry_after)
            return False
        if self._silent < _SILENT_IN_A_ROW and self._failures < _FAILED_IN_A_ROW:
            return False
        self._pause(now, retry_after)
        return True

    def _pause(self, now: float, retry_after: float | None) -> None:
        self.pauses += 1
        longest = self._policy.longest_pause(self.pauses)
        # Between a half and the whole: a pause of nearly nothing would be no pause.
        drawn = longest * (0.5 + 0.5 * self._draw())
        self._closed_until = now + max(drawn, retry_after or 0.0)
        self._probing = False


class Overdue(StrEnum):
    """Why an answer is waited for no longer."""

    LATE = "late"
    """Hardly any other took so long: the request is sent again at once, where it was sent."""
    SILENT = "silent"
    """Nothing speaks for an answer any more, and its server may be down."""


class Patience:
    """How long an answer is waited for, by how long those before it took.

    Some servers take a request and never answer it. What users set as the longest time of a reply
    is for the slowest of models, and far too long for this. An answer is late first, and long
    after that it is given up.
    """

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_PATIENCE_ANSWERS)

    def answered(self, seconds: float) -> None:
        """Note how long an answer took."""
        self._times.append(seconds)

    def late(self, timeouts: int) -> float | None:
        """Return after how many seconds an answer is late; None = nothing is known yet, or never.

        Args:
            timeouts: How often the request was not answered in time: each doubles the seconds, and
                after the third there is no hurry any more.
        """
        if len(self._times) < _PATIENCE_ANSWERS or timeouts >= _LATE_TIMES:
            return None
        return math.ldexp(max(_LATE_LEAST, _LATE_FACTOR * max(self._times)), timeouts)

    def seconds(self, timeouts: int) -> float | None:
        """Return how long to wait for an answer at most; None = nothing is known yet.

        Args:
            timeouts: How often it was not answered in time, or the server was found down: each
                doubles the patience. A server that has come back may first have to load its model.
        """
        if len(self._times) < _PATIENCE_ANSWERS:
            return None
        longest = max(_PATIENCE_LEAST, _PATIENCE_FACTOR * max(self._times))
        return math.ldexp(longest, min(timeouts, 64))

    def look(
        self, waited: float, *, timeouts: int, pauses: int, hurry: Callable[[], bool]
    ) -> Overdue | float:
        """Say whether an answer is overdue, or after how many seconds to look again.

        Args:
            waited: Seconds since its request was sent.
            timeouts: How often that request was not answered in time before.
            pauses: Of the breaker when it was sent; a probe is not hurried.
            hurry: Asked when it is late: whether its request may be sent again at once.
        """
        silent = self.seconds(timeouts + pauses)
        if silent is not None and waited >= silent:
            return Overdue.SILENT
        late = None if pauses else self.late(timeouts)
        if late is not None and waited >= late and hurry():
            return Overdue.LATE
        bounds = (bound - waited for bound in (late, silent) if bound is not None)
        left = min((left for left in bounds if 0 < left < _LOOK), default=_LOOK)
        return max(left, _LOOK_LEAST)


@dataclass(frozen=True, slots=True)
class Outage:
    """A model server that is down; requests wait for it."""

    server: str
    reason: str
    """What the latest request met."""
    seconds: float
    """For how long."""
    over: bool
    """It has lasted longer than requests wait."""

    def describe(self) -> str:
        """Say it in a line."""
        return f"{self.server} has been down for {self.seconds:.0f} s: {self.reason}"


@dataclass(slots=True)
class RequestCounts:
    """What became of the requests of one policy, and how many it may have in flight."""

    limit: int = 0
    """Requests that may be in flight at once now."""
    answered: int = 0
    resent: Counter[str] = field(default_factory=Counter[str])
    """Requests sent again, by the trouble that they had."""
    given_up: int = 0
    from_cache: int = 0
    """Answers that a response cache gave, without a request."""

    @property
    def wasted(self) -> int:
        """Replies that were thrown away."""
        return sum(self.resent[trouble] for trouble in _WASTED)

    def as_data(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "answered": self.answered,
            "resent": dict(self.resent),
            "wasted": self.wasted,
            "given_up": self.given_up,
            "from_cache": self.from_cache,
        }

    def describe(self) -> str:
        """Say it in a line, for example `90 requests answered, 3 sent again (refused 2, ...)`."""
        text = f"{self.answered:,} requests answered"
        if self.from_cache:
            text += f" and {self.from_cache:,} from the response cache"
        if total := self.resent.total():
            reasons = ", ".join(f"{name} {count:,}" for name, count in self.resent.most_common())
            text += f", {total:,} sent again ({reasons}), {self.wasted:,} replies thrown away"
        return f"{text}, {self.given_up:,} given up" if self.given_up else text
