"""Measures how many steps a second a server and its client do together.

Owns the frame that is equal for all contenders: a fresh server process and a fresh client process
(`benchmark.drive`) for every cell, readiness, warm-up, a window, CPU and memory of both processes
sampled from here at the window's edges, and their end, whatever happens. Contenders alternate
(A B C A B C ...), so that a busy minute of the machine hits all of them; figures are medians over
the rounds. Invariant: no process outlives `measure`. Knows no contender by name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final, Literal

import psutil

from agent_runtime.event_loop import raise_file_limit
from benchmark.drive import Plan
from benchmark.manifest import Manifest, read_manifest
from orchestrator.command_line import stopped_by_sigterm

__all__ = [
    "Cell",
    "CellFailed",
    "Contender",
    "Outcome",
    "Report",
    "Settings",
    "measure",
    "python_server",
    "served",
]

READY_S: Final = 30.0
GRACE_S: Final = 60.0
"""Beyond its window, what a client process gets to report: 2,000 threads end slowly."""
STOP_S: Final = 3.0
FIRST_PORT, LAST_PORT = 20_000, 32_000
"""Below the system's ephemeral ports, which clients' connections occupy."""
MIN_ANSWERS: Final = 3
"""Answers per episode, on average, from which on a window tells a rate."""
DETAIL_CHARACTERS: Final = 300


class Outcome(StrEnum):
    """How a cell ended."""

    OK = "ok"
    """Every episode had an answer within the window and none failed."""
    STARVED = "starved"
    """Some episodes had no answer within the window, or all together fewer than MIN_ANSWERS each:
    the window shows the start-up and not a steady rate, so neither the rate nor the latencies may
    be compared. Measure longer."""
    ERRORS = "errors"
    """Some episodes ended by a failure; the figures are those of the others."""
    NOT_OPENED = "not opened"
    """The episodes could not be opened within the time allowed."""
    FAILED = "failed"
    """The server or the client process broke."""
    SKIPPED = "skipped"
    """More episodes than the contender's `max_episodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A server and a client that play together."""

    name: str
    client: str
    """`module:Class`: a `benchmark.drive.LoadClient` or `SelfDrivingClient`."""
    server: tuple[str, ...] = ()
    """Command; `{port}`, `{socket}` and `{environment}` are filled in. Empty = no server."""
    transport: Literal["tcp", "unix"] = "tcp"
    loop: Literal["asyncio", "uvloop"] = "asyncio"
    """Event loop of the client process."""
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Keyword arguments of the client class."""
    max_episodes: int | None = None
    note: str = ""
    """Settings that a reader of the table has to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is equal for all contenders."""

    episodes: tuple[int, ...] = (1, 64, 512, 2000)
    seconds: float = 5.0
    warmup_s: float = 1.0
    rounds: int = 3
    environment: str = "echo"
    max_steps: int | None = None
    """Steps of each episode at most, warm-up included; None = as many as the time allows."""
    open_timeout_s: float = 60.0
    request_timeout_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender with one number of episodes in one round. Absent figures were not measured."""

    contender: str
    episodes: int
    round: int
    outcome: Outcome
    detail: str = ""
    """The last words of what failed."""
    steps: int = 0
    steps_per_s: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    answered: int = 0
    """Episodes with at least one answer in the window."""
    errors: Mapping[str, int] = field(default_factory=dict)
    observation_bytes: int = 0
    open_s: float | None = None
    """Seconds to open all episodes, 64 at a time; only roughly comparable."""
    client_cpu_s: float | None = None
    server_cpu_s: float | None = None
    """CPU seconds within the window, user and system, with child processes."""
    others_cpu_s: float | None = None
    """CPU seconds that the rest of the machine used within the window: the noise of the cell."""
    client_rss_mib: float | None = None
    server_rss_mib: float | None = None
    """Resident memory at the end of the window."""


