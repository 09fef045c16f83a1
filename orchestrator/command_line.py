"""What every command of this package does alike: flags from a dataclass, errors to exit codes.

Owns the boundary between typed errors and the shell: 0 = done, 1 = it did not hold or could not be
done, 2 = the command asked for what does not exist. Expected errors never show a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import tyro
from rich.console import Console
from rich.text import Text

from orchestrator.errors import OrchestratorError

__all__ = ["run_command"]

Options = TypeVar("Options")


def run_command(
    options: type[Options],
    act: Callable[[Options], int],
    argv: Sequence[str] | None,
    *,
    program: str,
) -> int:
    """Parse `argv` (None = the process's own) into `options`, act on it, and give the exit code."""
    try:
        parsed = tyro.cli(options, args=argv, prog=program, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as stop:
        # tyro has shown its help (0) or what was wrong with the flags (2).
        return stop.code if isinstance(stop.code, int) else 2
    try:
        return act(parsed)
    except OrchestratorError as error:
        message = Text.assemble(("error: ", "bold red"), str(error))
        Console(file=sys.stderr, soft_wrap=True).print(message)
        return error.exit_code
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone: not a failure of ours.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130
