"""Whether episodes are missing from a run at random, as two simple tests say.

Length: a failure that hits anybody hits an episode anywhere, so that failed attempts have played a
random part of an episode. Had they played more rounds than random parts of finished episodes have?
One-sided Mann-Whitney test, corrected for ties. If they had, they were cut from longer episodes, or
failed near the end of theirs; how long they would have been nobody knows.

Item: do attempts that are played again fail more often than
first ones? If failures hit anybody, they do not; if they stick to items (or to bad minutes), they
do. One-sided test of two proportions. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Final

from orchestrator.records import EpisodeSummary
from orchestrator.seeds import unit_interval

__all__ = ["Missingness", "measure_missingness"]

SIGNIFICANCE: Final = 0.01
_FEWEST: Final = 5
"""Attempts on each side below which a test says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missingness:
    """What the attempts of a run say about why some failed. None = too few of them to tell."""

    failed_attempts: int
    failed_median_rounds: float | None
    """Rounds that failed attempts had played when they failed."""
    finished_median_rounds: float | None
    """Rounds of finished episodes."""
    length_p: float | None
    """Probability of so many rounds of failed attempts if failures did not depend on length."""
    first_failure_rate: float | None
    """Share of first attempts that failed."""
    repeated_failure_rate: float | None
    """Share of later attempts that failed."""
    item_p: float | None
    """Probability of such a high share of later ones if failures did not depend on the item."""

    @property
    def depends_on_length(self) -> bool:
        """Whether long episodes fail more, beyond chance."""
        return self.length_p is not None and self.length_p < SIGNIFICANCE

    @property
    def depends_on_item(self) -> bool:
        """Whether the same items fail again, beyond chance."""
        return self.item_p is not None and self.item_p < SIGNIFICANCE


def measure_missingness(
    records: Sequence[EpisodeSummary], superseded: Sequence[EpisodeSummary]
) -> Missingness:
    """Return what records and superseded attempts of a run say."""
    attempts = [*records, *superseded]
    failed = [attempt.rounds for attempt in attempts if attempt.failed]
    finished = [attempt for attempt in attempts if not attempt.failed]
    parts = [_random_part(attempt) for attempt in finished]
    first = [attempt.failed for attempt in attempts if attempt.attempt == 1]
    later = [attempt.failed for attempt in attempts if attempt.attempt > 1]
    return Missingness(
        failed_attempts=len(failed),
        failed_median_rounds=median(failed) if failed else None,
        finished_median_rounds=median(it.rounds for it in finished) if finished else None,
        length_p=_p_of_longer(failed, parts),
        first_failure_rate=sum(first) / len(first) if first else None,
        repeated_failure_rate=sum(later) / len(later) if later else None,
        item_p=_p_of_more_often(later, first),
    )


def _random_part(finished: EpisodeSummary) -> int:
    """Return the rounds after which a failure that comes anywhere would have hit an episode."""
    return int(unit_interval("missingness", finished.episode_id) * finished.rounds)


def _p_of_longer(longer: Sequence[int], shorter: Sequence[int]) -> float | None:
    """Return the one-sided p value of Mann and Whitney's test (normal approximation)."""
    if min(len(longer), len(shorter)) < _FEWEST:
        return None
    counts = Counter(longer)
    others = Counter(shorter)
    wins = 0.0
    below = 0
    ties = 0
    for value in sorted(counts.keys() | others.keys()):
        wins += counts[value] * (below + others[value] / 2)
        below += others[value]
        size = counts[value] + others[value]
        ties += size**3 - size
    pairs = len(longer) * len(shorter)
    size = len(longer) + len(shorter)
    variance = pairs / 12 * (size + 1 - ties / (size * (size - 1)))
    return _upper_tail(wins - pairs / 2, variance)


def _p_of_more_often(more: Sequence[bool], less: Sequence[bool]) -> float | None:
    """Return the one-sided p value of a difference of two proportions (pooled variance)."""
    if min(len(more), len(less)) < _FEWEST:
        return None
    pooled = (sum(more) + sum(less)) / (len(more) + len(less))
    variance = pooled * (1 - pooled) * (1 / len(more) + 1 / len(less))
    return _upper_tail(sum(more) / len(more) - sum(less) / len(less), variance)


def _upper_tail(difference: float, variance: float) -> float:
    if variance <= 0:
        return 0.5
    return 1 - NormalDist().cdf(difference / math.sqrt(variance))
