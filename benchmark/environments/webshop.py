"""`python -m benchmark.environments.webshop`: start, memory and step times of WebShop.

One server holds a thousand concurrent episodes that the scripted expert plays; its start, its
memory and its speed are measured from outside. The times of single steps are measured inside one
process, without a server, on the embedded catalogue of 12,200 products.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.environments.serving import Served, served
from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.webshop import WebShop
from env_servers.environments.webshop.catalogue import searched_text
from env_servers.environments.webshop.embedded import load_embedded_shop
from env_servers.sdk import EnvironmentConfig, ResetOptions
from env_servers.toolkit.retrieval.bm25 import Index, IndexWriter
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure WebShop on its embedded catalogue."""

    episodes: int = 1000
    """Episodes at once in one server."""
    timed_episodes: int = 2000
    """Episodes played for the times of single steps."""
    save: bool = True
    """Write benchmark/results/environments/webshop.json."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Milliseconds of steps of one sort, without a server."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Serving:
    """One server with many episodes at once."""

    episodes: int
    start_seconds: float
    """From the start of the process to its first answer."""
    idle_mib: float
    """Resident memory of the server with its catalogue, before the first episode."""
    held_mib: float
    """The same with all episodes in the middle of their play."""
    kib_per_episode: float
    steps: int
    steps_per_second: float
    mean_reward: float


def step_times(episodes: int) -> dict[str, StepTimes]:
    """Play train tasks with the expert, and read and turn pages on the way."""
    tasks = WebShop.load_tasks(EnvironmentConfig())
    plain = _plain_index()
    sorts = ("search", "search without numpy", "page", "purchase", "reset")
    times: dict[str, list[float]] = {sort: [] for sort in sorts}
    size = tasks.splits()["train"]
    items = tasks.item_ids("train", 0, size)[:: max(1, size // episodes)]
    for number, item in enumerate(items):
        episode = WebShop(tasks)
        task = tasks.get(item)
        times["reset"].append(_timed(partial(episode.reset, task, ResetOptions()))[0])
        # A word that no product has: the same work, and no answer from the cache of searches.
        goal = task.payload.goal.instruction.removeprefix("Find me ")
        keywords = f"{goal} zq{number}"
        times["search"].append(_timed(partial(episode.step, f"search[{keywords}]"))[0])
        times["search without numpy"].append(_timed(partial(plain.search, keywords))[0])
        episode.step("click[back to search]")
        for extra in ("click[description]", "click[next >]", ""):
            _play_one(episode, number, times, extra)
        while not _play_one(episode, number, times, ""):
            pass
    return {name: _summary(samples) for name, samples in times.items()}


def _plain_index() -> Index:
    """Return the embedded catalogue's index as it is where numpy is not installed."""
    writer = IndexWriter()
    for product in load_embedded_shop().products:
        writer.add(product.asin, searched_text(product))
    return writer.finish(numpy=False)


def _play_one(episode: WebShop, seed: int, times: dict[str, list[float]], extra: str) -> bool:
    """One step of the expert, or `extra` after one; returns whether the episode has ended."""
    action = episode.advise_expert(seed).action
    seconds, observation = _timed(partial(episode.step, action))
    if action == "click[buy now]":
        times["purchase"].append(seconds)
    elif not action.startswith("search["):
        times["page"].append(seconds)
    if extra and not observation.terminated:
        times["page"].append(_timed(partial(episode.step, extra))[0])
    return observation.terminated


def _timed(act: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = act()
    return time.perf_counter() - started, result


def _summary(seconds: Sequence[float]) -> StepTimes:
    cuts = quantiles(seconds, n=100)
    return StepTimes(len(seconds), *(round(1000 * cuts[n - 1], 4) for n in (50, 95, 99)))


async def serve(count: int) -> Serving:
    """Start a server, hold the episodes in it, and play them to their ends."""
    async with served("webshop") as server:
        page = await server.connection.list_tasks("webshop", "train", page_size=count)
        live = [
            RemoteEpisode(
                server.connection, f"held-{n}", pb.Reset(environment="webshop", item_id=it.item_id)
            )
            for n, it in enumerate(page.tasks)
        ]
        return await _hold(server, live)


async def _hold(server: Served, live: Sequence[RemoteEpisode]) -> Serving:
    idle = server.memory()
    started = time.perf_counter()
    await asyncio.gather(*(episode.reset() for episode in live))
    await asyncio.gather(*(_advance(episode, 3) for episode in live))
    held = server.memory()
    rewards = await asyncio.gather(*(_advance(episode, 20) for episode in live))
    seconds = time.perf_counter() - started
    steps = sum(episode.seq for episode in live)
    for episode in live:
        episode.close()
    return Serving(
        episodes=len(live),
        start_seconds=round(server.start_seconds, 2),
        idle_mib=round(idle / _MIB, 1),
        held_mib=round(held / _MIB, 1),
        kib_per_episode=round((held - idle) / 1024 / len(live), 1),
        steps=steps,
        steps_per_second=round(steps / seconds),
        mean_reward=sum(reward or 0.0 for reward in rewards) / len(rewards),
    )


async def _advance(episode: RemoteEpisode, steps: int) -> float | None:
    """Let the expert play on; returns the last reward."""
    reward = None
    for _ in range(steps):
        advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
        transition = await episode.step(advice.action)
        reward = transition.reward
        if transition.ended:
            break
    return reward


def _print(times: dict[str, StepTimes], serving: Serving) -> None:
    console = Console()
    table = Table("step", "count", "p50 ms", "p95 ms", "p99 ms")
    for name, row in times.items():
        table.add_row(name, f"{row.count:,}", f"{row.p50_ms}", f"{row.p95_ms}", f"{row.p99_ms}")
    console.print(table)
    for name, value in asdict(serving).items():
        console.print(f"{name.replace('_', ' ')}: {value}", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the figures and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.webshop")
    serving = run_loop(serve(config.episodes))
    times = step_times(config.timed_episodes)
    _print(times, serving)
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result = {
            "manifest": read_manifest((*PACKAGES, "numpy")).as_json(),
            "catalogue": "embedded, 12,200 products",
            "steps": {name: asdict(row) for name, row in times.items()},
            "server": asdict(serving),
        }
        (RESULTS / "webshop.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
