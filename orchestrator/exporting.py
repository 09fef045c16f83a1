"""From a run to one file: which records, in which format, all of them or no file.

Owns the filter and the atomic output. Records stream through one at a time; only those that pass
the filter are decoded. Knows no format from inside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.atomic_file import atomic_output
from orchestrator.errors import UsageError
from orchestrator.formats import WRITERS
from orchestrator.records import EpisodeSummary
from orchestrator.store import RunReader

__all__ = ["ExportFilter", "ExportResult", "export_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """Which records of a run; all conditions must hold. Absent rewards and scores never pass."""

    environments: tuple[str, ...] = ()
    """Empty = all."""
    policies: tuple[str, ...] = ()
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


def export_run(
    run: RunReader,
    path: Path,
    *,
    format_name: str,
    accept: ExportFilter | None = None,
    overwrite: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Write the accepted records of a run to `path`.

    `on_progress(written, total)` is called after each episode. Raises UsageError for an unknown
    format, environment or policy (naming those there are), OutputExists, ExtraMissing and
    StoreCorrupt; then there is no file, or the old one as it was.
    """
    if format_name not in WRITERS:
        raise UsageError(f"unknown format {format_name!r}", valid=sorted(WRITERS))
    chosen = accept or ExportFilter()
    total, left_out = _count_accepted(run, chosen)
    written = 0
    with (
        atomic_output(path, overwrite=overwrite) as partial,
        contextlib.closing(WRITERS[format_name](partial)) as writer,
    ):
        for episode in run.episodes(chosen.accepts):
            writer.write(episode)
            written += 1
            if on_progress is not None:
                on_progress(written, total)
    return ExportResult(path, written, left_out)


def _count_accepted(run: RunReader, chosen: ExportFilter) -> tuple[int, int]:
    environments: set[str] = set()
    policies: set[str] = set()
    accepted = everything = 0
    for summary in run.summaries():
        environments.add(summary.environment)
        policies.add(summary.policy)
        everything += 1
        accepted += chosen.accepts(summary)
    for what, asked, there in (
        ("environment", chosen.environments, environments),
        ("policy", chosen.policies, policies),
    ):
        unknown = sorted(set(asked) - there)
        if unknown:
            raise UsageError(f"the run has no {what} {unknown[0]!r}", valid=sorted(there))
    return accepted, everything - accepted
