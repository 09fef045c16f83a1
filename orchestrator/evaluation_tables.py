"""An evaluation as tables: for a terminal, and the paper's one also for papers.

Every table says how many episodes were planned, judged and given up. What was not played is `-`,
and a figure of which episodes are missing is its bounds.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.evaluation import Evaluation, Figure, mean_of
from orchestrator.statistics import Measured

__all__ = ["TABLE3", "TableFormat", "print_tables"]

TableFormat = Literal[
    "table", "categories", "table3", "table3-markdown", "table3-latex", "table3-csv"
]
"""table: a line per environment and policy; categories: a line per category of tasks, too; table3:
the paper's table, a line per policy, as text, Markdown, LaTeX or CSV."""

TABLE3: Final[Mapping[str, str]] = {
    "webshop": "WS",
    "alfworld": "ALF",
    "textcraft": "TC",
    "sciworld": "Sci",
    "babyai": "Baby",
    "maze": "MZ",
    "wordle": "WD",
    "weather": "WT",
    "movie": "MV",
    "todo": "TL",
    "bird": "BD",
}
"""The environments of the paper's table in its order, with the names that it gives them."""
_LATEX: Final = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
_WIDEST: Final = 240
_WHOLE: Final = ("environment", "metric")
"""Columns of short texts, which are never broken."""
_COUNTS: Final = ("planned", "judged", "given up")
_COUNT_HEADINGS: Final = ("planned", "judged", "given\nup")
_METRICS: Final = {"success rate": "success", "mean score": "score"}


def print_tables(evaluation: Evaluation, table_format: TableFormat, console: Console) -> None:
    """Print an evaluation in a format."""
    if table_format == "table3":
        _print_table3(evaluation, console)
    elif table_format == "table3-markdown":
        _print_text(console, _markdown(evaluation))
    elif table_format == "table3-latex":
        _print_text(console, _latex(evaluation))
    elif table_format == "table3-csv":
        _print_text(console, _csv(evaluation))
    else:
        _print_figures(evaluation, console)
        if table_format == "categories":
            console.print(_figure_table(evaluation.categories, "Categories", categories=True))
    if evaluation.pass_rates and not table_format.startswith("table3"):
        console.print(_pass_rate_table(evaluation))


def _heading(evaluation: Evaluation) -> str:
    return evaluation.title if evaluation.complete else f"{evaluation.title}, INCOMPLETE"


def _print_text(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True, end="")


