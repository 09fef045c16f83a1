"""`python -m benchmark.soak`: does anything grow while episodes come and go for a long time?

Two parts, one after the other. A server and a client of its own play short episodes over one
connection; some episodes are abandoned, and the connection is dropped again and again with all that
is live on it. Then `orchestrator.sample` plays, records everything, and starts its own servers.
Memory, open files, threads and children of every process are sampled all the time; compared are
the second quarter of the time (what is cached is cached by then) and the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import AgentRuntimeError
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop

__all__ = ["Soak", "main"]

RESULTS = Path(__file__).parent / "results"
_STOP_SECONDS = 60.0
_MOST_EPISODES_PER_SECOND = 1500
"""More than a run plays here; a run plans its episodes beforehand, so more would take memory."""
_TASKS = 40
"""Per environment, as `orchestrator.sample` chooses them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """Play for a long time and watch what grows."""

    env: str = "textcraft,wordle,echo"
    """Environments; echo is executed in worker processes."""
    minutes: float = 10.0
    """Length of each of the two parts."""
    concurrency: int = 256
    """Live episodes."""
    steps: int = 4
    """Actions of an episode of the first part."""
    abandon: float = 0.02
    """Share of its episodes that are left open."""
    drop_every: float = 20.0
    """Seconds between two losses of its connection."""
    idle_limit: float = 30.0
    """Seconds after which its server ends what nobody names."""
    sample_every: float = 2.0
    """Seconds between two samples of every process."""
    max_growth_mib: float = 16.0
    """What the memory of a process may grow by between the quarters; files and threads: by 8."""
    seed: int = 1
    """Of what is abandoned."""
    save: bool = True
    """Write benchmark/results/soak.json."""


@dataclass(slots=True)
class Watch:
    """Samples of one process."""

    process: psutil.Process
    rss_mib: list[float] = field(default_factory=list[float])
    files: list[int] = field(default_factory=list[int])
    threads: list[int] = field(default_factory=list[int])
    children: list[int] = field(default_factory=list[int])

    def sample(self) -> None:
        """Look once; a process that is gone keeps the samples that it has."""
        with contextlib.suppress(psutil.Error):
            rss = self.process.memory_info().rss / 2**20
            files, threads = self.process.num_fds(), self.process.num_threads()
            children = len(self.process.children())  # zombies count
            self.rss_mib.append(round(rss, 1))
            self.files.append(files)
            self.threads.append(threads)
            self.children.append(children)

    def summary(self) -> dict[str, Any]:
        """Medians of the second and of the last quarter, and the peak of the memory."""
        series = {name: getattr(self, name) for name in ("rss_mib", "files", "threads", "children")}
        figures: dict[str, Any] = {name: _quarters(values) for name, values in series.items()}
        return figures | {"peak_rss_mib": max(self.rss_mib, default=0.0)}


