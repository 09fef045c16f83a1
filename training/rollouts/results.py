"""What agents scored: metrics with confidence intervals, one table and one plot.

The table has the shape of the paper's Table 3, the plot that of its Figure 3. Every number comes
from recorded episodes; what was not measured is shown as missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from orchestrator.atomic_file import atomic_output
from orchestrator.errors import ExtraMissing
from orchestrator.records import EpisodeSummary
from orchestrator.statistics import Interval
from orchestrator.store import RunReader
from orchestrator.training_folder import Metric, metrics_from_plain
from training.rollouts.jobs import EvalRun

__all__ = [
    "Metric",
    "Row",
    "as_markdown",
    "as_table",
    "draw",
    "draw_rewards",
    "measure",
    "metrics_from_plain",
    "pool",
    "read_metric",
]


@dataclass(frozen=True, slots=True)
class Row:
    """An agent in the table."""

    name: str
    metrics: Mapping[str, Metric]
    """By environment."""
    note: str = ""
    """How much it learned from."""

    @property
    def mean(self) -> float | None:
        """Mean over the environments, each of equal weight; None where one has no episodes."""
        means = [metric.mean for metric in self.metrics.values()]
        measured = [mean for mean in means if mean is not None]
        if not measured or len(measured) < len(means):
            return None
        return math.fsum(measured) / len(measured)

    def describe(self) -> str:
        """Return a line with the figures in percent."""
        means = {name: metric.mean for name, metric in self.metrics.items()} | {"mean": self.mean}
        return f"{self.name}: " + ", ".join(f"{it} {_percent(mean)}" for it, mean in means.items())


def read_metric(run: EvalRun) -> Metric:
    """Return the metric of a finished run."""
    with RunReader.open(run.folder) as reader:
        return measure(run, reader.summaries())


def measure(run: EvalRun, summaries: Iterable[EpisodeSummary]) -> Metric:
    """Return the metric of a run's records; failed ones are no results."""
    values: list[tuple[str, float]] = []
    for summary in summaries:
        value = summary.score if run.by_score else summary.success
        if not summary.failed and value is not None:
            scale = run.perfect if run.by_score else 1
            values.append((summary.item_id, float(value) / scale))
    return Metric(run.environment, run.by_score, tuple(sorted(values)))


def pool(metrics: Sequence[Metric]) -> Metric:
    """Return the metrics of one environment from several seeds as one."""
    values = sorted(pair for metric in metrics for pair in metric.values)
    return Metric(metrics[0].environment, metrics[0].by_score, tuple(values))


def as_table(rows: Sequence[Row], environments: Sequence[str], *, title: str) -> Table:
    """Return the table for a terminal, in percent, with intervals."""
    table = Table("agent", *environments, "mean", "learned from", title=title)
    for row in rows:
        table.add_row(row.name, *_cells(row, environments), _percent(row.mean), row.note)
    return table


def as_markdown(rows: Sequence[Row], environments: Sequence[str]) -> str:
    """Return the table as Markdown."""
    lines = [
        "| agent | " + " | ".join(environments) + " | mean | learned from |",
        "|---|" + "---|" * (len(environments) + 2),
    ]
    for row in rows:
        cells = [*_cells(row, environments), _percent(row.mean), row.note]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


_WINDOW: Final = 10
"""Steps that a curve's running mean is over."""
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")


def draw(
    path: Path,
    iterations: Sequence[Mapping[str, Metric]],
    large: Mapping[str, Metric],
    environments: Sequence[str],
) -> None:
    """Score over iterations, one panel per environment; iteration 0 is the base agent.

    `large` is drawn as a dashed line. Raises ExtraMissing without matplotlib.
    """
    canvas = _canvas(3.2 * len(environments), 3.0)
    panels: Any = canvas.subplots(1, len(environments), squeeze=False)[0]
    for number, (name, panel) in enumerate(zip(environments, panels, strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        _draw_panel(
            panel, name, [metrics[name] for metrics in iterations if name in metrics], colour
        )
        if name in large and large[name].mean is not None:
            panel.axhline(100 * (large[name].mean or 0), color="grey", ls="--", label="BC_large")
            panel.legend(loc="lower right", fontsize=7)
    _save(canvas, path)


def draw_rewards(path: Path, curves: Mapping[str, Sequence[float | None]]) -> None:
    """Draw the mean score of each step's episodes, a pale line per curve and its running mean.

    Args:
        path: Of the PNG.
        curves: Name -> score of each step from 0 to 1; None = no episode was finished.

    Raises:
        ExtraMissing: Without matplotlib.
    """
    canvas = _canvas(5.0, 3.2)
    panel: Any = canvas.subplots()
    for number, (name, rewards) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [(step, 100 * it) for step, it in enumerate(rewards, 1) if it is not None]
        steps, scores = [step for step, _ in points], [score for _, score in points]
        panel.plot(steps, scores, color=colour, alpha=0.3, lw=0.8)
        means = [
            math.fsum(scores[max(0, end - _WINDOW) : end]) / min(end, _WINDOW)
            for end in range(1, len(scores) + 1)
        ]
        panel.plot(steps, means, color=colour, label=name)
    panel.set(xlabel=f"step (mean of the last {_WINDOW})", ylabel="score of the step's episodes, %")
    panel.legend(loc="lower right", fontsize=7)
    _save(canvas, path)


def _canvas(width: float, height: float) -> Any:
    """Return an empty figure, sizes in inches; raises ExtraMissing without matplotlib."""
    try:
        backend: Any = import_module("matplotlib.backends.backend_agg")
        figure: Any = import_module("matplotlib.figure")
    except ImportError:
        raise ExtraMissing("drawing plots", extra="plot") from None
    canvas: Any = figure.Figure(figsize=(width, height), layout="constrained")
    backend.FigureCanvasAgg(canvas)
    return canvas


def _save(canvas: Any, path: Path) -> None:
    with atomic_output(path, overwrite=True) as partial:
        canvas.savefig(partial, format="png", dpi=120)


def _draw_panel(panel: Any, name: str, metrics: Sequence[Metric], colour: str) -> None:
    points = [
        (iteration, metric.mean, metric.interval or Interval(metric.mean, metric.mean))
        for iteration, metric in enumerate(metrics)
        if metric.mean is not None
    ]
    iterations = [iteration for iteration, _, _ in points]
    panel.plot(iterations, [100 * mean for _, mean, _ in points], "o-", color=colour)
    low = [100 * interval.low for _, _, interval in points]
    high = [100 * interval.high for _, _, interval in points]
    panel.fill_between(iterations, low, high, color=colour, alpha=0.15, lw=0)
    panel.set(title=name, xlabel="iteration (0 = BC_base)", ylim=(0, 102), xticks=iterations)


def _cells(row: Row, environments: Sequence[str]) -> list[str]:
    return [_cell(row.metrics.get(name)) for name in environments]


def _cell(metric: Metric | None) -> str:
    if metric is None or metric.mean is None:
        return "-"
    interval = metric.interval
    if interval is None:
        return _percent(metric.mean)
    return f"{_percent(metric.mean)} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"
