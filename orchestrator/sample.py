"""`python -m orchestrator.sample`: play episodes over gRPC and record them.

Without arguments: a demonstration of the trained agent that comes with the package, on the tasks
that judged it, in its settings; expert and random play the same ones beside it.
"""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from orchestrator.command_line import guarded, make_console, run_loop
from orchestrator.config import RunConfig, merge
from orchestrator.report import as_data, as_table
from orchestrator.run import RunOutcome, run
from orchestrator.run_folder import find_run, inspect_folder
from orchestrator.statistics import summarise_run
from orchestrator.store import RunReader

__all__ = ["Sample", "main", "play_command", "print_outcome"]

Conclude = Callable[[RunOutcome, Console], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Play episodes over gRPC and record them in a run folder."""

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run; default: runs/sample-<time>."""
    resume: str = ""
    """Go on with this run (a folder, or a name below runs/)."""
    json: bool = False
    """Print the summary as JSON on stdout, and everything else on stderr."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every episode was played, 130 when interrupted."""
    given = sys.argv[1:] if argv is None else list(argv)
    return guarded(lambda: play_command(given, name="sample", default=RunConfig()))


def play_command(
    argv: list[str],
    *,
    name: str,
    default: RunConfig,
    conclude: Conclude | None = None,
) -> int:
    """Parse flags, play a run, show its outcome; returns the exit status.

    `conclude` may print more and adds what it returns to the JSON summary.
    """
    resumed = _resumed_run(argv)
    sample = _parse(argv, name, recorded_config(resumed) if resumed else default)
    sampling = None if resumed else sample.run.agent_sampling()
    if sampling is not None:
        # Its sampling becomes the default, and flags go before defaults.
        agent = replace(default.agent, sampling=sampling)
        sample = _parse(argv, name, replace(default, agent=agent))
    now = datetime.now(UTC)
    unique = Path("runs", f"{name}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}")
    folder = resumed or sample.out or unique
    console = make_console(stderr=sample.json)
    outcome = run_loop(run(sample.run, folder, resume=resumed is not None, console=console))
    summary = print_outcome(outcome, console, program=f"orchestrator.{name}")
    if conclude is not None:
        summary |= conclude(outcome, console)
    if sample.json:
        sys.stdout.write(json_text.dumps(summary, indent=2) + "\n")
    if outcome.interrupted:
        return 130
    return 0 if outcome.complete else 1


def _parse(argv: list[str], name: str, default: RunConfig) -> Sample:
    start = Sample(run=default)
    return tyro.cli(Sample, prog=f"python -m orchestrator.{name}", args=argv, default=start)


def _resumed_run(argv: Sequence[str]) -> Path | None:
    """The folder that --resume names, found before the flags are parsed: its recorded
    configuration is their default, so that a resume needs no other flag.
    """
    for position, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if name == "--resume":
            given = value if equals else next(iter(argv[position + 1 :]), "")
            return find_run(given) if given else None
    return None


def recorded_config(folder: Path) -> RunConfig:
    """The configuration that a run was begun with."""
    manifest = inspect_folder(folder)
    settings: Mapping[str, Any] = manifest.sessions[-1].settings if manifest.sessions else {}
    return RunConfig.from_plain(merge(manifest.config, settings))


def print_outcome(outcome: RunOutcome, console: Console, *, program: str) -> dict[str, Any]:
    """Show the table, where the run lies and how to go on with it; returns the JSON summary."""
    with RunReader.open(outcome.folder) as reader:
        statistics = summarise_run(reader.summaries())
    console.print(as_table(statistics, title=f"run {outcome.folder}"))
    if not outcome.complete:
        left = outcome.planned - outcome.finished
        console.print(
            f"{left} of {outcome.planned} episodes are missing ({outcome.failed} were given up); "
            f"go on with: python -m {program} --resume {outcome.folder}",
            highlight=False,
            soft_wrap=True,
        )
    return {
        "run": str(outcome.folder),
        "planned": outcome.planned,
        "finished": outcome.finished,
        "failed": outcome.failed,
        "interrupted": outcome.interrupted,
        "results": as_data(statistics),
    }


if __name__ == "__main__":
    sys.exit(main())
