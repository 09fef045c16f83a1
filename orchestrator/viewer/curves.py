"""What a run looks like over time: pure, from the columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from orchestrator.records import EpisodeSummary

__all__ = ["over_time"]

_POINTS: Final = 80


def over_time(records: Iterable[EpisodeSummary], live_since: Sequence[int] = ()) -> dict[str, Any]:
    """Return curves over the time from the first start to the last end, one value per point.

    `live_since` are the starts of the episodes that are being played, in Unix milliseconds: no
    record of them is there, and they are under way to the end of the curves.

    `seconds` are the points' distances from the start; `success` is the rate among all that had
    been judged by then; steps and tokens are those of episodes that ended in the interval, by
    second; `live` counts episodes under way at the point.
    """
    ended = sorted(records, key=lambda it: it.ended_unix_ms)
    if not ended:
        return {"seconds": [], "success": [], "steps": [], "tokens": [], "live": []}
    begin = min((*live_since, *(it.started_unix_ms for it in ended)))
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
    for started in live_since:
        change[point(started)] += 1
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
