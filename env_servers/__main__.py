"""`python -m env_servers`: serve, list, play, check and scaffold environments; serve web sites."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from env_servers.cli.check import Check
from env_servers.cli.list import List
from env_servers.cli.new import New
from env_servers.cli.play import Play
from env_servers.cli.serve import Serve
from env_servers.cli.sites import Sites
from env_servers.sdk import SdkError

__all__ = ["main"]

Command = Annotated[
    Annotated[Serve, tyro.conf.subcommand("serve")]
    | Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Play, tyro.conf.subcommand("play")]
    | Annotated[Sites, tyro.conf.subcommand("sites")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[New, tyro.conf.subcommand("new")],
    tyro.conf.OmitSubcommandPrefixes,
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status (2 for a usage error)."""
    if "" not in sys.path:
        # A package in the working folder is an environment, too, also for the console script.
        sys.path.insert(0, "")
    command = tyro.cli(Command, prog="python -m env_servers", args=argv)  # pyright: ignore
    try:
        return command.run()
    except SdkError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
