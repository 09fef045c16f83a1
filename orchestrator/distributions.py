"""How scores, rounds, tokens and seconds of episodes are distributed: histograms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.records import EpisodeSummary

__all__ = ["Histogram", "list_distributions", "make_histogram"]

_BINS: Final = 24


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of equal bins from the least to the greatest value."""

    low: float
    high: float
    counts: Sequence[int]


_FIGURES: Final[Mapping[str, Callable[[EpisodeSummary], float | None]]] = {
    "score": lambda it: it.score,
    "rounds": lambda it: float(it.rounds),
    "tokens": lambda it: float(it.prompt_tokens + it.completion_tokens),
    "seconds": lambda it: max(it.ended_unix_ms - it.started_unix_ms, 0) / 1000,
}


def list_distributions(records: Iterable[EpisodeSummary]) -> dict[str, Histogram]:
    """Return histograms of finished episodes by the name of what they are of.

    What no episode has a value of, or a value other than 0, is left out.
    """
    finished = [record for record in records if not record.failed]
    found: dict[str, Histogram] = {}
    for name, figure in _FIGURES.items():
        values = [value for it in finished if (value := figure(it)) is not None]
        if any(values) or (values and name == "score"):
            found[name] = make_histogram(values)
    return found


def make_histogram(values: Sequence[float]) -> Histogram:
    """Return the histogram of at least one value; whole numbers have bins of whole numbers."""
    low, high = min(values), max(values)
    whole = all(value == int(value) for value in values)
    bins = min(_BINS, int(high - low) + 1) if whole else _BINS
    if low == high:
        return Histogram(low, high, [len(values)])
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return Histogram(low, high, counts)
