"""Command: the episodes of a run as one file or folder for training or analysis, or a report of it.

    python -m orchestrator.export RUN --format agenttraj --out FILE
    python -m orchestrator.export RUN --format html --out FILE

Records stream through one at a time, and only those that pass the filter are decoded. The file
appears when it is complete, or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import tyro
from rich.progress import Progress

from orchestrator.atomic_file import atomic_folder, atomic_output
from orchestrator.command_line import run_command
from orchestrator.errors import UsageError
from orchestrator.formats import WRITERS
from orchestrator.html_report import HtmlReportWriter
from orchestrator.object_storage import locate_run
from orchestrator.records import EpisodeSummary
from orchestrator.scorings.judgement import rescored, set_score
from orchestrator.scorings.table import EpisodeScore, ScoresReader
from orchestrator.store import RunReader
from orchestrator.terminal import TerminalConsole

__all__ = [
    "HTML",
    "HTML_CONVERSATIONS",
    "ExportFilter",
    "ExportOptions",
    "ExportResult",
    "export_run",
    "main",
]

HTML: Final = "html"
"""The format that is a report of the run, and no data for programs."""
HTML_CONVERSATIONS: Final = 50
"""In a report where no limit is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Which records of a run; all conditions must hold. Absent rewards and scores never pass."""

    environments: tuple[str, ...] = ()
    """Empty = all."""
    policies: tuple[str, ...] = ()
    """Empty = all."""
    episode_ids: tuple[str, ...] = ()
    """Empty = all."""
    min_reward: float | None = None
    min_score: float | None = None
    only_success: bool = False
    include_failed: bool = False
    """Also episodes that ended by an error; they have no reward."""

    def accepts(self, summary: EpisodeSummary) -> bool:
        """Whether a record passes."""
        return (
            (self.include_failed or not summary.failed)
            and (not self.environments or summary.environment in self.environments)
            and (not self.policies or summary.policy in self.policies)
            and (not self.episode_ids or summary.episode_id in self.episode_ids)
            and _reaches(summary.reward, self.min_reward)
            and _reaches(summary.score, self.min_score)
            and (summary.success is True or not self.only_success)
        )


def _reaches(value: float | None, bound: float | None) -> bool:
    return bound is None or (value is not None and value >= bound)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export did."""

    path: Path
    written: int
    left_out: int
    """Records that did not pass the filter."""
    beyond_limit: int = 0
    """Records that passed it and were more than asked for."""
    images_left_out: int = 0
    """Images of observations for which the format has no place."""