@dataclass(frozen=True, slots=True)
class Report:
    """All cells of a measurement with what they were measured under."""

    manifest: Manifest
    settings: Settings
    contenders: tuple[Contender, ...]
    cells: tuple[Cell, ...]

    def as_json(self) -> dict[str, Any]:
        contenders = [asdict(contender) for contender in self.contenders]
        for contender in contenders:
            words = contender["server"]
            contender["server"] = ["python" if word == sys.executable else word for word in words]
        return {
            "schema": 1,
            "manifest": self.manifest.as_json(),
            "settings": asdict(self.settings),
            "contenders": contenders,
            "cells": [asdict(cell) for cell in self.cells],
        }


class CellFailed(Exception):
    """A process of the cell did not do its part; the outcome says which part."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome


def python_server(module: str, *words: str) -> tuple[str, ...]:
    """The command of a server that is a Python module with --port and --environment."""
    options = ("--port", "{port}", "--environment", "{environment}")
    return (sys.executable, "-m", module, *options, *words)


def measure(
    contenders: Sequence[Contender],
    settings: Settings,
    *,
    on_cell: Callable[[Cell], None] = lambda _cell: None,
) -> Report:
    """Measure every contender with every number of episodes, `rounds` times, in turn.

    A contender that fails gives cells that say so; the others go on. `on_cell` sees each cell as
    it is done. Takes about (seconds + warm-up + 2) for each cell; a broken one is bounded by the
    settings' open time-out. Not to be called from a running event loop.
    """
    raise_file_limit()
    manifest = read_manifest()
    cells = asyncio.run(stopped_by_sigterm(_measure(contenders, settings, on_cell)))
    return Report(manifest, settings, tuple(contenders), tuple(cells))


async def _measure(
    contenders: Sequence[Contender], settings: Settings, on_cell: Callable[[Cell], None]
) -> list[Cell]:
    cells: list[Cell] = []
    for episodes in settings.episodes:
        for number in range(settings.rounds):
            for contender in contenders:
                cells.append(await _measure_cell(contender, settings, episodes, number))
                on_cell(cells[-1])
    return cells


async def _measure_cell(
    contender: Contender, settings: Settings, episodes: int, number: int
) -> Cell:
    figures: dict[str, Any]
    if contender.max_episodes is not None and episodes > contender.max_episodes:
        figures = {"outcome": Outcome.SKIPPED, "detail": f"at most {contender.max_episodes}"}
    else:
        try:
            async with served(contender, settings.environment) as (address, server):
                figures = await _drive(contender, settings, episodes, address, server)
        except CellFailed as error:
            figures = {"outcome": error.outcome, "detail": str(error)}
    return Cell(contender=contender.name, episodes=episodes, round=number, **figures)


@asynccontextmanager
async def served(
    contender: Contender, environment: str
) -> AsyncIterator[tuple[str, psutil.Process | None]]:
    """The contender's server, ready at an address; stopped on the way out.

    Yields ("", None) for a contender without a server. Raises CellFailed.
    """
    if not contender.server:
        yield "", None
        return
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        port, path = _free_port(), str(Path(folder, "server.sock"))
        values = {"port": port, "socket": path, "environment": environment}
        command = [word.format(**values) for word in contender.server]
        address = f"unix:{path}" if contender.transport == "unix" else f"127.0.0.1:{port}"
        async with _process(command, errors) as process:
            await _wait_ready(address, process, errors)
            yield address, psutil.Process(process.pid)
            if process.returncode is not None:
                raise CellFailed(Outcome.FAILED, f"the server ended: {_last_words(errors)}")


@asynccontextmanager
async def _process(
    command: Sequence[str], errors: IO[bytes], *, piped: bool = False
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in a group of its own; the whole group is ended on the way out."""
    pipe = asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=errors, env=_environ(), start_new_session=True
    )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()


def _environ() -> dict[str, str]:
    """The environment of child processes: no proxy for the loopback interface."""
    direct = "127.0.0.1,localhost"
    return os.environ | {"NO_PROXY": direct, "no_proxy": direct}


