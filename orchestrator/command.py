"""What every command of this package does around its work: the loop, and expected errors.

The named boundary of the command line: errors of this system end a command with their message and
exit code; anything else is a defect and keeps its traceback.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agent_runtime.errors import AgentRuntimeError
from orchestrator.errors import OrchestratorError

__all__ = ["guarded", "run_loop"]

T = TypeVar("T")


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.run(work)
    return uvloop.run(work)


def guarded(work: Callable[[], int]) -> int:
    """Run a command's work; expected errors become a line on stderr and an exit status."""
    try:
        return work()
    except OrchestratorError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except AgentRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
