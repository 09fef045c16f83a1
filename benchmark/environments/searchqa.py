"""`python -m benchmark.environments.searchqa`: start, memory and search rates of SearchQA.

One server holds a thousand concurrent episodes that all search at once; its start, its memory, its
rate and the time that each step takes are measured from outside, first with queries that are all
different, then as groups of episodes on one task ask them. The expert then plays the episodes to
their ends. The times of single searches are measured inside one process, without a server.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.environments.serving import Served, served
from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.searchqa import SearchQA
from env_servers.environments.searchqa.embedded import EmbeddedSource, load_embedded
from env_servers.environments.searchqa.protocol import SEARCH, act
from env_servers.environments.searchqa.ranking import RankedCorpus
from env_servers.sdk import EnvironmentConfig, ResetOptions
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
_MIB: Final = 2**20
_FEW: Final = 16
_GROUP: Final = 8
"""Episodes of one task in a group, as group-relative training has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure SearchQA on its embedded world."""

    episodes: int = 1000
    """Episodes at once in one server."""
    rounds: int = 5
    """Searches of every episode in each of the two measurements."""
    timed_searches: int = 2000
    """Searches for the times without a server."""
    execution: str = ""
    """Where steps run: thread (the environment's own choice) or inline."""
    save: bool = True
    """Write benchmark/results/environments/searchqa.json."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Milliseconds of steps of one sort."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Searching:
    """Episodes of a server searching at once."""

    searches: int
    searches_per_second: float
    server_cpu_ms_per_search: float
    """CPU time of the server, its transport included."""
    step: StepTimes
    """As the client waits for them, behind all others that search at once."""


@dataclass(frozen=True, slots=True)
class Serving:
    """One server with many episodes at once."""

    episodes: int
    start_seconds: float
    """From the start of the process to its first answer."""
    first_search_seconds: float
    """The first search builds the index."""
    idle_mib: float
    """Resident memory of the server with its index, before the first episode."""
    held_mib: float
    """The same with all episodes in the middle of their play."""
    kib_per_episode: float
    few: Searching
    """16 episodes search at once, the others rest."""
    different: Searching
    """All search at once."""
    groups: Searching
    """Every query is asked by 8 episodes."""
    expert_mean_reward: float


def local_times(source: EmbeddedSource, count: int) -> dict[str, StepTimes]:
    """Searches by whole questions, and other steps, without a server and without the queue."""
    step_times: dict[str, StepTimes] = {}
    texts = [source.question("train", index).text for index in range(count)]
    for name, numpy in (("search", None), ("search without numpy", False)):
        corpus = RankedCorpus(source.passages, 3, numpy=numpy)
        started = time.process_time()
        corpus.prepare()
        built = time.process_time() - started
        corpus.search(texts[:50])
        step_times[name] = _summary([_timed(partial(corpus.search, [text])) for text in texts[50:]])
        step_times[f"index for {name}"] = _summary([built])
    tasks = SearchQA.load_tasks(EnvironmentConfig())
    resets: list[float] = []
    answers: list[float] = []
    for item in tasks.item_ids("train", 0, count):
        episode, task = SearchQA(tasks), tasks.get(item)
        resets.append(_timed(partial(episode.reset, task, ResetOptions())))
        answers.append(_timed(partial(episode.step, "<answer> nobody </answer>")))
    return step_times | {"reset": _summary(resets), "answer": _summary(answers)}


def _timed(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _summary(seconds: Sequence[float]) -> StepTimes:
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [seconds[0]] * 99
    return StepTimes(len(seconds), *(round(1000 * cuts[n - 1], 4) for n in (50, 95, 99)))


async def serve(config: Benchmark, source: EmbeddedSource) -> Serving:
    """Start a server, hold the episodes in it, search, and play them to their ends."""
    flags = ["--execution", f"searchqa={config.execution}"] if config.execution else []
    async with served("searchqa", flags) as server:
        return await _measure(server, config, source)


async def _measure(server: Served, config: Benchmark, source: EmbeddedSource) -> Serving:
    first = await _first_search(server.connection)
    idle = server.memory()
    live = await _open(server.connection, config.episodes)
    count = config.rounds * len(live)
    texts = iter(source.question("train", 5000 + n).text for n in range(2 * count))
    few = await _search(live[:_FEW], server, list(islice(texts, count // 5)))
    different = await _search(live, server, list(islice(texts, count)))
    shared = list(islice(texts, -(-count // _GROUP)))
    groups = await _search(live, server, [shared[n // _GROUP] for n in range(count)])
    held = server.memory()
    rewards = await asyncio.gather(*(_play_out(episode) for episode in live))
    for episode in live:
        episode.close()
    return Serving(
        episodes=len(live),
        start_seconds=round(server.start_seconds, 2),
        first_search_seconds=round(first, 2),
        idle_mib=round(idle / _MIB, 1),
        held_mib=round(held / _MIB, 1),
        kib_per_episode=round((held - idle) / 1024 / len(live), 1),
        few=few,
        different=different,
        groups=groups,
        expert_mean_reward=sum(rewards) / len(rewards),
    )


async def _first_search(connection: Connection) -> float:
    (episode,) = await _open(connection, 1)
    started = time.perf_counter()
    await episode.step(act(SEARCH, "the first search of all"))
    seconds = time.perf_counter() - started
    episode.close()
    return seconds


async def _open(connection: Connection, count: int) -> list[RemoteEpisode]:
    page = await connection.list_tasks("searchqa", "train", page_size=count)
    live = [
        RemoteEpisode(
            connection, f"held-{count}-{n}", pb.Reset(environment="searchqa", item_id=task.item_id)
        )
        for n, task in enumerate(page.tasks)
    ]
    await asyncio.gather(*(episode.reset() for episode in live))
    return live


async def _search(
    live: Sequence[RemoteEpisode], server: Served, queries: Sequence[str]
) -> Searching:
    """Return all these episodes search at once, each one query after the other."""
    seconds: list[float] = []

    async def search(episode: RemoteEpisode, own: Sequence[str]) -> None:
        for query in own:
            started = time.perf_counter()
            await episode.step(act(SEARCH, query))
            seconds.append(time.perf_counter() - started)

    used, started = server.cpu(), time.perf_counter()
    count = len(live)
    await asyncio.gather(*(search(each, queries[n::count]) for n, each in enumerate(live)))
    took, used = time.perf_counter() - started, server.cpu() - used
    return Searching(
        searches=len(seconds),
        searches_per_second=round(len(seconds) / took),
        server_cpu_ms_per_search=round(1000 * used / len(seconds), 3),
        step=_summary(seconds),
    )


async def _play_out(episode: RemoteEpisode) -> float:
    """Let the expert play to the end; returns the last reward."""
    reward = 0.0
    for _ in range(SearchQA.spec.max_rounds):
        advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
        transition = await episode.step(advice.action)
        reward = transition.reward or 0.0
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
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.searchqa")
    source = load_embedded()
    serving = run_loop(serve(config, source))
    times = local_times(source, config.timed_searches)
    _print(times, serving)
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result = {
            "manifest": read_manifest((*PACKAGES, "numpy")).as_json(),
            "corpus": f"embedded, {len(source.world.entities):,} passages",
            "execution": config.execution or SearchQA.spec.execution.value,
            "steps": {name: asdict(row) for name, row in times.items()},
            "server": asdict(serving),
        }
        (RESULTS / "searchqa.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
