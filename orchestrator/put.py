"""Command: put a run on object storage.

    python -m orchestrator.put runs/NAME s3://BUCKET/RUN

Each of its stores is put as of one moment, a run that is being played, too. What is there already
is not sent again, so that the command may be repeated while shards come and grow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from orchestrator.command_line import make_console, run_command
from orchestrator.object_storage import put_run
from orchestrator.run_folder import find_run

__all__ = ["PutOptions", "main"]


@dataclass(frozen=True, slots=True)
class PutOptions:
    """Put a run on object storage; credentials are those of the environment."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder of the run, or its name within `--runs`."""
    url: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="URL")]
    """Where it is put: s3://, gs://, az://, or what else fsspec opens; nothing or this very run is
    there."""
    runs: Path = Path("runs")
    """Where runs are looked up by name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(PutOptions, _put, argv, program="agentgym-put")


def _put(options: PutOptions) -> int:
    console = make_console()
    for store in put_run(find_run(options.run, options.runs), options.url):
        name = f"shard {store.name}" if store.name else "the run's own store"
        sent = f"{store.sent:,} bytes sent" if store.sent else "is there as it is"
        console.print(f"{name}: {sent}", highlight=False, markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
