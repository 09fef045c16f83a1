"""`python -m benchmark.chaos`: does a run survive everything at once, with nothing changed?

Plays the same run twice through the command that users type. The calm one has its servers to
itself. The chaotic one goes through misbehaving TCP proxies while servers and their workers are
killed with SIGKILL and the orchestrator is stopped, continued, killed and resumed. Then every
episode's transcript is compared: observations, rewards and state hashes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from agentgym.episode.v1 import episode_pb2
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop
from orchestrator.records import EpisodeKey, episode_key
from orchestrator.store import RunReader
from tests.kit.proxy import Faults, FaultyProxy

__all__ = ["Chaos", "Verdict", "main"]

RESULT = Path(__file__).parent / "results" / "chaos.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """Play a run calmly and under fault injection; compare every transcript."""

    env: str = "maze,wordle,textcraft,babyai,echo"
    """Environments; echo runs in worker processes, which are killed, too."""
    policy: str = "random"
    """Policy of both runs; a scripted one, so that the calm run is the truth."""
    episodes: int = 400
    """Tasks per environment."""
    samples: int = 2
    """Episodes per task."""
    concurrency: int = 2000
    """Live episodes."""
    servers: int = 2
    """Server processes, each behind a proxy."""
    split: str = "train"
    """Split whose tasks are played."""
    kill_server_every: float = 4.0
    """Seconds between two SIGKILLs of a server, counted from when all servers answer."""
    kill_worker_every: float = 3.0
    """Seconds between two SIGKILLs of a worker process."""
    kill_browser_every: float = 0.0
    """Seconds between two SIGKILLs of something that a worker started: with WebArena its browser, a
    page or the driver. 0 = never."""
    pause_every: float = 6.0
    """Seconds between two SIGSTOPs of the orchestrator."""
    pause_seconds: float = 1.0
    """How long it is stopped."""
    kill_orchestrator_after: tuple[float, ...] = (6.0, 6.0)
    """Seconds after each start at which the orchestrator is killed with SIGKILL and resumed; the
    last start is left alone."""
    limit: float = 900.0
    """Seconds after which the chaotic run counts as stuck."""
    seed: int = 1
    """Seed of the faults' times."""
    save: bool = True
    """Write the result."""
    out: Path = RESULT
    """Where the result is written."""


@dataclass(slots=True)
class Verdict:
    """What came out of the comparison."""

    episodes: int = 0
    identical: int = 0
    lost: int = 0
    unexpected: int = 0
    different: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    """What the store's own verification found."""
    double_steps: int = 0
    """Echo steps whose server-side count is not their seq: applied twice or left out."""

    @property
    def passed(self) -> bool:
        """Nothing was lost, doubled or changed."""
        return self.identical == self.episodes and not (
            self.lost or self.unexpected or self.different or self.problems or self.double_steps
        )


