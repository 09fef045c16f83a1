"""What replies cost, and what one episode may spend: money, tokens, seconds.

Pure: whoever sees a reply adds it. Figures are sums over replies; a prompt counts with every reply
that was made from it, as servers bill it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

__all__ = ["EpisodeLimits", "Limit", "Pricing", "Spent", "require_positive"]


class Pricing(StrEnum):
    """What is known of the cost of a policy's replies."""

    FREE = "free"
    """They cost nobody anything."""
    PRICED = "priced"
    """Each says what it cost."""
    UNKNOWN = "unknown"
    """They may cost something, and do not say what."""

    @property
    def unbilled(self) -> float | None:
        """What a reply costs that no answer was billed for; None where prices are unknown."""
        return None if self is Pricing.UNKNOWN else 0.0


class Limit(StrEnum):
    """Which limit was reached."""

    COST = "cost"
    """US dollars."""
    TOKENS = "tokens"
    """Tokens of prompts and replies."""
    TIME = "time"
    """Seconds."""


class Spent(NamedTuple):
    """What some replies came to; every reply makes several, which are summed up."""

    cost: float = 0.0
    """US dollars, as far as the prices are known."""
    tokens: int = 0
    """Of prompts and replies."""
    seconds: float = 0.0
    """For which the policy made them, without waits for a busy or broken server."""

    def __add__(self, other: Spent) -> Spent:  # pyright: ignore[reportIncompatibleMethodOverride]
        cost, tokens, seconds = other
        return Spent(self.cost + cost, self.tokens + tokens, self.seconds + seconds)

    def beyond(
        self, *, cost: float | None, tokens: int | None, seconds: float | None
    ) -> Limit | None:
        """Return the first limit that has been reached; None = none is, or none is set."""
        if cost is not None and self.cost >= cost:
            return Limit.COST
        if tokens is not None and self.tokens >= tokens:
            return Limit.TOKENS
        if seconds is not None and self.seconds >= seconds:
            return Limit.TIME
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeLimits:
    """What one episode may spend; then it ends truncated, and is judged as it stands."""

    max_cost: float | None = None
    """US dollars for its replies; needs known prices. Default: no limit."""
    max_tokens: int | None = None
    """Tokens of its replies and of the prompts that they were made from, each time anew. Default:
    no limit."""
    time_limit: float | None = None
    """Seconds that its replies may take together, without waits for a busy or broken server.
    Default: no limit."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        require_positive(self.max_cost, self.max_tokens, self.time_limit)

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return not (self.max_cost is self.max_tokens is self.time_limit is None)

    def reached(self, spent: Spent) -> Limit | None:
        """Return the limit that an episode has reached; None = it may go on."""
        return spent.beyond(cost=self.max_cost, tokens=self.max_tokens, seconds=self.time_limit)


def require_positive(*limits: float | None) -> None:
    """Raise ValueError for a limit that is no finite number above 0."""
    if not all(limit is None or (math.isfinite(limit) and limit > 0) for limit in limits):
        raise ValueError("max_cost, max_tokens and time_limit are finite numbers above 0")
