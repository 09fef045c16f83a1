"""What a run looks like over time, and how its figures are distributed: pure, from the columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from orchestrator.records import EpisodeSummary

__all__ = ["distributions", "over_time"]

_BINS: Final = 24
_POINTS: Final = 80

_FIGURES: Final[Mapping[str, Callable[[EpisodeSummary], float | None]]] = {
    "score": lambda it: it.score,
    "rounds": lambda it: it.rounds,
    "tokens": lambda it: it.prompt_tokens + it.completion_tokens,
    "seconds": lambda it: max(it.ended_unix_ms - it.started_unix_ms, 0) / 1000,
}


def distributions(records: Iterable[EpisodeSummary]) -> dict[str, dict[str, Any]]:
    """Return histograms of finished episodes: low and high end, counts of equal bins between."""
    finished = [it for it in records if not it.failed]
    return {
        name: _histogram([value for it in finished if (value := figure(it)) is not None])
        for name, figure in _FIGURES.items()
    }


def _histogram(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"low": None, "high": None, "counts": []}
    low, high = min(values), max(values)
    if low == high:
        return {"low": low, "high": high, "counts": [len(values)]}
    whole = all(value == int(value) for value in values)
    bins = min(_BINS, int(high - low) + 1) if whole else _BINS
    counts = [0] * bins
    for value in values:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    return {"low": low, "high": high, "counts": counts}


def over_time(records: Iterable[EpisodeSummary]) -> dict[str, Any]:
    """Return curves over the time from the first start to the last end, one value per point.

    `seconds` are the points' distances from the start; `success` is the rate among all that had
    been judged by then; steps and tokens are those of episodes that ended in the interval, by
    second; `live` counts episodes under way at the point.
    """
    ended = sorted(records, key=lambda it: it.ended_unix_ms)
    if not ended:
        return {"seconds": [], "success": [], "steps": [], "tokens": [], "live": []}
    begin = min(it.started_unix_ms for it in ended)
    width = max((ended[-1].ended_unix_ms - begin) / _POINTS, 1)
    steps, tokens = [0] * _POINTS, [0] * _POINTS
    judged, solved, change = [0] * _POINTS, [0] * _POINTS, [0] * (_POINTS + 1)

    def point(at: int) -> int:
        return min(max(int((at - begin) / width), 0), _POINTS - 1)

    for it in ended:
        at = point(it.ended_unix_ms)
        steps[at] += it.rounds
        tokens[at] += it.prompt_tokens + it.completion_tokens
        judged[at] += it.success is not None
        solved[at] += bool(it.success)
        change[point(it.started_unix_ms)] += 1
        change[at + 1] -= 1
    seconds = width / 1000
    all_judged, all_solved, live = _sums(judged), _sums(solved), _sums(change[:_POINTS])
    return {
        "seconds": [round(seconds * (number + 1), 3) for number in range(_POINTS)],
        "success": [
            part / whole if whole else None
            for part, whole in zip(all_solved, all_judged, strict=True)
        ],
        "steps": [value / seconds for value in steps],
        "tokens": [value / seconds for value in tokens],
        "live": live,
    }


def _sums(values: Iterable[int]) -> list[int]:
    total, sums = 0, list[int]()
    for value in values:
        total += value
        sums.append(total)
    return sums
