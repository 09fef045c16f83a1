"""What a program's agents scored: figures with confidence intervals, one table and one plot.

Owns the figure of an agent on an environment (success rate, or mean score where a perfect one is
1), its interval, and their layout: a table in the shape of the paper's Table 3, a plot over the
iterations in that of its Figure 3. Invariant: every digit comes from recorded episodes; what was
not measured is shown as missing. Deterministic. matplotlib is imported only to draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from orchestrator.atomic_file import atomic_output
from orchestrator.errors import ExtraMissing
from orchestrator.records import EpisodeSummary
from orchestrator.statistics import Interval, mean_interval, success_interval
from orchestrator.store import RunReader
from training.rollouts.jobs import EvalRun

__all__ = [
    "Figure",
    "Row",
    "as_markdown",
    "as_table",
    "draw",
    "measure",
    "metrics_from_plain",
    "pool",
    "read_metric",
]


@dataclass(frozen=True, slots=True)
class Figure:
    """One agent on one environment."""

    environment: str
    by_score: bool
    values: tuple[tuple[str, float], ...]
    """Item id and value from 0 to 1 of every episode, sorted."""

    @property
    def mean(self) -> float | None:
        """None without episodes."""
        if not self.values:
            return None
        return math.fsum(value for _, value in self.values) / len(self.values)

    @property
    def interval(self) -> Interval | None:
        """95 %, clustered by item: samples and seeds of one item are no independent evidence."""
        estimate = mean_interval if self.by_score else success_interval
        return estimate(self.values)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "environment": self.environment,
            "by_score": self.by_score,
            "values": [list(pair) for pair in self.values],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Figure:
        """The inverse of `to_plain`."""
        values = tuple((str(item), float(value)) for item, value in plain["values"])
        return cls(str(plain["environment"]), bool(plain["by_score"]), values)


@dataclass(frozen=True, slots=True)
class Row:
    """An agent in the table."""

    name: str
    figures: Mapping[str, Figure]
    """By environment."""
    note: str = ""
    """How much it learned from."""

    @property
    def mean(self) -> float | None:
        """Mean over the environments, each of equal weight."""
        means = [figure.mean for figure in self.figures.values()]
        known = [mean for mean in means if mean is not None]
        return math.fsum(known) / len(known) if known and len(known) == len(means) else None


def read_metric(played: EvalRun) -> Figure:
    """The figure of a finished run."""
    with RunReader.open(played.folder) as reader:
        return measure(played, reader.summaries())


def metrics_from_plain(plain: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures by environment, from their JSON values."""
    return {name: Figure.from_plain(it) for name, it in plain.items()}


def measure(played: EvalRun, summaries: Iterable[EpisodeSummary]) -> Figure:
    """The figure of records; failed ones are no results."""
    values: list[tuple[str, float]] = []
    for it in summaries:
        value = it.score if played.by_score else it.success
        if not it.failed and value is not None:
            values.append((it.item_id, float(value) / (played.perfect if played.by_score else 1)))
    return Figure(played.environment, played.by_score, tuple(sorted(values)))


def pool(figures: Sequence[Figure]) -> Figure:
    """Figures of one environment from several seeds as one."""
    values = sorted(pair for figure in figures for pair in figure.values)
    return Figure(figures[0].environment, figures[0].by_score, tuple(values))


def as_table(rows: Sequence[Row], environments: Sequence[str], *, title: str) -> Table:
    """The table for a terminal, in percent, with intervals."""
    table = Table("agent", *environments, "mean", "learned from", title=title)
    for row in rows:
        table.add_row(row.name, *_cells(row, environments), _percent(row.mean), row.note)
    return table


def as_markdown(rows: Sequence[Row], environments: Sequence[str]) -> str:
    """The table as Markdown."""
    lines = [
        "| agent | " + " | ".join(environments) + " | mean | learned from |",
        "|---|" + "---|" * (len(environments) + 2),
    ]
    for row in rows:
        cells = [*_cells(row, environments), _percent(row.mean), row.note]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")


def draw(
    path: Path,
    iterations: Sequence[Mapping[str, Figure]],
    large: Mapping[str, Figure],
    environments: Sequence[str],
) -> None:
    """Score over iterations, one panel per environment; iteration 0 is the base agent.

    `large` is drawn as a dashed line. Raises ExtraMissing without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # pyright: ignore[reportMissingImports]
        from matplotlib.figure import Figure as Canvas  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ExtraMissing("drawing plots", extra="plot") from None
    canvas: Any = Canvas(figsize=(3.2 * len(environments), 3.0), layout="constrained")
    FigureCanvasAgg(canvas)
    panels: Any = canvas.subplots(1, len(environments), squeeze=False)[0]
    for number, (name, panel) in enumerate(zip(environments, panels, strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        _draw_panel(panel, name, [it[name] for it in iterations if name in it], colour)
        if name in large and large[name].mean is not None:
            panel.axhline(100 * (large[name].mean or 0), color="grey", ls="--", label="BC_large")
            panel.legend(loc="lower right", fontsize=7)
    with atomic_output(path, overwrite=True) as partial:
        canvas.savefig(partial, format="png", dpi=120)


def _draw_panel(panel: Any, name: str, figures: Sequence[Figure], colour: str) -> None:
    points = [(at, it.mean, it.interval) for at, it in enumerate(figures) if it.mean is not None]
    at = [point[0] for point in points]
    panel.plot(at, [100 * (mean or 0) for _, mean, _ in points], "o-", color=colour)
    spans = [interval or Interval(mean or 0, mean or 0) for _, mean, interval in points]
    low, high = [100 * span.low for span in spans], [100 * span.high for span in spans]
    panel.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
    panel.set(title=name, xlabel="iteration (0 = BC_base)", ylim=(0, 102), xticks=at)


def _cells(row: Row, environments: Sequence[str]) -> list[str]:
    return [_cell(row.figures.get(name)) for name in environments]


def _cell(figure: Figure | None) -> str:
    if figure is None or figure.mean is None:
        return "-"
    span = figure.interval
    return _percent(figure.mean) + (
        "" if span is None else f" [{100 * span.low:.0f}, {100 * span.high:.0f}]"
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