class Servers:
    """Server processes on fixed ports, started again whenever they die."""

    def __init__(self, config: Chaos, folder: Path) -> None:
        self.kills: Counter[str] = Counter()
        self.ports = [_free_port() for _ in range(config.servers)]
        self._config = config
        self._folder = folder
        self._processes: list[asyncio.subprocess.Process] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Servers:
        for port in self.ports:
            self._processes.append(await self._start(port))
        for port in self.ports:
            await _wait_for_port(port)
        self._tasks = [asyncio.create_task(self._keep(n)) for n in range(len(self.ports))]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def harass(self, rng: random.Random) -> None:
        """Kill servers and workers until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kill_servers(self._config.kill_server_every, rng))
            group.create_task(self._kill_workers(self._config.kill_worker_every, rng))
            group.create_task(self._kill_browsers(self._config.kill_browser_every, rng))

    async def _kill_servers(self, seconds: float, rng: random.Random) -> None:
        while seconds:
            # A slow machine must not be left without a server for ever.
            for port in self.ports:
                await _wait_for_port(port)
            await asyncio.sleep(seconds * rng.uniform(0.5, 1.5))
            with contextlib.suppress(ProcessLookupError):
                rng.choice(self._processes).kill()
                self.kills["servers"] += 1

    async def _kill_workers(self, seconds: float, rng: random.Random) -> None:
        while seconds:
            await asyncio.sleep(seconds * rng.uniform(0.5, 1.5))
            with contextlib.suppress(psutil.NoSuchProcess):
                if workers := self._workers(rng):
                    rng.choice(workers).kill()
                    self.kills["workers"] += 1

    async def _kill_browsers(self, seconds: float, rng: random.Random) -> None:
        while seconds:
            await asyncio.sleep(seconds * rng.uniform(0.5, 1.5))
            with contextlib.suppress(psutil.NoSuchProcess):
                started = [
                    each
                    for worker in self._workers(rng)
                    for each in worker.children(recursive=True)
                ]
                if started:
                    victim = rng.choice(started)
                    kinds = [word for word in victim.cmdline() if word.startswith("--type=")]
                    victim.kill()
                    self.kills[(kinds or [victim.name()])[0]] += 1

    def _workers(self, rng: random.Random) -> list[psutil.Process]:
        """The workers of one of the servers."""
        children = psutil.Process(rng.choice(self._processes).pid).children()
        return [each for each in children if "env_servers.server.worker" in each.cmdline()]

    async def _start(self, port: int) -> asyncio.subprocess.Process:
        names = self._config.env.split(",")
        command = [sys.executable, "-m", "env_servers", "serve", *names]
        command += ["--bind", f"127.0.0.1:{port}", "--drain", "0", "--workers", "2"]
        if "echo" in names:
            command += ["--execution", "echo=process"]
        with Path(self._folder, f"server-{port}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

    async def _keep(self, number: int) -> None:
        while True:
            await self._processes[number].wait()
            self._processes[number] = await self._start(self.ports[number])


class Orchestrator:
    """The command under test, as a child process that may be paused and killed."""

    def __init__(self, config: Chaos, addresses: Sequence[str], out: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._config = config
        self._addresses = list(addresses)
        self._out = out

    async def run(self, *, harassed: bool, rng: random.Random) -> float:
        """Play to the end, through kills where `harassed`; returns wall seconds."""
        started = time.monotonic()
        kills = list(self._config.kill_orchestrator_after) if harassed else []
        while True:
            after = kills.pop(0) if kills else None
            status = await self._session(after, harassed=harassed, rng=rng)
            self.counts["sessions"] += 1
            if status == 0:
                return time.monotonic() - started
            if status != -signal.SIGKILL and self.counts["sessions"] > 20:
                raise RuntimeError(f"the orchestrator ended with status {status} again and again")
            if not Path(self._out, "manifest.json").exists():
                # Killed before the run was created: there is nothing to resume.
                self.counts["killed before creation"] += 1

    async def _session(
        self, kill_after: float | None, *, harassed: bool, rng: random.Random
    ) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(), stdout=asyncio.subprocess.DEVNULL
        )
        tasks: list[asyncio.Task[None]] = []
        if harassed:
            tasks.append(asyncio.create_task(self._pause(process.pid, rng)))
        if kill_after is not None:
            tasks.append(asyncio.create_task(self._kill(process, kill_after)))
        try:
            return await process.wait()
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    def _command(self) -> list[str]:
        resuming = Path(self._out, "manifest.json").exists()
        command = [sys.executable, "-m", "orchestrator.sample"]
        if resuming:
            return [*command, "--resume", str(self._out)]
        config = self._config
        command += ["--env", config.env, "--policy", config.policy, "--split", config.split]
        command += ["--episodes", str(config.episodes), "--samples", str(config.samples)]
        command += ["--concurrency", str(config.concurrency), "--out", str(self._out)]
        return [*command, "--servers", *self._addresses]

    async def _pause(self, pid: int, rng: random.Random) -> None:
        while self._config.pause_every:
            await asyncio.sleep(self._config.pause_every * rng.uniform(0.5, 1.5))
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(self._config.pause_seconds)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self.counts["pauses"] += 1

    async def _kill(self, process: asyncio.subprocess.Process, after: float) -> None:
        await asyncio.sleep(after)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
            self.counts["kills"] += 1


def compare(calm: Path, chaotic: Path) -> Verdict:
    """Compare two runs' records, episode by episode."""
    verdict = Verdict()
    with RunReader.open(calm) as reader:
        truth = {episode_key(record): _transcript(record) for record in reader.episodes()}
    verdict.episodes = len(truth)
    with RunReader.open(chaotic) as reader:
        verdict.problems = reader.verify()
        seen: set[EpisodeKey] = set()
        for record in reader.episodes():
            key = episode_key(record)
            seen.add(key)
            verdict.double_steps += _double_steps(record)
            if key not in truth:
                verdict.unexpected += 1
            elif truth[key] == _transcript(record):
                verdict.identical += 1
            else:
                verdict.different.append(f"{key}: {_first_difference(truth[key], record)}")
    verdict.lost = len(truth.keys() - seen)
    return verdict


