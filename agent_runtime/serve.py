"""`python -m agent_runtime.serve --model PATH`: a model server, until Ctrl-C.

Prints one line, the address that `--policy` takes, once requests are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from agent_runtime.errors import AgentRuntimeError, PolicyMisconfigured
from agent_runtime.event_loop import run_event_loop
from agent_runtime.logs import LogLevel, configure_logging
from agent_runtime.serving import ServeConfig, serving
from agent_runtime.serving.engine_main import end_with_parent

__all__ = ["Serve", "main"]

_FAILED, _MISUSED = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """Serve a model for agents, until Ctrl-C."""

    model: str
    """Folder of a checkpoint in the Hugging Face layout, a known model (`python -m
    agent_runtime.models list`), or a name on the hub."""
    chat_template: Path | None = None
    """A jinja chat template for a model that has none; give it to the client too."""
    address_file: Path | None = None
    """Write the address into this file when the model is served."""
    log_level: LogLevel = "info"
    """Least severe events shown on stderr."""
    log_json: bool = False
    """Log JSON lines."""
    config: Annotated[ServeConfig, tyro.conf.arg(name="")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 after Ctrl-C, 1 when serving failed, 2 for what cannot be."""
    try:
        options = tyro.cli(Serve, args=argv, prog="python -m agent_runtime.serve")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else _MISUSED
    configure_logging(options.log_level, options.log_json)
    end_with_parent()
    try:
        run_event_loop(_serve(options))
    except AgentRuntimeError as error:
        sys.stderr.write(f"error: {error}\n")
        return _MISUSED if isinstance(error, PolicyMisconfigured) else _FAILED
    return 0


async def _serve(options: Serve) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    work = asyncio.create_task(_until_failure(options))
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if stopping.is_set():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _until_failure(options: Serve) -> None:
    async with serving(
        options.model, options.config, chat_template=options.chat_template, in_process=True
    ) as served:
        spec = f"sglang:{served.address}"
        if options.address_file is not None:
            options.address_file.write_text(spec + "\n")
        sys.stdout.write(f"serving {options.model}: --policy {spec}\n")
        sys.stdout.flush()
        await served.wait()


if __name__ == "__main__":
    sys.exit(main())
