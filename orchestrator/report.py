"""The result of a run as people and programs read it: a table with what it rests on, or plain data.

A report never makes an incomplete run look complete: it says how many episodes were planned, judged
and given up, why attempts failed, what was played again and what was not. Every figure comes from
`orchestrator.statistics`.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.errors import RecordCorrupt
from orchestrator.failures import FailureReason, list_failures
from orchestrator.missingness import Missingness, measure_missingness
from orchestrator.records import EpisodeSummary, blamed
from orchestrator.retry import GiveUp
from orchestrator.run_folder import read_writer
from orchestrator.run_plan import SessionEnd
from orchestrator.run_state import RunState, run_state
from orchestrator.statistics import (
    EnvironmentStatistics,
    Interval,
    Measured,
    MissingRule,
    summarise_run,
)
from orchestrator.store import RunReader
from orchestrator.terminal import visible

__all__ = [
    "RunReport",
    "as_data",
    "as_table",
    "count_text",
    "figure_text",
    "list_remarks",
    "list_warnings",
    "measured_data",
    "print_report",
    "read_report",
    "state_text",
    "statistics_data",
    "sum_up",
]

_REASONS_SHOWN: Final = 8
_DAMAGE_SHOWN: Final = 8
_MESSAGE_CHARS: Final = 300
_ID_CHARS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run came to so far."""

    folder: Path
    statistics: Sequence[EnvironmentStatistics]
    planned: int | None
    """None = the run did not record its plan."""
    finished: int
    """Planned episodes with a finished record."""
    given_up: int
    """Episodes whose last attempt failed."""
    retried: int
    """Attempts that failed and were played again."""
    recovered: int
    """Episodes that finished after a failed attempt."""
    reasons: Sequence[FailureReason]
    missingness: Missingness
    missing_rule: MissingRule
    end: SessionEnd | None
    writer: int | None
    """Process that is playing it now."""
    gaps: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the run's suite has and is not played, by environment: why, and what to do."""
    damage: Sequence[str] = ()
    """Rows that are not as they were written, and rows that are gone."""

    @property
    def complete(self) -> bool:
        """Whether the whole suite was planned and every planned episode has a finished record.

        False where the plan is unknown.
        """
        return self.planned is not None and not (self.missing or self.damage or self.gaps)

    @property
    def missing(self) -> int:
        """Episodes without a finished record."""
        return sum(entry.missing for entry in self.statistics)


def read_report(run: RunReader, *, missing: MissingRule = "bounds") -> RunReport:
    """Sum a run up; `missing` says what episodes count as that have no finished record."""
    damage: list[str] = []

    def on_damage(error: RecordCorrupt) -> None:
        damage.append(error.problem)

    records = list(run.summaries(on_damage=on_damage))
    superseded = list(run.summaries(superseded=True, on_damage=on_damage))
    return sum_up(run, records, superseded, damage, missing=missing)


def sum_up(
    run: RunReader,
    records: Sequence[EpisodeSummary],
    superseded: Sequence[EpisodeSummary],
    damage: Sequence[str],
    *,
    missing: MissingRule = "bounds",
) -> RunReport:
    """Sum a run up whose columns were read: records, replaced attempts, what cannot be read."""
    damage, plan = [*run.loss(), *damage], run.plan()
    statistics = summarise_run(records, plan=plan, missing=missing)
    given_up = sum(record.failed for record in records)
    return RunReport(
        folder=run.folder,
        statistics=statistics,
        planned=None if plan is None else len(plan.keys()),
        finished=len(records) - given_up,
        given_up=given_up,
        retried=len(superseded),
        recovered=sum(record.attempt > 1 and not record.failed for record in records),
        reasons=list_failures(run, records, superseded),
        missingness=measure_missingness(records, superseded),
        missing_rule=missing,
        end=run.session_end(),
        writer=read_writer(run.folder),
        gaps=plan.gaps if plan is not None else {},
        damage=damage,
    )


def as_data(report: RunReport) -> dict[str, Any]:
    """Return a report as JSON data; intervals and bounds as [low, high]."""
    return {
        "agentgym_complete": report.complete,
        "planned": report.planned,
        "finished": report.finished,
        "given_up": report.given_up,
        "missing": report.missing,
        "missing_counts_as": report.missing_rule,
        "retried_attempts": report.retried,
        "recovered": report.recovered,
        "damage": list(report.damage),
        "gaps": dict(report.gaps),
        "not_retried": dict(report.end.given_up) if report.end is not None else None,
        "stopped_by": (report.end.limit or None) if report.end is not None else None,
        "missingness": {
            **dataclasses.asdict(report.missingness),
            "depends_on_length": report.missingness.depends_on_length,
            "depends_on_item": report.missingness.depends_on_item,
        },
        "failures": [dataclasses.asdict(reason) for reason in report.reasons],
        "results": [statistics_data(entry) for entry in report.statistics],
    }


