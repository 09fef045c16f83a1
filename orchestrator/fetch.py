"""Command: copy a run from object storage, to go on with it here.

    python -m orchestrator.fetch s3://BUCKET/RUN runs/NAME

Only to read one, nothing has to be copied: commands that read runs take the URL.
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
from orchestrator.object_storage import fetch_run
from orchestrator.run_folder import is_url

__all__ = ["FetchOptions", "main"]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Copy a run from object storage; credentials are those of the environment."""

    url: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="URL")]
    """Where `orchestrator.put` put it."""
    out: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """A new folder for it; it appears when it is complete."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    return run_command(FetchOptions, _fetch, argv, program="agentgym-fetch")


def _fetch(options: FetchOptions) -> int:
    if not is_url(options.url):
        raise UsageError(f"{options.url!r} is no URL such as s3://BUCKET/RUN")
    folder = fetch_run(options.url, options.out)
    make_console().print(str(folder), highlight=False, markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
