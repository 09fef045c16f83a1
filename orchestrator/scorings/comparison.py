"""What a run comes to by its own records and by a scoring, side by side.

Both sides are the same statistics over the same planned episodes. What a scoring gave no score is
missing in it, and makes bounds of its figures; a verdict counts as changed where both sides have
one and they differ.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_runtime.redaction import Json
from orchestrator.records import EpisodeSummary
from orchestrator.report import figure_text, statistics_data
from orchestrator.scorings.judgement import NOT_SCORED, rescored
from orchestrator.scorings.table import EpisodeScore, ScoresReader
from orchestrator.statistics import EnvironmentStatistics, MissingRule, summarise_run
from orchestrator.store import RunReader
from orchestrator.terminal import visible

__all__ = [
    "Comparison",
    "comparison_data",
    "print_comparison",
    "read_comparison",
]

_MESSAGE_CHARS: Final = 300
_ID_CHARS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedGroup:
    """One environment played by one policy, by both sides."""

    old: EnvironmentStatistics
    new: EnvironmentStatistics
    compared: int
    """Episodes of which both sides have a verdict."""
    to_success: int
    """Episodes that were no success and are one."""
    to_failure: int
    """Episodes that were a success and are none."""

    @property
    def changed(self) -> int:
        """Episodes whose verdict changed."""
        return self.to_success + self.to_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """One reason for which finished episodes have no new score."""

    reason: str
    episodes: int
    message: str
    """Of the first one."""
    episode_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a scoring came to so far."""

    run: str
    name: str
    settings: Mapping[str, Json]
    groups: Sequence[ComparedGroup]
    finished: int
    """Episodes that there is something to judge of."""
    scored: int
    unscored: Sequence[Unscored]
    missing_rule: MissingRule
    notes: Mapping[str, int]
    """Episodes that were scored and of which there is something to say, by what."""
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """Of all tries; None where any is unknown."""

    @property
    def missing(self) -> int:
        """Planned episodes without a new score."""
        return sum(group.new.missing for group in self.groups)

    @property
    def complete(self) -> bool:
        """Whether every planned episode has a new score; False where the plan is unknown."""
        return not self.missing and all(group.new.planned is not None for group in self.groups)

    @property
    def changed(self) -> int:
        """Episodes whose verdict changed."""
        return sum(group.changed for group in self.groups)


