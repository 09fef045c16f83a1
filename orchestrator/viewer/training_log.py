"""The log of a training as curves: of any length, in as many points as a chart shows. Pure I/O."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.training_folder import iterate_log

__all__ = ["LogCurves", "read_curves"]

_POINTS: Final = 200
_LAST_ROWS: Final = 50
_NO_CURVES: Final = frozenset({"step", "epoch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCurves:
    """What a log holds."""

    last_step: int
    """0 = it is empty."""
    curves: Mapping[str, Mapping[str, Sequence[float]]]
    """Of each metric the steps and the values; of long logs means of neighbouring rows, at the last
    step of these."""
    newest: Mapping[str, float]
    """Of each metric the last value."""
    last_rows: Sequence[Mapping[str, Any]]
    """The last ones, the newest first."""


@dataclass(slots=True)
class _Bucket:
    """Rows that become a point."""

    number: int
    step: float
    total: float = 0.0
    count: int = 0


def read_curves(path: Path) -> LogCurves:
    """Read a log; one that is not there is empty. Raises OSError."""
    rows = sum(1 for _ in iterate_log(path))
    width = max(math.ceil(rows / _POINTS), 1)
    buckets: dict[str, list[_Bucket]] = {}
    newest: dict[str, float] = {}
    last_rows: deque[Mapping[str, Any]] = deque(maxlen=_LAST_ROWS)
    last_step = 0
    for number, row in enumerate(iterate_log(path)):
        step = row.get("step")
        if not isinstance(step, int):
            continue
        last_step = step
        last_rows.appendleft(row)
        for name, value in row.items():
            if name in _NO_CURVES or not _is_figure(value):
                continue
            newest[name] = value
            known = buckets.setdefault(name, [])
            if not known or known[-1].number != number // width:
                known.append(_Bucket(number // width, step))
            bucket = known[-1]
            bucket.step, bucket.total, bucket.count = step, bucket.total + value, bucket.count + 1
    curves = {
        name: {"steps": [it.step for it in known], "values": [it.total / it.count for it in known]}
        for name, known in buckets.items()
    }
    return LogCurves(last_step=last_step, curves=curves, newest=newest, last_rows=tuple(last_rows))


def _is_figure(value: object) -> bool:
    """Tell whether a value is a number that a chart can show: no flag, and finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
