"""`python -m env_servers`: serve, list, play, check and scaffold environments; serve web sites."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import tyro

from env_servers.cli.check import Check
from env_servers.cli.config_file import lay_file
from env_servers.cli.gateway import Gateway
from env_servers.cli.list import List
from env_servers.cli.new import New
from env_servers.cli.play import Play
from env_servers.cli.serve import Serve
from env_servers.cli.sites import Sites
from env_servers.sdk import SdkError

__all__ = ["main"]

_JOINED: Final = ("--set", "--execution")
"""Flags that take several values and are written several times by habit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status (2 for a usage error)."""
    if "" not in sys.path:
        # A package in the working folder is an environment, too, also for the console script.
        sys.path.insert(0, "")
    arguments = _joined(sys.argv[1:] if argv is None else argv)
    try:
        command = tyro.cli(_commands(arguments), prog="python -m env_servers", args=arguments)
        return command.run()
    except SdkError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone: not a failure of ours.
        sys.stderr.close()
        return 0


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with all values of a repeated flag after its first one.

    The parser would take the last one alone: `--set A --set B` means `--set A B`.
    """
    joined: list[str] = []
    ends: dict[str, int] = {}
    flag = ""
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if argument.startswith("-"):
            flag = name if name in _JOINED else ""
        if not flag:
            joined.append(argument)
            continue
        if argument.startswith("-"):
            if flag not in ends:
                joined.append(flag)
                ends[flag] = len(joined)
            if not equals:
                continue
            argument = value
        joined.insert(ends[flag], argument)
        ends = {it: end + (end >= ends[flag]) for it, end in ends.items()}
    return joined


def _commands(arguments: Sequence[str]) -> Any:
    """Return the subcommands; what `serve --config` says are the defaults of its flags."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", nargs="?")
    path: str | None = parser.parse_known_args(arguments)[0].config
    defaults = Serve(environments=())
    if path and arguments[0] == "serve":
        defaults = lay_file(defaults, Path(path))
    return Annotated[
        Annotated[Serve, tyro.conf.subcommand("serve", default=defaults)]
        | Annotated[List, tyro.conf.subcommand("list")]
        | Annotated[Play, tyro.conf.subcommand("play")]
        | Annotated[Sites, tyro.conf.subcommand("sites")]
        | Annotated[Gateway, tyro.conf.subcommand("gateway")]
        | Annotated[Check, tyro.conf.subcommand("check")]
        | Annotated[New, tyro.conf.subcommand("new")],
        tyro.conf.OmitSubcommandPrefixes,
    ]


if __name__ == "__main__":
    sys.exit(main())
