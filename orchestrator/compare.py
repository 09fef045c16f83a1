"""Command: runs, or policies of runs, paired by item: differences, tests, items that turned.

    python -m orchestrator.compare RUN RUN             the policies of the same name, or the two
    python -m orchestrator.compare RUN@POLICY RUN@POLICY
    python -m orchestrator.compare RUN RUN RUN         each against the first

Works on live runs, too.
"""

from __future__ import annotations

import contextlib
import json as json_text
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from orchestrator.command_line import make_console, run_command
from orchestrator.comparison import RunComparison, compare_sides, pair_policies, read_side
from orchestrator.comparison_tables import (
    as_csv,
    as_markdown,
    comparison_data,
    print_comparison,
)
from orchestrator.errors import EpisodesMissing, RemoteRunNotFound, RunNotFound, UsageError
from orchestrator.object_storage import locate_run
from orchestrator.statistics import MissingRule
from orchestrator.store import RunReader

__all__ = ["CompareOptions", "main"]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Compare runs, paired by item and sample, each with the first."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN[@POLICY]")]
    """Folders of runs, or their names within `--folder`; two at least. After an @ stands which
    policy is meant; without it policies of the same name are compared, or the only ones."""
    folder: Path = Path("runs")
    """Where runs are looked up by name."""
    format: Literal["table", "markdown", "csv"] = "table"
    """table: for the terminal; markdown and csv: the figures for pages and programs."""
    items: int = 10
    """How many items are listed that one side won, and that it lost; 0 = all."""
    missing: MissingRule = "bounds"
    """What episodes count as that a side did not finish: bounds shows what the figures are if all
    of them had gone for the one and for the other; fail counts them as failures; drop leaves pairs
    out that are not whole; error gives no figures and ends with status 1."""
    json: bool = False
    """Print a JSON list, one object for each comparison."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 where a run is damaged."""
    return run_command(CompareOptions, _compare, argv, program="python -m orchestrator.compare")


def _compare(options: CompareOptions) -> int:
    if len(options.runs) < 2:
        raise UsageError("a comparison needs two runs at least, or two policies: RUN@POLICY")
    with contextlib.ExitStack() as stack:
        comparisons = list(_comparisons(options, stack))
    _print(options, comparisons)
    if options.missing == "error" and not all(it.complete for it in comparisons):
        raise EpisodesMissing("not all of the episodes were finished on both sides")
    return 1 if any(it.first.damage or it.second.damage for it in comparisons) else 0


def _comparisons(options: CompareOptions, stack: contextlib.ExitStack) -> Iterator[RunComparison]:
    (first, ours), *others = [_open(text, options.folder, stack) for text in options.runs]
    for second, theirs in others:
        for policies in pair_policies(first, second, ours=ours, theirs=theirs):
            if first.folder.samefile(second.folder) and policies[0] == policies[1]:
                raise UsageError(f"{first.folder} is compared with itself: name two policies")
            sides = read_side(first, policies[0]), read_side(second, policies[1])
            yield compare_sides(*sides, missing=options.missing)


def _open(text: str, root: Path, stack: contextlib.ExitStack) -> tuple[RunReader, str]:
    """Open RUN or RUN@POLICY; policies and folders may have an @ in their names, too."""
    at = len(text)
    while True:
        try:
            folder = locate_run(text[:at], root)
            return stack.enter_context(RunReader.open(folder)), text[at + 1 :]
        except (RunNotFound, RemoteRunNotFound):
            at = text.rfind("@", 0, at)
            if at <= 0:
                raise


def _print(options: CompareOptions, comparisons: Sequence[RunComparison]) -> None:
    if options.json:
        data = [comparison_data(comparison) for comparison in comparisons]
        sys.stdout.write(json_text.dumps(data, indent=2) + "\n")
    elif options.format == "csv":
        sys.stdout.write(as_csv(comparisons))
    elif options.format == "markdown":
        sys.stdout.write("\n".join(map(as_markdown, comparisons)))
    else:
        console = make_console()
        for comparison in comparisons:
            print_comparison(console, comparison, items=options.items)


if __name__ == "__main__":
    sys.exit(main())
