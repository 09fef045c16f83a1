"""The result of a run as people and programs read it: a table, or plain data.

Every figure comes from `orchestrator.statistics`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from orchestrator.statistics import EnvironmentStatistics, Interval

__all__ = ["as_data", "as_table"]


def as_data(statistics: Sequence[EnvironmentStatistics]) -> list[dict[str, Any]]:
    """Return one JSON object per environment and policy; intervals as [low, high]."""
    rows = [dataclasses.asdict(entry) for entry in statistics]
    for row in rows:
        for name in ("success_interval", "score_interval"):
            row[name] = None if row[name] is None else list(row[name])
    return rows


def as_table(statistics: Sequence[EnvironmentStatistics], *, title: str = "") -> Table:
    """Return a table with one line per environment and policy."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    table.add_column("policy", overflow="fold")
    for heading in ("n", "success %", "score", "rounds", "tokens"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("retried", justify="right")
    table.add_column("failed", overflow="fold")
    for entry in statistics:
        table.add_row(
            Text(entry.environment),
            Text(entry.policy),
            str(entry.finished),
            _figure(entry.success_rate, entry.success_interval, percent=True),
            _figure(entry.mean_score, entry.score_interval, percent=False),
            "-" if entry.mean_rounds is None else f"{entry.mean_rounds:.1f}",
            _tokens(entry),
            str(entry.retried) if entry.retried else "-",
            _failures(entry.failures),
        )
    table.caption = "95 % intervals, clustered by item; failed episodes count in no rate or mean"
    table.caption_justify = "left"
    return table


def _figure(value: float | None, interval: Interval | None, *, percent: bool) -> str:
    if value is None:
        return "-"
    factor, digits = (100, 1) if percent else (1, 3)
    shown = f"{value * factor:.{digits}f}"
    if interval is None:
        return shown
    return f"{shown} [{interval.low * factor:.{digits}f}, {interval.high * factor:.{digits}f}]"


def _tokens(entry: EnvironmentStatistics) -> str:
    """Return all tokens with three digits, for example `12.3M`; `-` where none were counted."""
    count = float(entry.prompt_tokens + entry.completion_tokens)
    if not count:
        return "-"
    for unit in ("", "k", "M", "G"):
        if count < 999.5:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}T"


def _failures(failures: Mapping[str, int]) -> Text:
    if not failures:
        return Text("-")
    listed = ", ".join(f"{count} {fault.lower()}" for fault, count in failures.items())
    return Text(listed, style="red")
