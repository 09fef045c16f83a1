"""What every command of this package does alike: flags from a dataclass, a loop, exit codes.

Here typed errors become exit codes: 0 = done, 1 = it did not hold or could not be done, 2 = the
command asked for what does not exist; a run that one of its limits ended has 3. Expected errors
never show a traceback.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.text import Text

from agent_runtime.errors import (
    AgentRuntimeError,
    ConnectionMisconfigured,
    PolicyMisconfigured,
)
from agent_runtime.event_loop import run_event_loop
from agent_runtime.logs import LogLevel, configure_logging
from agent_runtime.redaction import redact_text
from agent_runtime.tracing import enable_tracing, tracing_requested
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.terminal import TerminalConsole

__all__ = [
    "ObservationOptions",
    "guarded",
    "make_console",
    "run_command",
    "run_loop",
    "stopped_by_sigterm",
]

Options = TypeVar("Options")
T = TypeVar("T")

_MISUSED = frozenset(
    {
        *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ENOENT, errno.ENOTDIR),
        *(errno.EADDRINUSE, errno.EPERM, errno.EROFS),
    }
)
"""What an operating system says where another path or address should have been given."""
_PLAIN_WIDTH = 120
"""Columns where the output is no terminal: tables must not be squeezed into 80."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationOptions:
    """What a command tells of itself; a run's own log in its folder always has all from info on."""

    log_level: LogLevel = "warning"
    """Least severe events that are shown on stderr; RUN/logs/run.jsonl has info and above."""
    log_json: bool = False
    """Show events as JSON lines."""
    trace: bool = False
    """Export OpenTelemetry spans, of spawned servers too, to where the OTEL_* variables point;
    without it only where those variables ask for it."""

    def configure(self) -> None:
        """Log and trace from now on; raises PolicyMisconfigured without OpenTelemetry."""
        configure_logging(self.log_level, self.log_json)
        if self.trace or tracing_requested():
            enable_tracing()


def run_command(
    options: type[Options],
    act: Callable[[Options], int],
    argv: Sequence[str] | None,
    *,
    program: str,
) -> int:
    """Parse `argv` (None = the process's own) into `options`, act on it, and give the exit code."""
    return guarded(lambda: act(tyro.cli(options, args=argv, prog=program)))


def guarded(work: Callable[[], int]) -> int:
    """Do a command's work; an expected error becomes a line on stderr and an exit code."""
    try:
        return work()
    except SystemExit as stop:
        # tyro has shown its help (0) or what was wrong with the flags (2).
        return stop.code if isinstance(stop.code, int) else 2
    except (OrchestratorError, AgentRuntimeError) as error:
        message = Text.assemble(("error: ", "bold red"), redact_text(str(error)))
        TerminalConsole(file=sys.stderr, soft_wrap=True).print(message)
        if isinstance(error, PolicyMisconfigured | ConnectionMisconfigured):
            return UsageError.exit_code
        return error.exit_code if isinstance(error, OrchestratorError) else 1
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone: not a failure of ours.
        sys.stderr.close()
        return 0
    except OSError as error:  # a full disk, a folder that may not be written
        message = Text(f"error: {redact_text(str(error))}")
        TerminalConsole(file=sys.stderr, soft_wrap=True).print(message)
        return UsageError.exit_code if error.errno in _MISUSED else 1
    except KeyboardInterrupt:
        return 130


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that is wide enough for tables where there is no terminal to fit."""
    console = TerminalConsole(stderr=stderr)
    return console if console.is_terminal else TerminalConsole(stderr=stderr, width=_PLAIN_WIDTH)


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end or to a SIGTERM, as `run_event_loop` does."""
    return run_event_loop(stopped_by_sigterm(work))


async def stopped_by_sigterm(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; a SIGTERM unwinds it as Ctrl-C does, so that it ends what it started.

    Raises SystemExit(143) then. A second SIGTERM ends the process at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stopped = False

    def on_sigterm() -> None:
        nonlocal stopped
        stopped = True
        loop.remove_signal_handler(signal.SIGTERM)
        task.cancel()

    with suppress(ValueError, RuntimeError):  # no signals arrive outside the main thread
        loop.add_signal_handler(signal.SIGTERM, on_sigterm)
    try:
        return await work
    except asyncio.CancelledError:
        if stopped:
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        with suppress(ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGTERM)
