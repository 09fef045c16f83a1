"""What a run may spend, and what it has spent: the account that ends it at a limit.

Money and tokens count over all sessions of a run: every reply of every attempt, recorded or not.
Time counts within a session. A limit that was reached stays reached. Pure: no clock, no I/O.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from agent_runtime.spending import Limit, Spent, require_positive
from orchestrator.records import EpisodeKey, EpisodeSummary

__all__ = ["RunAccount", "RunLimits", "recorded_spending", "spent_from_json", "spent_to_json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What a run may spend before it ends in order; a resume with higher limits goes on."""

    max_cost: float | None = None
    """US dollars that the run may spend, over all its sessions; then no episode is begun any more,
    and those that are live have --limit-grace to end. Needs known prices."""
    max_tokens: int | None = None
    """The same in tokens of replies and of the prompts that they were made from. How long a reply
    may be says --max-new-tokens."""
    time_limit: float | None = None
    """The same in seconds, of this session."""
    limit_grace: float = 60.0
    """Seconds that live episodes have to end after a limit was reached; then they are given up,
    unfinished, for a resume. What they spend comes on top of the limit."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        require_positive(self.max_cost, self.max_tokens, self.time_limit)
        if not (math.isfinite(self.limit_grace) and self.limit_grace >= 0):
            raise ValueError("limit_grace is a finite number that is not negative")


class RunAccount:
    """What a run has spent."""

    def __init__(
        self, limits: RunLimits, *, recorded: Spent | None = None, unrecorded: Spent | None = None
    ) -> None:
        """Open the account of a session.

        Args:
            limits: What may be spent.
            recorded: What earlier sessions spent on attempts that have a record.
            unrecorded: What they spent on others.
        """
        self.limits = limits
        self._total = (recorded or Spent()) + (unrecorded or Spent())
        self._open: defaultdict[EpisodeKey, Spent] = defaultdict(Spent)
        """What was spent on attempts that have no record yet."""
        self._unpriced = ""
        """The policy of a reply whose cost nobody knows."""
        self._reached = ""

    @property
    def total(self) -> Spent:
        """What was spent in all sessions; the seconds mean nothing."""
        return self._total

    def add(self, key: EpisodeKey, spent: Spent, *, priced: bool = True) -> None:
        """Note a reply; `priced` says whether its cost is known."""
        if spent.cost or spent.tokens:  # the seconds mean nothing, and scripted players cost none
            self._total += spent
            self._open[key] += spent
        if not priced:
            self._unpriced = self._unpriced or key.policy

    def recorded(self, key: EpisodeKey) -> None:
        """Note that the attempt at a key is on record, with all that was spent on it."""
        self._open.pop(key, None)

    def unrecorded(self, environments: Collection[str]) -> Spent:
        """Return what this session spent in some environments on attempts without a record."""
        spent = Spent()
        for key, part in self._open.items():
            if key.environment in environments:
                spent += part
        return spent

    def reached(self, seconds: float) -> str:
        """Return which limit the run has reached, in words; empty = none.

        Args:
            seconds: For how long the session has been playing.
        """
        if not self._reached:
            self._reached = self._over(seconds)
        return self._reached

    def _over(self, seconds: float) -> str:
        limits, total = self.limits, self._total
        if limits.max_cost is limits.max_tokens is limits.time_limit is None:
            return ""  # most runs, and every reply asks
        if limits.max_cost is not None and self._unpriced:
            return (
                f"its limit of ${limits.max_cost:g} (--max-cost), which cannot be kept: "
                f"{self._unpriced} gave a reply without its cost"
            )
        spent = Spent(cost=total.cost, tokens=total.tokens, seconds=seconds)
        limit = spent.beyond(
            cost=limits.max_cost, tokens=limits.max_tokens, seconds=limits.time_limit
        )
        match limit:
            case None:
                return ""
            case Limit.COST:
                return f"its limit of ${limits.max_cost:g} (--max-cost), ${total.cost:.6g} spent"
            case Limit.TOKENS:
                return (
                    f"its limit of {limits.max_tokens:,} tokens (--max-tokens), "
                    f"{total.tokens:,} used"
                )
            case Limit.TIME:
                return f"its limit of {limits.time_limit:g} s (--time-limit)"


def recorded_spending(summaries: Iterable[EpisodeSummary]) -> Spent:
    """Return what attempts cost, as their records say; unknown costs count as 0."""
    costs: list[float] = []
    tokens = 0
    for summary in summaries:
        costs.append(summary.cost_usd or 0.0)
        tokens += summary.prompt_tokens + summary.completion_tokens
    return Spent(cost=math.fsum(costs), tokens=tokens)


def spent_to_json(spent: Spent) -> str:
    """Return cost and tokens as a store keeps them."""
    return json.dumps({"cost": spent.cost, "tokens": spent.tokens})


def spent_from_json(text: str) -> Spent:
    """Return cost and tokens of a stored text; raises ValueError, KeyError, TypeError."""
    values = json.loads(text)
    return Spent(cost=float(values["cost"]), tokens=int(values["tokens"]))
