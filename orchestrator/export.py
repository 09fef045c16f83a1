"""Command: the episodes of a run as one file for training or analysis.

    python -m orchestrator.export RUN --format agenttraj --out FILE

Owns the flags only; `orchestrator.exporting` does the work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import Progress

from orchestrator.command_line import run_command
from orchestrator.exporting import ExportFilter, export_run
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader

__all__ = ["ExportOptions", "main"]


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Write the episodes of a run to one file."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    out: Path
    """The file to write; it appears when it is complete."""
    format: Literal["agenttraj", "messages", "parquet", "sharegpt"]
    """agenttraj: JSON list as AgentTraj-L; messages and sharegpt: JSONL for SFT trainers; parquet:
    everything, one row per episode."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""
    environment: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Only this environment; may be given more than once."""
    policy: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Only this policy; may be given more than once."""
    min_reward: float | None = None
    """Only episodes with at least this reward."""
    min_score: float | None = None
    """Only episodes with at least this score."""
    only_success: bool = False
    """Only episodes that succeeded."""
    include_failed: bool = False
    """Also episodes that ended by an error."""
    overwrite: bool = False
    """Replace the file if it exists."""


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
    console = Console(file=sys.stderr, soft_wrap=True)
    with (
        RunReader.open(find_run(options.run, options.runs)) as run,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("exporting", total=None)
        result = export_run(
            run,
            options.out,
            format_name=options.format,
            accept=accept,
            overwrite=options.overwrite,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    console.print(
        f"{result.path}: {result.written} episodes, {result.left_out} left out by the filters",
        markup=False,
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
