"""Runs on raylets of this machine, each of which stands for a node, and the CPU that they took."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console

from orchestrator.config import RunConfig, parse_policies
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from orchestrator.store import RunReader

__all__ = ["WINDOW", "Played", "Setting", "play", "rate", "raylets"]

WINDOW: Final = (0.4, 0.85)
"""Parts of a run's episodes between whose ends its throughput is taken: before, workers still join;
after, places are empty."""
_SAMPLE_SECONDS: Final = 0.25
_KINDS: Final = {"ray::WorkerProcess": "worker", "env_servers": "server"}
"""A piece of the command line, and whose process it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A run of echo."""

    nodes: int
    concurrency: int
    episodes: int
    turns: int
    reply: float
    """Seconds that a reply takes."""
    cores: int | None = None
    """On which everything runs, of those that the machine has; None = on all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a real run came to, between the ends of `WINDOW`."""

    per_second: float
    sojourn: float
    """Seconds of an episode, mean."""
    seconds: float
    cpu: dict[str, float]
    """Seconds of an episode by kind of process: worker, server, driver, other (Ray's own);
    elsewhere: cores that everything else on the machine took."""


@contextmanager
def raylets(nodes: int) -> Iterator[Any]:
    """Start a cluster of so many raylets, of 2 CPUs each, and yield it (`ray.cluster_utils`)."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray makes its processes nicer by 15: they would wait for whoever else uses this machine.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - as Ray writes it
    from ray.cluster_utils import Cluster  # an extra, and slow to import

    cluster: Any = Cluster()
    try:
        for number in range(nodes):
            cluster.add_node(num_cpus=2, **({} if number else {"include_dashboard": False}))
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def _on_cores(count: int | None) -> Iterator[None]:
    """Keep this thread, and threads and processes that it starts meanwhile, on so many cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def play(setting: Setting) -> Played:
    """Play a run on as many raylets as it has nodes, each with a worker and a server."""
    with (
        _on_cores(setting.cores),
        raylets(setting.nodes) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        config = RunConfig(
            environments=("echo",),
            policies=parse_policies(f"benchmark.scale.sleeper:policy:{setting.reply}"),
            split="train",
            episodes=setting.episodes,
            options={"length": setting.turns},
            concurrency=setting.concurrency,
            cluster=RayConfig(address=cluster.address, ray_workers=1, ray_servers=1),
        )
        with _sampling() as samples:
            place = Path(folder) / "run"
            outcome = asyncio.run(run(config, place, resume=False, console=Console(quiet=True)))
            if not outcome.complete:
                raise RuntimeError(f"the run is not complete: {outcome}")
        with RunReader.open(place) as reader:
            times = [(it.started_unix_ms / 1e3, it.ended_unix_ms / 1e3) for it in reader.episodes()]
    return _figures(times, samples)


def rate(ends: Sequence[float]) -> tuple[float, float, float]:
    """Return episodes a second between the ends of `WINDOW`, and when it begins and ends."""
    ordered = sorted(ends)
    first, last = (round(part * (len(ordered) - 1)) for part in WINDOW)
    begin, end = ordered[first], ordered[last]
    return (last - first) / (end - begin), begin, end


def _figures(times: Sequence[tuple[float, float]], samples: list[_Sample]) -> Played:
    per_second, begin, end = rate([ended for _, ended in times])
    within = [ended - began for began, ended in times if begin <= ended <= end]
    first = min(samples, key=lambda it: abs(it.time - begin))
    last = min(samples, key=lambda it: abs(it.time - end))
    seconds = last.time - first.time
    used = {kind: last.cpu[kind] - first.cpu[kind] for kind in last.cpu}
    episodes = per_second * seconds
    cpu = {kind: value / episodes for kind, value in used.items() if kind != "machine"}
    cpu["elsewhere"] = (used["machine"] - sum(used[kind] for kind in cpu)) / seconds
    return Played(
        per_second=per_second,
        sojourn=sum(within) / len(within),
        seconds=end - begin,
        cpu={kind: round(value, 7) for kind, value in cpu.items()},
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    time: float
    """Of the clock that records use."""
    cpu: dict[str, float]
    """Seconds so far by kind of process, and of the whole machine."""


@contextmanager
def _sampling() -> Iterator[list[_Sample]]:
    """Look at the CPU of this process and all that it started, again and again."""
    samples: list[_Sample] = []
    over = threading.Event()
    family = psutil.Process()
    known: dict[int, tuple[str, float]] = {}

    def look() -> None:
        while not over.is_set():
            samples.append(_look(family, known))
            over.wait(_SAMPLE_SECONDS)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _look(family: psutil.Process, known: dict[int, tuple[str, float]]) -> _Sample:
    """Return CPU seconds so far; of processes that have ended, those that were seen last."""
    now = time.time()
    for process in family.children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            kind = known[process.pid][0] if process.pid in known else _kind(process)
            known[process.pid] = (kind or _kind(process), sum(process.cpu_times()[:2]))
    cpu = {"driver": time.process_time(), "worker": 0.0, "server": 0.0, "other": 0.0}
    for kind, seconds in known.values():
        cpu[kind or "other"] += seconds
    machine = psutil.cpu_times()
    cpu["machine"] = machine.user + machine.nice + machine.system
    return _Sample(now, cpu)


def _kind(process: psutil.Process) -> str:
    """Return whose process it is; empty = Ray's own, or one that has not said it yet."""
    words = " ".join(process.cmdline())
    return next((kind for piece, kind in _KINDS.items() if piece in words), "")