def statistics_data(entry: EnvironmentStatistics) -> dict[str, Any]:
    """Return the statistics of one line as JSON data."""
    return {
        name: list(value) if isinstance(value, Interval) else value
        for name, value in dataclasses.asdict(entry).items()
    }


def measured_data(measured: Measured) -> dict[str, Any]:
    """Return a figure as JSON data; interval and bounds as [low, high]."""
    return {
        name: list(value) if isinstance(value, Interval) else value
        for name, value in measured._asdict().items()
    }


def print_report(console: Console, report: RunReport, *, title: str = "") -> None:
    """Show the table, and below it what a reader has to know before believing it."""
    console.print(as_table(report, title=title))
    for line in list_warnings(report):
        console.print(Text(line, style="bold red"), soft_wrap=True)
    for line in list_remarks(report):
        console.print(Text(line), soft_wrap=True)
    for line in _failures(report):
        console.print(line, soft_wrap=True)


def as_table(report: RunReport, *, title: str = "") -> Table:
    """Return a table with one line per environment and policy."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("environment", no_wrap=True)
    table.add_column("policy", overflow="fold")
    for heading in ("planned", "judged", "given up", "success %", "score", "rounds", "tokens"):
        # Where it is narrow a figure's interval goes below it: else rich drops the policy's column.
        whole = heading not in ("success %", "score")
        table.add_column(heading, justify="right", no_wrap=whole, overflow="fold")
    for entry in report.statistics:
        table.add_row(
            Text(entry.environment),
            Text(entry.policy),
            "?" if entry.planned is None else str(entry.planned),
            str(entry.judged or entry.finished),
            Text(str(entry.given_up), style="red") if entry.given_up else "-",
            figure_text(
                entry.success_rate, entry.success_bounds, entry.success_interval, percent=True
            ),
            figure_text(entry.mean_score, entry.score_bounds, entry.score_interval, percent=False),
            "-" if entry.mean_rounds is None else f"{entry.mean_rounds:.1f}",
            count_text(entry.prompt_tokens + entry.completion_tokens),
        )
    table.caption = "95 % intervals in brackets, clustered by item"
    if report.missing:
        table.caption += f"; {_RULES[report.missing_rule]}"
    table.caption_justify = "left"
    return table


_RULES: Final = {
    "bounds": "low..high: all missing episodes failed .. all succeeded, and intervals hold both",
    "fail": "missing episodes count as failures",
    "error": "no figures, because episodes are missing",
    "drop": "MISSING EPISODES ARE LEFT OUT, as if they were missing at random",
}


def figure_text(
    value: float | None, bounds: Interval | None, interval: Interval | None, *, percent: bool
) -> str:
    """Return a figure or its bounds with the interval; `-` where there is neither."""
    factor, digits = (100, 1) if percent else (1, 3)
    if bounds is not None:
        shown = f"{bounds.low * factor:.{digits}f}..{bounds.high * factor:.{digits}f}"
    elif value is not None:
        shown = f"{value * factor:.{digits}f}"
    else:
        return "-"
    if interval is None:
        return shown
    return f"{shown} [{interval.low * factor:.{digits}f}, {interval.high * factor:.{digits}f}]"


def count_text(number: float) -> str:
    """Return a count with three digits, for example `12.3M`; `-` where it is 0."""
    count = float(number)
    if not count:
        return "-"
    for unit in ("", "k", "M", "G"):
        if count < 999.5:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g}T"


def list_warnings(report: RunReport) -> Iterator[str]:
    """Say what is missing, and whether what is there can stand for it."""
    for problem in report.damage[:_DAMAGE_SHOWN]:
        yield f"DAMAGED, and counted as missing: {problem}"
    if len(report.damage) > _DAMAGE_SHOWN:
        yield f"{len(report.damage) - _DAMAGE_SHOWN} more: python -m orchestrator.audit lists them"
    for name, problem in report.gaps.items():
        yield f"NOT PLAYED as the suite has it: {name}: {problem}"
    if report.planned is None and report.end is not None:
        yield "nothing was planned: this run keeps what people played on, or what was imported"
    elif report.planned is None:
        yield "how many episodes were planned is not recorded: nobody can tell what is missing"
    elif report.missing or report.damage:
        yield (
            f"{state_text(report)}: {report.finished} of {report.planned} planned episodes "
            f"finished, {report.given_up} were given up, "
            f"{report.planned - report.finished - report.given_up} not played"
        )
    if not report.missing:
        return
    if report.missing > report.given_up:
        yield "episodes that were not played are no random part: short ones end first"
    yield from _missingness(report.missingness)


def state_text(report: RunReport) -> str:
    """Return why a run is not complete."""
    state = run_state(
        writer=report.writer, planned=report.planned, complete=report.complete, end=report.end
    )
    if state is RunState.LIMITED and report.end is not None:
        return f"STOPPED by {report.end.limit}"
    if state is RunState.LIVE:
        return f"NOT FINISHED, process {report.writer} is playing it"
    return _STATES.get(state, "INCOMPLETE")


_STATES: Final = {
    RunState.KILLED: "NOT FINISHED, its last session was killed or ended by an error",
    RunState.INTERRUPTED: "NOT FINISHED, it was interrupted",
    RunState.FINISHED: "WITHOUT A PLAN: it keeps what people played on, or what was imported",
}


def _missingness(found: Missingness) -> Iterator[str]:
    """Say by which test failures do, or do not seem to, depend on length and item."""
    if not found.failed_attempts:
        return
    lengths = f"failed attempts had played {_number(found.failed_median_rounds)} rounds (median)"
    if found.finished_median_rounds is not None:
        lengths += f", finished ones {_number(found.finished_median_rounds)} in all"
    if found.length_p is None:
        yield f"too few attempts to tell whether failures depend on length ({lengths})"
    elif found.depends_on_length:
        yield (
            f"LONG EPISODES FAIL MORE, so those that finished are no fair sample ({lengths}; "
            f"Mann-Whitney against random parts of finished ones, p = {found.length_p:.1g})"
        )
    else:
        yield (
            f"no sign that failures depend on length ({lengths}; Mann-Whitney "
            f"p = {found.length_p:.2g})"
        )
    if found.item_p is None or found.repeated_failure_rate is None:
        return
    rates = (
        f"{100 * (found.first_failure_rate or 0):.0f} % of first attempts failed, "
        f"{100 * found.repeated_failure_rate:.0f} % of later ones; "
        f"test of two proportions p = {found.item_p:.2g}"
    )
    if found.depends_on_item:
        yield f"THE SAME ITEMS FAIL AGAIN, so those that finished are no fair sample ({rates})"
    else:
        yield f"no sign that failures depend on the item ({rates})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def list_remarks(report: RunReport) -> Iterator[str]:
    """Say what was played again, and what was not and why."""
    if report.retried:
        yield (
            f"{report.retried} failed attempts were played again; "
            f"{report.recovered} episodes finished that way"
        )
    not_retried = Counter(report.end.given_up if report.end is not None else {})
    for why, sentence in _NOT_RETRIED.items():
        if not_retried[why]:
            yield f"{not_retried[why]} episodes were given up: {sentence}"


_NOT_RETRIED: Final = {
    GiveUp.NOT_RETRIABLE: "their failure would come again",
    GiveUp.ATTEMPTS_EXHAUSTED: "they used all their attempts (--retry.max-attempts)",
    GiveUp.BUDGET_EXHAUSTED: (
        "the retry budget of the run was used up, so they were not tried again "
        "(--retry.budget, --retry.refill); a resume tries them again"
    ),
}


def _failures(report: RunReport) -> Iterator[Text]:
    """Say why attempts failed: reason, number, first message, how to see one."""
    if report.reasons:
        yield Text("why attempts failed:")
    for reason in report.reasons[:_REASONS_SHOWN]:
        outcome = f"{reason.given_up} given up" if reason.given_up else "none given up"
        message = " ".join(visible(reason.message).split())
        if len(message) > _MESSAGE_CHARS:
            message = message[:_MESSAGE_CHARS] + " ..."
        yield Text(
            f"  {reason.attempts} x {blamed(reason.fault)}: {visible(reason.reason)} ({outcome})",
            style="red",
        )
        yield Text(f"      {message or '(no message)'}")
        yield Text(
            f"      python -m orchestrator.show {shlex.quote(str(report.folder))} "
            f"--episode {reason.episode_id[:_ID_CHARS]}",
            style="dim",
        )
    if len(report.reasons) > _REASONS_SHOWN:
        yield Text(f"  {len(report.reasons) - _REASONS_SHOWN} more reasons: --list shows them")