def read_comparison(
    run: RunReader, scores: ScoresReader, *, missing: MissingRule = "bounds"
) -> Comparison:
    """Compare a run's records with a scoring of it."""
    environments = scores.environments
    old = [summary for summary in run.summaries() if summary.environment in environments]
    latest = scores.latest()
    new = [rescored(summary, latest.get(summary.episode_id)) for summary in old]
    plan = run.plan()
    if plan is not None:
        items = {name: ids for name, ids in plan.items.items() if name in environments}
        plan = dataclasses.replace(plan, items=items)
    before = summarise_run(old, plan=plan, missing=missing)
    after = summarise_run(new, plan=plan, missing=missing)
    finished = [summary for summary in old if not summary.failed]
    rows = list(scores.rows())
    asked = [row for row in rows if row.calls]
    costs = [row.cost_usd for row in asked if row.cost_usd is not None]
    return Comparison(
        run=str(run.folder),
        name=scores.name,
        settings=scores.settings,
        groups=[
            ComparedGroup(
                old=ours,
                new=theirs,
                **_changes(old, new, ours),
            )
            for ours, theirs in zip(before, after, strict=True)
        ],
        finished=len(finished),
        scored=sum(not summary.failed for summary in new),
        unscored=_unscored(finished, latest),
        missing_rule=missing,
        notes=Counter(
            row.message
            for summary in finished
            if (row := latest.get(summary.episode_id)) is not None and row.scored and row.message
        ),
        calls=sum(row.calls for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cost_usd=math.fsum(costs) if costs and len(costs) == len(asked) else None,
    )


def _changes(
    old: Sequence[EpisodeSummary], new: Sequence[EpisodeSummary], group: EnvironmentStatistics
) -> dict[str, int]:
    """Return the counts of a `ComparedGroup`."""
    verdicts = [
        (before.success, after.success)
        for before, after in zip(old, new, strict=True)
        if (before.environment, before.policy) == (group.environment, group.policy)
        and before.success is not None
        and after.success is not None
    ]
    return {
        "compared": len(verdicts),
        "to_success": verdicts.count((False, True)),
        "to_failure": verdicts.count((True, False)),
    }


def _unscored(
    finished: Sequence[EpisodeSummary], latest: Mapping[str, EpisodeScore]
) -> list[Unscored]:
    found: dict[str, Unscored] = {}
    for summary in finished:
        row = latest.get(summary.episode_id)
        if row is not None and row.scored:
            continue
        reason = NOT_SCORED if row is None else row.reason or ""
        first = found.get(reason) or Unscored(
            reason=reason,
            episodes=0,
            message="the scoring has not come to it" if row is None else row.message,
            episode_id=summary.episode_id,
        )
        found[reason] = dataclasses.replace(first, episodes=first.episodes + 1)
    return sorted(found.values(), key=lambda entry: (-entry.episodes, entry.reason))


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON data."""
    return {
        "run": comparison.run,
        "scores": comparison.name,
        "settings": comparison.settings,
        "agentgym_complete": comparison.complete,
        "finished": comparison.finished,
        "scored": comparison.scored,
        "missing": comparison.missing,
        "missing_counts_as": comparison.missing_rule,
        "changed": comparison.changed,
        "unscored": [dataclasses.asdict(entry) for entry in comparison.unscored],
        "notes": dict(comparison.notes),
        "calls": comparison.calls,
        "prompt_tokens": comparison.prompt_tokens,
        "completion_tokens": comparison.completion_tokens,
        "cost_usd": comparison.cost_usd,
        "results": [
            {
                "environment": group.old.environment,
                "policy": group.old.policy,
                "recorded": statistics_data(group.old),
                "rescored": statistics_data(group.new),
                "compared": group.compared,
                "to_success": group.to_success,
                "to_failure": group.to_failure,
            }
            for group in comparison.groups
        ],
    }


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Show both sides, and below them what a reader has to know before believing the new one."""
    console.print(_table(comparison))
    if comparison.missing:
        text = (
            f"INCOMPLETE: {comparison.scored} of {comparison.finished} finished episodes have a "
            f"score of {comparison.name}; {comparison.missing} planned ones have none"
        )
        console.print(Text(visible(text), style="bold red"), soft_wrap=True)
    elif not comparison.complete:
        text = "how many episodes were planned is not recorded: nobody can tell what is missing"
        console.print(Text(text, style="bold red"), soft_wrap=True)
    for line in _remarks(comparison):
        console.print(Text(visible(line)), soft_wrap=True)


def _table(comparison: Comparison) -> Table:
    title = visible(f"run {comparison.run}, new scores: {comparison.name}")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("environment, policy", overflow="fold")
    table.add_column("scores", no_wrap=True)
    for heading in ("planned", "judged", "missing", "success %", "score", "changed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in comparison.groups:
        changed = f"+{group.to_success} -{group.to_failure}" if group.changed else "0"
        table.add_row(Text(group.old.environment), "recorded", *_cells(group.old), "")
        table.add_row(Text(group.old.policy), "new", *_cells(group.new), changed, end_section=True)
    table.caption = (
        "95 % intervals in brackets, clustered by item; low..high: all missing episodes failed .. "
        "all succeeded; changed: verdicts that became a success and that became none"
    )
    table.caption_justify = "left"
    return table


def _cells(entry: EnvironmentStatistics) -> Iterator[str | Text]:
    yield "?" if entry.planned is None else str(entry.planned)
    yield str(entry.judged or entry.finished)
    yield Text(str(entry.missing), style="red") if entry.missing else "-"
    yield figure_text(
        entry.success_rate, entry.success_bounds, entry.success_interval, percent=True
    )
    yield figure_text(entry.mean_score, entry.score_bounds, entry.score_interval, percent=False)


def _remarks(comparison: Comparison) -> Iterator[str]:
    both = sum(group.compared for group in comparison.groups)
    yield f"{comparison.changed} of {both} verdicts that both sides have changed"
    for message, episodes in sorted(comparison.notes.items()):
        yield f"{episodes} scored episodes: {message}"
    for entry in comparison.unscored:
        message = " ".join(entry.message.split())
        if len(message) > _MESSAGE_CHARS:
            message = message[:_MESSAGE_CHARS] + " ..."
        yield f"  {entry.episodes} x {entry.reason}: {message}"
        yield (
            f"      python -m orchestrator.show {comparison.run} --scores {comparison.name} "
            f"--episode {entry.episode_id[:_ID_CHARS]}"
        )
    if comparison.calls:
        cost = "" if comparison.cost_usd is None else f", {comparison.cost_usd:.4f} US dollars"
        yield (
            f"{comparison.calls} questions to the judge: {comparison.prompt_tokens} + "
            f"{comparison.completion_tokens} tokens{cost}"
        )
