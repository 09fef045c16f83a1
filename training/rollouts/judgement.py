"""What agents were judged to be: figures with intervals over tasks and seeds, and differences.

Tasks and seeds are both samples: a figure would be another one with other tasks, and with other
seeds. So intervals are percentile bootstraps that draw both anew at the same time (crossed: every
seed's agent plays the same tasks), and a difference of two agents is paired in both. Each
environment counts the same in a mean. With few seeds such an interval is rather too narrow than too
wide; with one it says nothing of seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from orchestrator.seeds import derive
from orchestrator.statistics import Interval
from orchestrator.training_folder import Metric
from training.errors import TrainingError

__all__ = [
    "Difference",
    "Estimate",
    "JudgedRow",
    "compare_rows",
    "differences_as_markdown",
    "estimate_row",
    "rows_as_markdown",
]

_RESAMPLES: Final = 2000
_CONFIDENCE: Final = 0.95

Matrix = NDArray[np.float64]
"""[seeds, tasks], values from 0 to 1."""


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One row of the table: its agents, one for each seed, on one part of the tasks."""

    name: str
    note: str
    metrics: Mapping[int, Mapping[str, Metric]]
    """Seed -> environment -> what its agent earned."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval, over tasks and seeds."""

    value: float
    interval: Interval

    def to_plain(self) -> dict[str, float]:
        """Return it as JSON values."""
        return {"value": self.value, "low": self.interval.low, "high": self.interval.high}


@dataclass(frozen=True, slots=True)
class Difference:
    """Second minus first, paired by task and seed."""

    first: str
    second: str
    by_environment: Mapping[str, Estimate]
    mean: Estimate
    tasks: Mapping[str, int]
    """Environment -> tasks that all agents of both finished."""


def estimate_row(row: JudgedRow, environments: Sequence[str]) -> dict[str, Estimate]:
    """Return a row's figures by environment; under "mean" that of the environments.

    Raises TrainingError where the agents have no task in common.
    """
    tables = {name: _matrix(row, name, _common([row], name)) for name in environments}
    return {**{name: _estimate([tables[name]]) for name in environments}, "mean": _all(tables)}


def compare_rows(first: JudgedRow, second: JudgedRow, environments: Sequence[str]) -> Difference:
    """Return what the second earned above the first.

    Raises TrainingError where they have no seed or no task in common.
    """
    tables: dict[str, Matrix] = {}
    for name in environments:
        items = _common([first, second], name)
        ours, theirs = (_matrix(row, name, items) for row in (first, second))
        if ours.shape != theirs.shape:
            raise TrainingError(f"{first.name} and {second.name} are of different seeds")
        tables[name] = theirs - ours
    return Difference(
        first=first.name,
        second=second.name,
        by_environment={name: _estimate([tables[name]]) for name in environments},
        mean=_all(tables),
        tasks={name: int(table.shape[1]) for name, table in tables.items()},
    )


def _common(rows: Sequence[JudgedRow], environment: str) -> list[str]:
    """Return the tasks that every agent of the rows finished: others cannot be paired."""
    played = [
        {item for item, _ in metrics[environment].values}
        for row in rows
        for metrics in row.metrics.values()
    ]
    return sorted(item for item in played[0] if all(item in items for items in played))


def _matrix(row: JudgedRow, name: str, items: Sequence[str]) -> Matrix:
    if not items:
        raise TrainingError(f"{row.name}: no task of {name} was finished by all agents")
    values = [dict(row.metrics[seed][name].values) for seed in sorted(row.metrics)]
    return np.array([[of_seed[item] for item in items] for of_seed in values])


def _all(tables: Mapping[str, Matrix]) -> Estimate:
    return _estimate(list(tables.values()))


def _estimate(tables: Sequence[Matrix]) -> Estimate:
    """Return the mean of the tables' means, with its interval; all tables have the same seeds."""
    seeds = len(tables[0])
    generator = np.random.Generator(
        np.random.Philox(key=derive("judgement", seeds, *(table.shape[1] for table in tables)))
    )
    means = np.empty(_RESAMPLES)
    for number in range(_RESAMPLES):
        drawn = generator.integers(seeds, size=seeds)
        means[number] = np.mean(
            [
                table[drawn][:, generator.integers(table.shape[1], size=table.shape[1])].mean()
                for table in tables
            ]
        )
    tail = 100 * (1 - _CONFIDENCE) / 2
    low, high = (float(it) for it in np.percentile(means, [tail, 100 - tail]))
    return Estimate(float(np.mean([table.mean() for table in tables])), Interval(low, high))


def rows_as_markdown(
    rows: Sequence[tuple[JudgedRow, Mapping[str, Estimate]]], environments: Sequence[str]
) -> str:
    """Return a table of rows in percent, with intervals."""
    columns = [*environments, "mean"]
    lines = [f"| agent | {' | '.join(columns)} | learned from |"]
    lines.append("|" + "---|" * (len(columns) + 2))
    for row, estimates in rows:
        cells = [_cell(estimates[name]) for name in columns]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {row.note} |")
    return "\n".join(lines) + "\n"


def differences_as_markdown(differences: Sequence[Difference], environments: Sequence[str]) -> str:
    """Return a table of differences in points, with intervals."""
    lines = [f"| second minus first | {' | '.join([*environments, 'mean'])} |"]
    lines.append("|" + "---|" * (len(environments) + 2))
    for it in differences:
        cells = [_cell(it.by_environment[name], "+.1f") for name in environments]
        cells.append(_cell(it.mean, "+.1f"))
        lines.append(f"| {it.second} - {it.first} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(estimate: Estimate, form: str = ".1f") -> str:
    low, high = estimate.interval
    return f"{100 * estimate.value:{form}} [{100 * low:.0f}, {100 * high:.0f}]"
