"""Comparisons of runs as people and programs read them: on a terminal, as Markdown, CSV and data.

Below the figures stands what a reader has to know before believing them: settings that differ,
episodes that one side lacks, and how to look at the items that turned.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.comparison import ComparedFigure, RunComparison, Side, TurnedItem
from orchestrator.report import measured_data
from orchestrator.statistics import Measured
from orchestrator.terminal import visible

__all__ = ["as_csv", "as_markdown", "comparison_data", "print_comparison"]

_VALUE_CHARS: Final = 60
_NAMES_SHOWN: Final = 3
_ID_CHARS: Final = 12
_EVERYTHING: Final = "all"
_METRICS: Final = {"success rate": "success", "mean score": "score"}
_CAPTION: Final = (
    "95 % intervals in brackets, that of the difference a paired bootstrap over items; p: "
    "McNemar's exact test over items; won, lost: items at which the second did better, worse"
)
_NO_FIGURE: Final = Measured(None, None, None)
_BOUNDS: Final = (
    "low..high: everything missing for the first .. for the second, and intervals hold both"
)


# ---------------------------------------------------------------- on a terminal


def print_comparison(console: Console, comparison: RunComparison, *, items: int = 0) -> None:
    """Show a comparison; of the items that turned the first `items` of each kind, 0 = all."""
    for name, side in _sides(comparison):
        console.print(Text(visible(f"{name}: {describe_side(side)}")), soft_wrap=True)
    console.print(_table(comparison))
    for line in warnings(comparison):
        console.print(Text(visible(line), style="bold red"), soft_wrap=True)
    for line in _turned(comparison, items):
        console.print(line, soft_wrap=True)


def _sides(comparison: RunComparison) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("first", comparison.first), ("second", comparison.second)


def describe_side(side: Side) -> str:
    """Say in a line who played, where, and how much of it."""
    identity = (side.run.manifest.policies or {}).get(side.policy, {})
    who = ", ".join(
        (side.policy, *(f"{name} {value}" for name, value in identity.items() if value))
    )
    finished = sum(not record.failed for record in side.records.values())
    return f"{side.run.folder}, {who}: {finished} of {len(side.planned)} episodes finished"


def _table(comparison: RunComparison) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("environment", overflow="fold")
    for heading in ("pairs", "first %", "second %", "difference", "won\nlost", "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in comparison.figures:
        table.add_row(
            Text(f"{figure.environment or _EVERYTHING}\n  {_METRICS[figure.metric]}"),
            str(figure.pairs),
            _shown(figure.first),
            _shown(figure.second),
            _shown(figure.difference, sign="+"),
            f"{figure.won}\n{figure.lost}",
            "-" if figure.p_value is None else f"{figure.p_value:.2g}",
        )
    bounded = any(figure.difference.bounds is not None for figure in comparison.figures)
    table.caption = f"{_CAPTION}; {_BOUNDS}" if bounded else _CAPTION
    table.caption_justify = "left"
    return table


def _shown(measured: Measured, *, sign: str = "", between: str = "\n") -> str:
    """Return a figure in percent, or its bounds, and its interval."""

    def percent(value: float) -> str:
        return f"{100 * value:{sign}.1f}"

    if measured.bounds is not None:
        shown = "..".join(map(percent, measured.bounds))
    elif measured.value is not None:
        shown = percent(measured.value)
    else:
        return "-"
    if measured.interval is None:
        return shown
    return f"{shown}{between}[{', '.join(map(percent, measured.interval))}]"


def warnings(comparison: RunComparison) -> Iterator[str]:
    """Yield what a reader has to know before believing the figures, a line each."""
    if comparison.differences:
        yield "SETTINGS DIFFER, which may be why the figures do:"
    for difference in comparison.differences:
        yield f"  {difference.field}: {_cut(difference.old)} -> {_cut(difference.new)}"
    for name, side in _sides(comparison):
        for problem in side.damage:
            yield f"DAMAGED, and counted as missing, in the {name}: {problem}"
    for at, (name, _) in enumerate(_sides(comparison)):
        yield from _absences(comparison, name, at)
    for figure in comparison.figures:
        measured = figure.difference
        if figure.complete and measured.interval is None and measured != _NO_FIGURE:
            name = f"{figure.environment or _EVERYTHING}, {_METRICS[figure.metric]}"
            yield f"{name}: all pairs differ by the same: no interval of the difference"


def _absences(comparison: RunComparison, name: str, at: int) -> Iterator[str]:
    """Say what one side lacks, by why: with the number of episodes and the first items."""
    items: defaultdict[str, list[str]] = defaultdict(list)
    episodes: Counter[str] = Counter()
    for it in comparison.absent:
        why = (it.first, it.second)[at]
        if why:
            items[why].append(it.item_id)
            episodes[why] += 1
    for why, count in episodes.most_common():
        names = list(dict.fromkeys(items[why]))
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        left_out = ", and left out of the figures" if why == "not planned" else ""
        yield f"{count} episodes are missing in the {name}{left_out}: {why} ({shown})"


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."


def _turned(comparison: RunComparison, limit: int) -> Iterator[Text]:
    won = [item for item in comparison.turned if item.second_solved > item.first_solved]
    lost = [item for item in comparison.turned if item.second_solved < item.first_solved]
    for title, items in (("won by the second", won), ("lost by the second", lost)):
        if items:
            yield Text(f"{len(items)} items {title}:", style="bold")
        for item in items[:limit] if limit else items:
            yield Text(visible(f"  {item.item_id}: {_solved(item)}"))
            for side, episode_id in (
                (comparison.first, item.first_episode),
                (comparison.second, item.second_episode),
            ):
                yield Text(visible(f"    {show_command(side, episode_id)}"), style="dim")
        if limit and len(items) > limit:
            yield Text(f"  {len(items) - limit} more: --items 0 lists them", style="dim")


def _solved(item: TurnedItem) -> str:
    return f"{item.first_solved} of {item.samples} -> {item.second_solved} of {item.samples}"


def show_command(side: Side, episode_id: str) -> str:
    """Return the command that shows an episode of a side."""
    folder = shlex.quote(str(side.run.folder))
    return f"python -m orchestrator.show {folder} --episode {episode_id[:_ID_CHARS]}"


# ---------------------------------------------------------------- for pages and programs

_HEADINGS: Final = (
    *("environment", "metric", "pairs", "first %", "second %", "difference", "won", "lost", "p"),
)


def as_markdown(comparison: RunComparison) -> str:
    """Return the figures as a Markdown table, with what a reader has to know."""
    rows = [list(_HEADINGS), ["---", "---", *["---:"] * (len(_HEADINGS) - 2)]]
    rows += [_markdown_row(figure) for figure in comparison.figures]
    lines = [
        f"- {name}: {_markdown_text(describe_side(side))}" for name, side in _sides(comparison)
    ]
    lines += ["", *(f"| {' | '.join(row)} |" for row in rows), "", f"{_CAPTION}; {_BOUNDS}.", ""]
    lines += [f"- {_markdown_text(line.strip())}" for line in warnings(comparison)]
    return "\n".join(lines) + "\n"


def _markdown_row(figure: ComparedFigure) -> list[str]:
    return [
        _markdown_text(figure.environment or _EVERYTHING),
        _METRICS[figure.metric],
        str(figure.pairs),
        _shown(figure.first, between=" "),
        _shown(figure.second, between=" "),
        _shown(figure.difference, sign="+", between=" "),
        str(figure.won),
        str(figure.lost),
        "-" if figure.p_value is None else f"{figure.p_value:.2g}",
    ]


def _markdown_text(text: str) -> str:
    """Return strangers' text so that it is shown, and begins nothing of Markdown or HTML."""
    shown = " ".join(visible(text).split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#&!" else sign for sign in shown)


def as_csv(comparisons: Sequence[RunComparison]) -> str:
    """Return a line per figure; ends of bounds and intervals in columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    ends = ("low_bound", "high_bound", "low", "high")
    writer.writerow(
        [
            *("first_run", "first_policy", "second_run", "second_policy"),
            *("environment", "metric", "pairs", "complete"),
            *(
                name
                for figure in ("first", "second", "difference")
                for name in (figure, *(f"{figure}_{end}" for end in ends))
            ),
            *("won", "lost", "p", "settings_differ"),
        ]
    )
    for comparison in comparisons:
        for figure in comparison.figures:
            writer.writerow(_csv_row(comparison, figure))
    return out.getvalue()


def _csv_row(comparison: RunComparison, figure: ComparedFigure) -> list[Any]:
    sides = [(side.run.folder, side.policy) for _, side in _sides(comparison)]
    row: list[Any] = [visible(str(value)) for side in sides for value in side]
    row += [visible(figure.environment) or _EVERYTHING]
    row += [figure.metric, figure.pairs, figure.complete]
    for measured in (figure.first, figure.second, figure.difference):
        bounds, interval = measured.bounds or ("", ""), measured.interval or ("", "")
        row += ["" if measured.value is None else measured.value, *bounds, *interval]
    p_value = "" if figure.p_value is None else figure.p_value
    return [*row, figure.won, figure.lost, p_value, len(comparison.differences)]


def comparison_data(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as JSON data; intervals and bounds as [low, high]."""
    return {
        "agentgym_complete": comparison.complete,
        "missing_counts_as": comparison.missing_rule,
        "first": _side_data(comparison.first),
        "second": _side_data(comparison.second),
        "figures": [_figure_data(figure) for figure in comparison.figures],
        "settings_that_differ": [
            {"setting": it.field, "first": it.old, "second": it.new}
            for it in comparison.differences
        ],
        "turned": [
            {
                **dataclasses.asdict(item),
                "show_first": show_command(comparison.first, item.first_episode),
                "show_second": show_command(comparison.second, item.second_episode),
            }
            for item in comparison.turned
        ],
        "absent": [dataclasses.asdict(it) for it in comparison.absent],
    }


def _side_data(side: Side) -> dict[str, Any]:
    return {
        "folder": str(side.run.folder),
        "run_id": side.run.manifest.run_id,
        "policy": side.policy,
        "identity": dict((side.run.manifest.policies or {}).get(side.policy, {})),
        "planned": len(side.planned),
        "finished": sum(not record.failed for record in side.records.values()),
        "damage": list(side.damage),
    }


def _figure_data(figure: ComparedFigure) -> dict[str, Any]:
    fields = {it.name: getattr(figure, it.name) for it in dataclasses.fields(figure)}
    for name in ("first", "second", "difference"):
        fields[name] = measured_data(fields[name])
    return fields
