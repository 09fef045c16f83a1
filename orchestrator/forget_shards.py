"""Command: go on without shards that are lost.

    python -m orchestrator.forget_shards runs/NAME SHARD ...

The run is read without them from then on, and a resume plays what they had.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orchestrator.command_line import make_console, run_command
from orchestrator.errors import UsageError
from orchestrator.run_folder import find_run
from orchestrator.store import RunStore

__all__ = ["ForgetOptions", "main"]


@dataclass(frozen=True, slots=True)
class ForgetOptions:
    """Accept that shards of a run are lost."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    shards: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SHARD")]
    """Their names, as readers say that they are missing."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(ForgetOptions, _forget, argv, program="agentgym-forget-shards")


def _forget(options: ForgetOptions) -> int:
    lost = RunStore.forget_shards(find_run(options.run, options.runs), options.shards)
    if others := sorted(set(options.shards) - set(lost)):
        raise UsageError(
            f"{', '.join(others)}: the run names no such shard, or it is there; "
            f"forgotten: {', '.join(lost) or 'none'}"
        )
    make_console().print(f"forgotten: {', '.join(lost)}", highlight=False, markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
