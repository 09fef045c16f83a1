"""A server of one environment as a user starts it, and its memory as seen from outside.

Contains the process: it is there while the context is open.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from agent_runtime.connection import Connection

__all__ = ["Served", "served"]


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers."""

    connection: Connection
    process: psutil.Process
    started: float
    """When its process was started, in seconds of `time.perf_counter`."""
    start_seconds: float
    """From then to its first answer."""

    def family(self) -> list[psutil.Process]:
        """Return the server and its workers."""
        return [self.process, *self.process.children(recursive=True)]

    def memory(self) -> int:
        """Resident bytes of all of them."""
        return sum(process.memory_info().rss for process in self.family())

    def cpu(self) -> float:
        """Seconds of CPU that all of them have used."""
        return sum(sum(process.cpu_times()[:2]) for process in self.family())


@asynccontextmanager
async def served(
    name: str, flags: Sequence[str] = (), *, module: str = ""
) -> AsyncGenerator[Served]:
    """Serve an environment by `python -m env_servers serve` with these further flags.

    One that is no part of the package has a `module`, by whose name it is served.

    Raises RuntimeError where the server ends before it answers.
    """
    with TemporaryDirectory() as folder:
        address_file = Path(folder) / "address"
        command = [sys.executable, "-m", "env_servers", "serve", module or name]
        command += ["--bind", "127.0.0.1:0", "--address-file", str(address_file)]
        command += ["--log-level", "error", "--drain", "0", *flags]
        started = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*command)
        try:
            while not address_file.exists():
                if process.returncode is not None:
                    raise RuntimeError(f"the server of {name} ended with {process.returncode}")
                await asyncio.sleep(0.01)
            async with Connection(address_file.read_text().strip()) as connection:
                await connection.get_environment(name)
                ready = time.perf_counter() - started
                yield Served(connection, psutil.Process(process.pid), started, ready)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
