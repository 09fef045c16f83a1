"""Whether a failed episode is played again, and when: the run's single owner of such retries.

There are three limits: attempts per key, a token bucket for the whole run (a retry costs one
token, a finished episode gives a part of one back, so that a broken service is not hammered), and
which failures count. Layers below repeat only what is idempotent, where it was sent; an episode is
played anew for what that cannot heal. Pure: delays are computed here and slept elsewhere, and
jitter is derived by hashing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agent_runtime.request_retry import RefillingBudget
from agentgym.env.v1 import types_pb2
from orchestrator.seeds import unit_interval

__all__ = ["Decision", "FailedAttempt", "Failure", "GiveUp", "Retry", "RetryBudget", "RetryPolicy"]


_LONGEST_WISH: Final = 300.0
"""Seconds for which a server's wish to be left alone is respected; then it is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt failed, as its record says."""

    fault: types_pb2.Fault
    reason: str = ""
    retriable: bool = True
    retry_after: float | None = None
    """Seconds that a server asked to wait; None = it did not ask."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The latest attempt at a key, which failed."""

    attempt: int
    """From 1."""
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How much to retry."""

    max_attempts: int = 3
    """Attempts per episode, the first included; 1 = never retry."""
    budget: float | None = 100.0
    """Retries that the run may spend at once; `inf` = no limit."""
    refill: float = 0.2
    """What a finished episode gives back to the budget, up to `budget`."""
    first_delay: float = 1.0
    """Seconds before the first retry of an episode; doubled for each further one."""
    max_delay: float = 60.0
    """Seconds; a server's own wish may be longer, up to five minutes."""
    jitter: float = 0.5
    """Share of a delay that is drawn, from 0 to 1, so that failures do not come back at once."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        if self.budget == math.inf:  # no JSON has it
            object.__setattr__(self, "budget", None)
        if self.max_attempts < 1:
            raise ValueError("max_attempts is at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter is between 0 and 1")
        figures = (self.budget or 0.0, self.refill, self.first_delay, self.max_delay)
        if not all(math.isfinite(figure) and figure >= 0 for figure in figures):
            raise ValueError("budget, refill and delays are numbers that are not negative")


@dataclass(frozen=True, slots=True)
class Retry:
    """Play it again after `delay` seconds."""

    delay: float


class GiveUp(StrEnum):
    """Do not play it again; why."""

    NOT_RETRIABLE = "not_retriable"
    """The failure would come again."""
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    """The episode used its `max_attempts`."""
    BUDGET_EXHAUSTED = "budget_exhausted"
    """The run used its budget: something is broken for many episodes."""


Decision = Retry | GiveUp


class RetryBudget:
    """Decides about retries; one per run."""

    def __init__(self, policy: RetryPolicy, *, seed: int = 0) -> None:
        self.policy = policy
        self._seed = seed
        self._budget = RefillingBudget(policy.budget, policy.refill)

    @property
    def tokens(self) -> float:
        """Retries that could be made now."""
        return self._budget.left

    def succeeded(self) -> None:
        """Note an episode that finished without a failure."""
        self._budget.refill()

    def decide(self, key: Hashable, *, attempts: int, failure: Failure) -> Decision:
        """Whether to play `key` again after `attempts` attempts, the last of which just failed."""
        refusal = self.refusal(attempts, failure)
        if refusal is not None:
            return refusal
        if not self._budget.take():
            return GiveUp.BUDGET_EXHAUSTED
        return Retry(self._delay(key, attempts, failure.retry_after))

    def refusal(self, attempts: int, failure: Failure) -> GiveUp | None:
        """Return why a key must not be played again whatever the budget; None = it may."""
        if not failure.retriable or failure.fault == types_pb2.FAULT_AGENT:
            return GiveUp.NOT_RETRIABLE
        if attempts >= self.policy.max_attempts:
            return GiveUp.ATTEMPTS_EXHAUSTED
        return None

    def _delay(self, key: Hashable, attempts: int, retry_after: float | None) -> float:
        policy = self.policy
        # ldexp saturates where 2**attempts would not be a float any more.
        doubled = math.ldexp(policy.first_delay, min(attempts - 1, 64))
        drawn = unit_interval("retry-jitter", self._seed, repr(key), attempts)
        delay = min(policy.max_delay, doubled) * (1 - policy.jitter * drawn)
        return max(delay, min(retry_after or 0.0, _LONGEST_WISH))