def export_run(
    run: RunReader,
    path: Path,
    *,
    format_name: str,
    accept: ExportFilter | None = None,
    scores: str = "",
    limit: int = 0,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Write the accepted records of a run to `path`.

    With `scores`, the name of a scoring, its scores and successes take the place of the recorded
    ones, also for the filters; what it gave no score counts as failed. `limit` is the greatest
    number of episodes, the first ones of the run; 0 = all. `on_progress(written, total)` is called
    after each episode. Raises UsageError for an unknown format, environment, policy or scoring
    (naming those there are), OutputExists, ExtraMissing and StoreCorrupt; then there is no file, or
    the old one as it was.
    """
    if format_name not in (*WRITERS, HTML):
        raise UsageError(f"unknown format {format_name!r}", valid=sorted((*WRITERS, HTML)))
    record_filter = accept or ExportFilter()
    latest = _read_scores(run, scores) if scores else None

    def judged(summary: EpisodeSummary) -> EpisodeSummary:
        return summary if latest is None else rescored(summary, latest.get(summary.episode_id))

    def is_chosen(summary: EpisodeSummary) -> bool:
        return record_filter.accepts(judged(summary))

    accepted, left_out = _count_accepted(run, record_filter, judged)
    total = min(accepted, limit) if limit else accepted
    written = images_left_out = 0
    into_folder = format_name in WRITERS and WRITERS[format_name].is_folder
    output = atomic_folder(path) if into_folder else atomic_output(path, overwrite=overwrite)
    with output as partial:
        writer = (
            HtmlReportWriter(partial, run, is_chosen, limit, judged=judged, scores=scores)
            if format_name == HTML
            else WRITERS[format_name](partial)
        )
        with contextlib.closing(writer):
            for episode in itertools.islice(run.episodes(is_chosen), total):
                if latest is not None:
                    set_score(episode, latest.get(episode.episode_id))
                writer.write(episode)
                written += 1
                images_left_out += 0 if writer.keeps_images else len(episode.images)
                if on_progress is not None:
                    on_progress(written, total)
    return ExportResult(path, written, left_out, accepted - written, images_left_out)


def _read_scores(run: RunReader, name: str) -> dict[str, EpisodeScore]:
    with ScoresReader.open(run, name) as scores:
        return scores.latest()


def _count_accepted(
    run: RunReader,
    record_filter: ExportFilter,
    judged: Callable[[EpisodeSummary], EpisodeSummary],
) -> tuple[int, int]:
    environments: set[str] = set()
    policies: set[str] = set()
    accepted = everything = 0
    for summary in run.summaries():
        environments.add(summary.environment)
        policies.add(summary.policy)
        everything += 1
        accepted += record_filter.accepts(judged(summary))
    for kind, requested, present in (
        ("environment", record_filter.environments, environments),
        ("policy", record_filter.policies, policies),
    ):
        unknown = sorted(set(requested) - present)
        if unknown:
            raise UsageError(f"the run has no {kind} {unknown[0]!r}", valid=sorted(present))
    return accepted, everything - accepted


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Write the episodes of a run to one file."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, its name within `--runs`, or a URL such as s3://BUCKET/RUN."""
    out: Path
    """The file to write, with huggingface the folder; it appears when it is complete."""
    format: Literal[
        "agenttraj",
        "atif",
        "html",
        "huggingface",
        "messages",
        "openai",
        "parquet",
        "sharegpt",
        "verifiers",
    ]
    """agenttraj: JSON list as AgentTraj-L; messages and sharegpt: JSONL for SFT trainers (TRL reads
    the former); openai: JSONL for OpenAI's fine-tuning; atif: Harbor's trajectories, one per line,
    with token ids and logprobs; verifiers: JSONL as vf-eval of 0.1 saves it; parquet: everything,
    one row per episode; huggingface: the same as a data set's folder with a card, for
    datasets.load_dataset; html: a report of the
    whole run for people, with figures, distributions, failures, configuration and conversations, in
    a page that needs nothing else."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    environment: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Only this environment; may be given more than once."""
    policy: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Only this policy; may be given more than once."""
    scores: str = ""
    """Write the scores and successes of this scoring (python -m orchestrator.rescore) in place of
    the recorded ones, and filter by them."""
    min_reward: float | None = None
    """Only episodes with at least this reward."""
    min_score: float | None = None
    """Only episodes with at least this score."""
    only_success: bool = False
    """Only episodes that succeeded."""
    include_failed: bool = False
    """Also episodes that ended by an error."""
    limit: int | None = None
    """At most so many episodes, the first that were recorded; 0 = all. Without it all, and as many
    conversations in a report as can be read: 50."""
    overwrite: bool = False
    """Replace the file if it exists; a folder is never replaced."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ExportOptions, _export, argv, program="agentgym-export")


def _export(options: ExportOptions) -> int:
    accept = ExportFilter(
        environments=options.environment,
        policies=options.policy,
        min_reward=options.min_reward,
        min_score=options.min_score,
        only_success=options.only_success,
        include_failed=options.include_failed,
    )
    limit = options.limit
    if limit is None:
        limit = HTML_CONVERSATIONS if options.format == HTML else 0
    if limit < 0:
        raise UsageError("--limit counts episodes; 0 = all")
    console = TerminalConsole(file=sys.stderr, soft_wrap=True)
    with (
        RunReader.open(locate_run(options.run, options.runs)) as run,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("exporting", total=None)
        result = export_run(
            run,
            options.out,
            format_name=options.format,
            accept=accept,
            scores=options.scores,
            limit=limit,
            overwrite=options.overwrite,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    beyond = f", {result.beyond_limit} by the limit" if result.beyond_limit else ""
    console.print(
        f"{result.path}: {result.written} episodes, "
        f"{result.left_out} left out by the filters{beyond}",
        markup=False,
        highlight=False,
    )
    if result.images_left_out:
        console.print(
            f"{result.images_left_out} images of observations are not in it: "
            f"{options.format} is written with texts only (parquet, huggingface, openai and html "
            "have them)",
            markup=False,
            highlight=False,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