def _table(title: str, names: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for heading in names:
        table.add_column(heading, overflow="fold", no_wrap=heading in _WHOLE)
    for heading in numbers:
        # Where it is narrow a figure's interval goes below it: else rich drops the policy's column.
        table.add_column(heading, justify="right", no_wrap="%" not in heading, overflow="fold")
    table.caption_justify = "left"
    return table


def _counts(row: Any) -> list[str]:
    planned = "?" if row.planned is None else str(row.planned)
    return [planned, str(row.judged), str(row.given_up) if row.given_up else "-"]


# ---------------------------------------------------------------- a line per environment


def _print_figures(evaluation: Evaluation, console: Console) -> None:
    table = _figure_table(evaluation.figures, _heading(evaluation), categories=False)
    for name in evaluation.gaps:
        if not any(figure.environment == name for figure in evaluation.figures):
            table.add_row(name, "", "not played", "-", "-", "-", "-")
    for policy in evaluation.policies:
        mean = _shown(evaluation.mean(policy))
        table.add_row("mean", Text(policy), "", "", "", "", mean)
    console.print(table)


def _figure_table(figures: Sequence[Figure], title: str, *, categories: bool) -> Table:
    names = ["environment", *(["category"] if categories else []), "policy", "metric"]
    spent = any(figure.tokens_per_success is not None for figure in figures)
    priced = any(figure.usd_per_success is not None for figure in figures)
    numbers = [*_COUNT_HEADINGS, "value %"]
    numbers += ["tokens/\nsolved"] * spent + ["$/\nsolved"] * priced
    table = _table(title, names, numbers)
    table.caption = "95 % intervals in brackets; low..high: missing episodes failed .. succeeded"
    for figure in figures:
        cells: list[Text | str] = [figure.environment]
        cells += [Text(figure.category or "?")] * categories
        cells += [Text(figure.policy), _METRICS[figure.metric], *_counts(figure)]
        cells.append(_shown(figure.measured, interval=True))
        cells += [_amount(figure.tokens_per_success, ",.0f")] * spent
        cells += [_amount(figure.usd_per_success, ".4f")] * priced
        table.add_row(*cells)
    return table


def _pass_rate_table(evaluation: Evaluation) -> Table:
    title = f"{_heading(evaluation)}: several samples of a task"
    table = _table(
        title, ("environment", "policy"), (*_COUNT_HEADINGS, "k", "pass@k %", "pass^k %")
    )
    for rate in evaluation.pass_rates:
        figures = (_shown(it, interval=True) for it in (rate.pass_at, rate.pass_all))
        table.add_row(rate.environment, Text(rate.policy), *_counts(rate), str(rate.k), *figures)
    table.caption = "pass@k: one of k samples solves the task; pass^k: all do; k = 1: the mean"
    return table


def _shown(measured: Measured, *, interval: bool = False) -> str:
    """Return a figure in percent: its value, or its bounds, with the interval if asked for."""
    if measured.bounds is not None:
        shown = f"{100 * measured.bounds.low:.1f}..{100 * measured.bounds.high:.1f}"
    elif measured.value is not None:
        shown = f"{100 * measured.value:.1f}"
    else:
        return "-"
    if measured.interval is None or not interval:
        return shown
    return f"{shown} [{100 * measured.interval.low:.1f}, {100 * measured.interval.high:.1f}]"


def _amount(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


# ---------------------------------------------------------------- the paper's table


def _table3(evaluation: Evaluation) -> list[tuple[str, list[str], list[str]]]:
    """Return a line per policy: its name, the figures with their mean, the counts of episodes."""
    lines: list[tuple[str, list[str], list[str]]] = []
    for policy in evaluation.policies:
        figures = [
            None if name in evaluation.gaps else evaluation.figure(name, policy) for name in TABLE3
        ]
        there = [figure for figure in figures if figure is not None]
        cells = [_shown(figure.measured) if figure else "-" for figure in figures]
        unknown = any(figure.planned is None for figure in there)
        counts = [
            "?" if unknown else str(sum(figure.planned or 0 for figure in there)),
            str(sum(figure.judged for figure in there)),
            str(sum(figure.given_up for figure in there)),
        ]
        lines.append((policy, [*cells, _shown(mean_of(figures))], counts))
    return lines


def _print_table3(evaluation: Evaluation, console: Console) -> None:
    table = _table(_heading(evaluation), ("policy",), (*TABLE3.values(), "mean"))
    notes: list[str] = []
    for policy, cells, (planned, judged, given_up) in _table3(evaluation):
        table.add_row(Text(policy), *cells)
        notes.append(f"{policy}: {planned} planned, {judged} judged, {given_up} given up")
    # As wide as it is: half a figure is worse than a line that the terminal breaks.
    wide = Console(file=io.StringIO(), width=_WIDEST, color_system=None)
    with wide.capture() as shown:
        wide.print(table)
    _print_text(console, "".join(f"{line.rstrip()}\n" for line in shown.get().splitlines()))
    for note in notes:
        console.print(Text(note), soft_wrap=True)


def _markdown(evaluation: Evaluation) -> str:
    headings = ["policy", *TABLE3.values(), "mean", *_COUNTS]
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for policy, cells, counts in _table3(evaluation):
        lines.append([policy.replace("|", "\\|"), *cells, *counts])
    rows = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{_heading(evaluation)}\n\n{rows}"


def _latex(evaluation: Evaluation) -> str:
    headings = ["policy", *TABLE3.values(), "mean", *_COUNTS]
    lines = [headings, *([p, *cells, *counts] for p, cells, counts in _table3(evaluation))]
    rows = [" & ".join(_latex_text(cell) for cell in line) + r" \\" for line in lines]
    return "\n".join(
        (
            f"% {_heading(evaluation)}; needs booktabs",
            rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
            r"\toprule",
            rows[0],
            r"\midrule",
            *rows[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
        )
    )


def _latex_text(text: str) -> str:
    if re.fullmatch(r"-?[\d.]+\.\.-?[\d.]+", text):
        return text.replace("..", "--")
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _csv(evaluation: Evaluation) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["policy", *TABLE3.values(), "mean", *(it.replace(" ", "_") for it in _COUNTS)])
    for policy, cells, counts in _table3(evaluation):
        writer.writerow([policy, *("" if cell == "-" else cell for cell in cells), *counts])
    return out.getvalue()
