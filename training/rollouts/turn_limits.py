"""How many replies an episode may take, by the training step that it belongs to.

Knows no recipe and no torch: workers of a cluster are sent the limits with their plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["TurnLimit", "max_rounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimit:
    """From a step on, episodes may take this many replies."""

    from_step: int
    rounds: int

    def __post_init__(self) -> None:
        if self.from_step < 0 or self.rounds < 1:
            raise ValueError("from_step is at least 0, rounds at least 1")


def max_rounds(limits: Sequence[TurnLimit], step: int) -> int:
    """Return how many replies episodes of a step may take; 0 = each environment's number."""
    reached = [limit for limit in limits if limit.from_step <= step]
    return max(reached, key=lambda limit: limit.from_step).rounds if reached else 0