def _free_port() -> int:
    for port in random.sample(range(FIRST_PORT, LAST_PORT), k=200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise CellFailed(Outcome.FAILED, "no free port")


async def _wait_ready(address: str, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
    """Return once the server accepts connections."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if process.returncode is not None:
            raise CellFailed(Outcome.FAILED, f"the server ended: {_last_words(errors)}")
        if _accepts(address):
            return
        await asyncio.sleep(0.05)
    raise CellFailed(Outcome.FAILED, f"the server was not ready in {READY_S:g} s")


def _accepts(address: str) -> bool:
    kind, _, rest = address.partition(":")
    unix = kind == "unix"
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(rest if unix else (kind, int(rest))) == 0


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1][-DETAIL_CHARACTERS:] if lines else "without a word"


async def _drive(
    contender: Contender,
    settings: Settings,
    episodes: int,
    address: str,
    server: psutil.Process | None,
) -> dict[str, Any]:
    """Run the client process beside the server; returns the cell's figures."""
    plan = Plan(
        client=contender.client,
        address=address,
        environment=settings.environment,
        loop=contender.loop,
        options=contender.options,
        episodes=episodes,
        warmup_s=settings.warmup_s,
        seconds=settings.seconds,
        max_steps=settings.max_steps,
        open_timeout_s=settings.open_timeout_s,
        request_timeout_s=settings.request_timeout_s,
    )
    command = [sys.executable, "-m", "benchmark.drive", json.dumps(asdict(plan))]
    with tempfile.TemporaryFile() as errors:
        async with _process(command, errors, piped=True) as process:
            opening = settings.open_timeout_s + GRACE_S
            opened = await _read_line(process, errors, opening, Outcome.NOT_OPENED)
            client = psutil.Process(process.pid)
            usage = await _sample_window(opened["begin"], opened["end"], client, server)
            assert process.stdin is not None
            process.stdin.write(b"\n")
            told = await _read_line(process, errors, GRACE_S, Outcome.FAILED)
    return _figures(told["tally"], episodes, settings) | usage | {"open_s": opened["open_s"]}


async def _read_line(
    process: asyncio.subprocess.Process, errors: IO[bytes], seconds: float, otherwise: Outcome
) -> dict[str, Any]:
    """The client process's next line of JSON; whatever else it prints is passed over."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            while line := await process.stdout.readline():
                if line.startswith(b"{"):
                    return json.loads(line)
    except TimeoutError:
        raise CellFailed(otherwise, f"the client said nothing for {seconds:g} s") from None
    raise CellFailed(otherwise, f"the client ended: {_last_words(errors)}")


async def _sample_window(
    begin: float, end: float, client: psutil.Process, server: psutil.Process | None
) -> dict[str, float]:
    """CPU seconds between two instants of the monotonic clock, and memory at the second."""
    processes = {"client": client} | ({"server": server} if server else {})
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    busy, before = _machine_cpu_s(), {name: _usage(each) for name, each in processes.items()}
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    others, usage = _machine_cpu_s() - busy, dict[str, float]()
    for name, process in processes.items():
        first, last = before[name], _usage(process)
        if first and last:
            spent = last[0] - first[0]
            others -= spent
            usage[f"{name}_cpu_s"] = round(spent, 3)
            usage[f"{name}_rss_mib"] = round(last[1] / 2**20, 1)
    return usage | {"others_cpu_s": round(max(0.0, others), 3)}


def _machine_cpu_s() -> float:
    """CPU seconds that all cores together have been busy."""
    times = psutil.cpu_times()
    return times.user + times.system + getattr(times, "nice", 0.0) + getattr(times, "softirq", 0.0)


def _usage(process: psutil.Process) -> tuple[float, int] | None:
    """CPU seconds and resident bytes of a process and its children; None once it is gone."""
    try:
        family = [process, *process.children(recursive=True)]
        times = [member.cpu_times() for member in family]
        resident = sum(member.memory_info().rss for member in family)
    except psutil.Error:
        return None
    return sum(spent.user + spent.system for spent in times), resident


def _figures(tally: dict[str, Any], episodes: int, settings: Settings) -> dict[str, Any]:
    wanted = MIN_ANSWERS if settings.max_steps is None else min(MIN_ANSWERS, settings.max_steps)
    outcome = Outcome.OK
    if tally["errors"]:
        outcome = Outcome.ERRORS
    elif tally["answered"] < episodes or tally["steps"] < wanted * episodes:
        outcome = Outcome.STARVED
    return tally | {"outcome": outcome, "steps_per_s": tally["steps"] / settings.seconds}
