"""The command line that every baseline server has.

Knows no baseline; raises the file limit before a server starts.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from agent_runtime.event_loop import raise_file_limit

__all__ = ["ServerArguments", "read_arguments", "run_server"]


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """What a baseline server is started with; it listens on the loopback interface only."""

    port: int
    environment: str
    tuned: bool
    """Beyond the original's settings; see the module's docstring."""


def read_arguments(description: str | None) -> ServerArguments:
    """Parse the process's arguments and raise its file limit."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--environment", default="echo", help="echo, or a name of the SDK")
    parser.add_argument("--tuned", action="store_true", help="the fastest settings of this shape")
    read = parser.parse_args()
    raise_file_limit()
    return ServerArguments(read.port, read.environment, read.tuned)


def run_server(serve: Coroutine[Any, Any, None]) -> None:
    """Run an asyncio server on uvloop until the process is ended."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve)