def _transcript(record: episode_pb2.Episode) -> list[tuple[Any, ...]]:
    """Everything of an episode that must not depend on luck."""
    steps: list[tuple[Any, ...]] = [
        (step.input.reply, step.observation, step.reward, step.terminated, step.state_hash)
        for step in record.steps
    ]
    return [*steps, (record.stop_reason, record.score, record.error.reason, record.error.message)]


def _first_difference(truth: list[tuple[Any, ...]], record: episode_pb2.Episode) -> str:
    for number, (old, new) in enumerate(zip(truth, _transcript(record), strict=False)):
        if old != new:
            return f"entry {number}: {old!r} became {new!r}"
    return f"{len(truth)} entries became {len(record.steps) + 1}"


def _double_steps(record: episode_pb2.Episode) -> int:
    """Echo counts its steps on the server: the count must be the seq."""
    if record.environment != "echo":
        return 0
    return sum(
        not step.observation.startswith(f"Step {step.seq},") for step in record.steps if step.seq
    )


async def run_both(config: Chaos, folder: Path, console: Console) -> dict[str, Any]:
    """Play both runs and compare them; returns the result as plain data."""
    rng = random.Random(config.seed)
    async with Servers(config, folder) as servers:
        addresses = [f"127.0.0.1:{port}" for port in servers.ports]
        calm = Orchestrator(config, addresses, folder / "calm")
        calm_seconds = await calm.run(harassed=False, rng=rng)
    console.print(f"calm run: {calm_seconds:.1f} s")
    async with contextlib.AsyncExitStack() as stack:
        servers = await stack.enter_async_context(Servers(config, folder))
        proxies = [
            await stack.enter_async_context(FaultyProxy(f"127.0.0.1:{port}", Faults(), rng))
            for port in servers.ports
        ]
        chaotic = Orchestrator(config, [p.address for p in proxies], folder / "chaotic")
        harassing = asyncio.create_task(servers.harass(rng))
        try:
            async with asyncio.timeout(config.limit):
                chaotic_seconds = await chaotic.run(harassed=True, rng=rng)
        finally:
            harassing.cancel()
        faults: Counter[str] = Counter()
        for proxy in proxies:
            faults.update(proxy.counts)
        faults.update({f"{name} killed": count for name, count in servers.kills.items()})
        faults.update({f"orchestrator {name}": count for name, count in chaotic.counts.items()})
    console.print(f"chaotic run: {chaotic_seconds:.1f} s, faults: {dict(faults)}")
    verdict = compare(folder / "calm", folder / "chaotic")
    return {
        "manifest": read_manifest().as_json(),
        "config": {name: it for name, it in asdict(config).items() if name not in ("save", "out")},
        "calm_seconds": round(calm_seconds, 1),
        "chaotic_seconds": round(chaotic_seconds, 1),
        "faults": dict(faults),
        "verdict": {**asdict(verdict), "passed": verdict.passed},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns 0 when nothing was lost, doubled or changed."""
    config = tyro.cli(Chaos, prog="python -m benchmark.chaos", args=argv)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="agentgym-chaos-") as name:
        result = run_loop(run_both(config, Path(name), console))
    verdict = result["verdict"]
    table = Table("episodes", "identical", "lost", "unexpected", "different", "double steps")
    names = ("episodes", "identical", "lost", "unexpected", "different", "double_steps")
    counts = [len(verdict[n]) if isinstance(verdict[n], list) else verdict[n] for n in names]
    table.add_row(*map(str, counts))
    console.print(table)
    for line in (verdict["different"] + verdict["problems"])[:5]:
        console.print(line, markup=False)
    if config.save:
        config.out.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if verdict["passed"] else 1


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _wait_for_port(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"no server listens on port {port}")


if __name__ == "__main__":
    sys.exit(main())
