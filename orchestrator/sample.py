"""`python -m orchestrator.sample`: play episodes over gRPC and record them.

Without arguments: a demonstration of the trained agent that comes with the package, on the tasks
that judged it, in its settings; expert and random play the same ones beside it.
"""

from __future__ import annotations

import argparse
import json as json_text
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import tyro
from rich.console import Console

from orchestrator.command_line import ObservationOptions, guarded, make_console, run_loop
from orchestrator.config import RunConfig, parse_policies
from orchestrator.config_file import dump_flags, lay_file
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

STOPPED_BY_LIMIT: Final = 3
"""Exit status of a run that one of its limits ended."""
_ABOUT: Final = """\
Play episodes over gRPC, record them in a run folder, and sum them up.

Without flags: the agent that comes with this package, on the tasks that judged it, beside expert
and random. --config FILE takes the flags from a TOML file, and --print-config writes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Play episodes over gRPC and record them in a run folder."""

    run: Annotated[RunConfig, tyro.conf.arg(name="")]
    config: Path | None = None
    """TOML file with the same keys as these flags, which go before it."""
    print_config: bool = False
    """Print the settings as such a file and play nothing; with --resume those of a recorded run."""
    out: Path | None = None
    """Folder of the run; default: runs/<command>-<time>."""
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


S = TypeVar("S", bound=Sample)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 0 when every episode was played, 3 when a limit of the run ended it, 130 when
    interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    return guarded(
        lambda: play_command(
            arguments, name="sample", about=_ABOUT, default=Sample(run=RunConfig())
        )
    )


def play_command(
    argv: list[str],
    *,
    name: str,
    about: str,
    default: S,
    conclude: Callable[[S, RunOutcome, RunReport, Console], Mapping[str, Any]] | None = None,
) -> int:
    """Parse flags, play a run, show its outcome; returns the exit status.

    Its flags are those of `default`'s type. `about` says in the help text what the command is for.
    `conclude` may print more and adds what it returns to the JSON summary.
    """
    first = _read_first_flags(argv)
    resumed = find_run(first.resume) if first.resume else None
    defaults = _default_settings(first, resumed, default)
    program = f"python -m orchestrator.{name}"
    kind = type(default)
    sample = parse_flags(kind, argv, program=program, default=defaults, about=about)
    if sample.print_config:
        sys.stdout.write(dump_flags(sample, beside=_BESIDE_FILE))
        return 0
    if resumed is not None and not (sample.trust_run or is_own(resumed)):
        own = _lay_file(default, first)
        _check_trust(sample.run, parse_flags(kind, argv, program="", default=own).run)
    sample.observation.configure()
    now = datetime.now(UTC)
    unique = Path("runs", f"{name}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03}")
    folder = resumed or sample.out or unique
    console = make_console(stderr=sample.json)
    for line in sample.run.resolve().agents_own_settings():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    outcome = run_loop(run(sample.run, folder, resume=resumed is not None, console=console))
    report = _read_report(outcome.folder, sample.missing)
    summary = print_outcome(outcome, report, console, program=f"orchestrator.{name}")
    if conclude is not None:
        summary |= conclude(sample, outcome, report, console)
    if sample.json:
        sys.stdout.write(json_text.dumps(summary, indent=2) + "\n")
    if outcome.interrupted:
        return 130
    if outcome.complete:
        return 0
    return STOPPED_BY_LIMIT if outcome.limit else 1


_BESIDE_FILE: Final = ("config", "print-config", "resume", "trust-run")
"""What no file may say: it might be a stranger's."""


def _read_first_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags on which the defaults of all others depend, and leave the rest alone."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for flag in ("--config", "--resume", "--env", "--suite", "--policy"):
        parser.add_argument(flag, nargs="?", default="", const="")
    parser.add_argument("-h", "--help", action="store_true")
    return parser.parse_known_args(argv)[0]


def _default_settings(first: argparse.Namespace, resumed: Path | None, default: S) -> S:
    """Return what holds where no flag says otherwise.

    A resumed run's recorded configuration, so that a resume needs no other flag; an agent's own
    sampling where one plays; over either, what --config says.
    """
    if resumed is not None:
        recorded = RunConfig.from_manifest(inspect_folder(resumed))
        return _lay_file(replace(default, run=recorded), first)
    own = default.run
    laid = _lay_file(replace(default, run=replace(own, suite="")), first)
    if first.suite or first.env or laid.run.suite or laid.run.environments:
        # A command's own suite is for those who name nothing.
        own = replace(own, suite="")
    laid = _lay_file(replace(default, run=own), first)
    if first.help:
        return laid
    named = replace(
        laid.run,
        environments=parse_names(first.env) or laid.run.environments,
        suite=first.suite or laid.run.suite,
        policies=parse_policies(first.policy) or laid.run.policies,
    )
    sampling = named.agent_sampling()
    if sampling is None:
        return laid
    agent = replace(own.agent, sampling=sampling)
    return _lay_file(replace(default, run=replace(own, agent=agent)), first)


def _lay_file(sample: S, first: argparse.Namespace) -> S:
    return lay_file(sample, Path(first.config), beside=_BESIDE_FILE) if first.config else sample


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
    missing = outcome.planned - outcome.finished
    if missing:
        console.print(
            f"{missing} of {outcome.planned} episodes are missing "
            f"({outcome.failed} were given up); {'raise the limit and ' if outcome.limit else ''}"
            f"go on with: python -m {program} --resume {shlex.quote(str(outcome.folder))}",
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