def _quarters(values: Sequence[float]) -> list[float]:
    quarter = max(1, len(values) // 4)
    parts = (values[quarter : 2 * quarter] or values, values[-quarter:])
    return [round(statistics.median(part), 1) for part in parts if part]


@dataclass(slots=True)
class Part:
    """What one part saw."""

    name: str
    episodes: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    processes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def problems(self, config: Soak) -> list[str]:
        """Return everything that grew beyond its bound, as sentences."""
        found = [f"{self.name}: {self.failed} episodes failed"] if self.failed else []
        bounds = {"rss_mib": config.max_growth_mib, "files": 8, "threads": 8, "children": 2}
        for process, figures in self.processes.items():
            for name, bound in bounds.items():
                before, after = figures[name]
                if after - before > bound:
                    found.append(f"{self.name}, {process}: {name} {before} -> {after}")
        return found


async def _watch(watches: dict[str, Watch], every: float) -> None:
    while True:
        for watch in watches.values():
            watch.sample()
        await asyncio.sleep(every)


@contextlib.asynccontextmanager
async def _watching(part: Part, watches: dict[str, Watch], every: float) -> AsyncIterator[None]:
    """Sample processes, also those that are added meanwhile; the part gets their summaries."""
    begin, task = time.monotonic(), asyncio.create_task(_watch(watches, every))
    try:
        yield
    finally:
        task.cancel()
        part.seconds = round(time.monotonic() - begin, 1)
        part.processes = {name: watch.summary() for name, watch in watches.items() if watch.rss_mib}


# ---------------------------------------------------------------------- a server and a client


async def play_on_one_server(config: Soak) -> Part:
    """Short episodes over a connection that is lost again and again."""
    part, names = Part("server"), config.env.split(",")
    with tempfile.TemporaryDirectory(prefix="agentgym-soak-") as folder:
        address = f"unix:{folder}/server.sock"
        words = ["--bind", address, "--idle-limit", str(config.idle_limit), "--log-level", "error"]
        if "echo" in names:
            words += ["--execution", "echo=process"]
        command = [sys.executable, "-m", "env_servers", "serve", *names, *words]
        server = await asyncio.create_subprocess_exec(*command)
        try:
            watches = {
                "server": Watch(psutil.Process(server.pid)),
                "client": Watch(psutil.Process()),
            }
            async with Connection(address):  # it answers
                pass
            async with _watching(part, watches, config.sample_every):
                await _play_until(config, part, address, time.monotonic() + config.minutes * 60)
        finally:
            server.terminate()
            await server.wait()
    return part


async def _play_until(config: Soak, part: Part, address: str, end: float) -> None:
    rng, numbers = random.Random(config.seed), itertools.count()
    while time.monotonic() < end:
        async with Connection(address) as connection:
            lost = min(end, time.monotonic() + config.drop_every)
            items = {name: await _items(connection, name) for name in config.env.split(",")}
            players = [
                _play_many(config, part, connection, items, rng, numbers, lost)
                for _ in range(config.concurrency)
            ]
            await asyncio.gather(*players)


async def _items(connection: Connection, environment: str) -> list[str]:
    page = await connection.list_tasks(environment, "train", page_size=100)
    return [task.item_id for task in page.tasks]


async def _play_many(
    config: Soak,
    part: Part,
    connection: Connection,
    items: dict[str, list[str]],
    rng: random.Random,
    numbers: itertools.count[int],
    end: float,
) -> None:
    """Play one episode after the other; the last one is left open, as by a lost connection."""
    while time.monotonic() < end:
        environment = rng.choice(list(items))
        reset = pb.Reset(environment=environment, item_id=rng.choice(items[environment]))
        episode = RemoteEpisode(connection, f"soak-{os.getpid()}-{next(numbers)}", reset)
        try:
            state = await episode.reset()
            for turn in range(config.steps):
                if state.ended:
                    break
                advice = await episode.consult(pb.ADVISOR_RANDOM, seed=turn)
                state = await episode.step(advice.action)
        except AgentRuntimeError as error:
            part.failed += 1
            part.failures = [*part.failures, repr(error)][:5]
            continue
        part.episodes += 1
        if rng.random() >= config.abandon and time.monotonic() < end:
            episode.close()


# ---------------------------------------------------------------------- the orchestrator


async def play_a_run(config: Soak) -> Part:
    """`orchestrator.sample` with its own servers, recording everything, ended by SIGTERM."""
    part = Part("orchestrator")
    with tempfile.TemporaryDirectory(prefix="agentgym-soak-") as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "orchestrator.sample", "--env", config.env]
        samples = math.ceil(config.minutes * 60 * _MOST_EPISODES_PER_SECOND / _TASKS)
        command += ["--policy", "random", "--split", "train", "--samples", str(samples)]
        command += ["--concurrency", str(config.concurrency), "--out", str(out)]
        quiet = asyncio.subprocess.DEVNULL
        run = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        try:
            watches = {"orchestrator": Watch(psutil.Process(run.pid))}
            async with _watching(part, watches, config.sample_every):
                end = time.monotonic() + config.minutes * 60
                while time.monotonic() < end and run.returncode is None:
                    _add_children(watches)
                    await asyncio.sleep(config.sample_every)
        finally:
            with contextlib.suppress(ProcessLookupError):
                run.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await run.wait()
            if run.returncode is None:
                part.failures.append(f"still there {_STOP_SECONDS:g} s after SIGTERM")
                part.failed += 1
                run.kill()
        _count(part, out)
    return part


def _add_children(watches: dict[str, Watch]) -> None:
    with contextlib.suppress(psutil.Error):
        known = {watch.process.pid for watch in watches.values()}
        for child in watches["orchestrator"].process.children():
            if child.pid not in known and "env_servers" in child.cmdline():
                watches[f"server {len(watches)}"] = Watch(child)


def _count(part: Part, out: Path) -> None:
    from orchestrator.store import RunReader

    with RunReader.open(out) as run:
        for summary in run.summaries():
            part.episodes += not summary.failed
            part.failed += summary.failed
            if summary.failed and len(part.failures) < 5:
                part.failures.append(f"{summary.fault} {summary.reason}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns 0 when nothing failed and nothing grew."""
    config = tyro.cli(Soak, prog="python -m benchmark.soak", args=argv)
    console = Console()
    parts: list[Part] = []
    for play in (play_on_one_server, play_a_run):
        parts.append(run_loop(play(config)))
        console.print(_table(parts[-1]))
    problems = [problem for part in parts for problem in part.problems(config)]
    for line in [*problems, *(failure for part in parts for failure in part.failures)]:
        console.print(line, markup=False)
    if config.save:
        result = {"schema": 1, "manifest": read_manifest().as_json(), "config": asdict(config)}
        result |= {"parts": [asdict(part) for part in parts], "problems": problems}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "soak.json").write_text(json.dumps(result, indent=2) + "\n")
    return 1 if problems else 0


def _table(part: Part) -> Table:
    played = f"{part.episodes:,} episodes in {part.seconds:,.0f} s, {part.failed} failed"
    table = Table("process", "RSS MiB", "files", "threads", "children", "peak MiB")
    for name, figures in part.processes.items():
        pairs = [figures[kind] for kind in ("rss_mib", "files", "threads", "children")]
        cells = [" -> ".join(f"{value:g}" for value in pair) for pair in pairs]
        table.add_row(name, *cells, f"{figures['peak_rss_mib']:g}")
    table.title = f"{part.name}: {played}"
    return table


if __name__ == "__main__":
    sys.exit(main())
