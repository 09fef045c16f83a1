"""`python -m orchestrator.sample`: play episodes over gRPC and record them.

Without arguments: a demonstration of the trained agent that comes with the package, on the tasks
that judged it, in its settings; expert and random play the same ones beside it.
"""

from __future__ import annotations

import argparse
import json as json_text
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from orchestrator.command_line import ObservationOptions, guarded, make_console, run_loop
from orchestrator.config import RunConfig, parse_policies
from orchestrator.configuration import parse_flags, parse_names
from orchestrator.errors import UsageError
from orchestrator.manifest import is_own
from orchestrator.report import RunReport, as_data, print_report, read_report
from orchestrator.run import RunOutcome, run
from orchestrator.run_folder import find_run, inspect_folder
from orchestrator.statistics import MissingRule
from orchestrator.store import RunReader
from orchestrator.trust import check_environments

__all__ = ["Sample", "main", "play_command", "print_outcome"]

Conclude = Callable[[RunOutcome, RunReport, Console], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Play episodes over gRPC and record them in a run folder."""

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run; default: runs/sample-<time>."""
    resume: str = ""
    """Go on with this run (a folder, or a name below runs/)."""
    missing: MissingRule = "bounds"
    """What episodes count as that were given up or not played: bounds shows what the figures are if
    all of them fail and if all succeed; fail counts them as failures; drop leaves them out; error
    gives no figures."""
    trust_run: bool = False
    """With --resume of a run that somebody else began: start and reach what its manifest names."""
    json: bool = False
    """Print the summary as JSON on stdout, and everything else on stderr."""
    observation: Annotated[ObservationOptions, tyro.conf.arg(name="")] = field(
        default_factory=ObservationOptions
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 when every episode was played, 130 when interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded(lambda: play_command(arguments, name="sample", default=RunConfig()))


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
    first = _read_first_flags(argv)
    resumed = find_run(first.resume) if first.resume else None
    default_of_flags, default = default, _default_config(first, resumed, default)
    sample = parse_flags(
        Sample, argv, program=f"python -m orchestrator.{name}", default=Sample(run=default)
    )
    if resumed is not None and not (sample.trust_run or is_own(resumed)):
        given = parse_flags(Sample, argv, program="", default=Sample(run=default_of_flags))
        _check_trust(sample.run, given.run)
    sample.observation.configure()
    now = datetime.now(UTC)
    unique = Path("runs", f"{name}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}")
    folder = resumed or sample.out or unique
    console = make_console(stderr=sample.json)
    outcome = run_loop(run(sample.run, folder, resume=resumed is not None, console=console))
    report = _read_report(outcome.folder, sample.missing)
    summary = print_outcome(outcome, report, console, program=f"orchestrator.{name}")
    if conclude is not None:
        summary |= conclude(outcome, report, console)
    if sample.json:
        sys.stdout.write(json_text.dumps(summary, indent=2) + "\n")
    if outcome.interrupted:
        return 130
    return 0 if outcome.complete else 1


def _read_first_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags on which the defaults of all others depend, and leave the rest alone."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--resume", "--env", "--suite", "--policy"):
        parser.add_argument(flag, nargs="?", default="", const="")
    parser.add_argument("-h", "--help", action="store_true")
    return parser.parse_known_args(argv)[0]


def _default_config(
    first: argparse.Namespace, resumed: Path | None, default: RunConfig
) -> RunConfig:
    """Return what holds where no flag says otherwise.

    A resumed run's recorded configuration, so that a resume needs no other flag; an agent's own
    sampling where one plays.
    """
    if resumed is not None:
        return RunConfig.from_manifest(inspect_folder(resumed))
    if first.help:
        return default
    named = replace(
        default,
        environments=parse_names(first.env) or default.environments,
        suite=first.suite or default.suite,
        policies=parse_policies(first.policy) or default.policies,
    )
    sampling = named.agent_sampling()
    if sampling is None:
        return default
    return replace(default, agent=replace(default.agent, sampling=sampling))


def _check_trust(config: RunConfig, given: RunConfig) -> None:
    """Raise UsageError where a stranger's manifest decides what is started or reached."""
    check_environments(name for name in config.environments if name not in given.environments)
    unasked = config.unasked(given)
    if unasked:
        raise UsageError(
            "somebody else began this run (its manifest is not signed by your key), and it asks "
            f"for {'; '.join(unasked)}: give these flags yourself, or look and add --trust-run"
        )


def _read_report(folder: Path, missing: MissingRule) -> RunReport:
    with RunReader.open(folder) as reader:
        return read_report(reader, missing=missing)


def print_outcome(
    outcome: RunOutcome, report: RunReport, console: Console, *, program: str
) -> dict[str, Any]:
    """Show the report, where the run lies and how to go on with it; returns the JSON summary."""
    print_report(console, report, title=f"run {outcome.folder}")
    if not outcome.complete:
        missing = outcome.planned - outcome.finished
        console.print(
            f"{missing} of {outcome.planned} episodes are missing "
            f"({outcome.failed} were given up); "
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
        "requests": outcome.requests,
        **as_data(report),
    }


if __name__ == "__main__":
    sys.exit(main())
