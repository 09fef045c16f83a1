"""`python -m benchmark.environments.bird`: start, memory and query rates of BIRD.

One server that starts with an empty cache holds a thousand concurrent episodes; its start, its
memory and its speed are measured from outside. Every timed statement is asked once only, so that
no remembered answer makes it fast. The same is measured while hostile statements run all the time.
The times of single statements are measured inside one process, without a server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.environments.serving import Served, served
from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.bird import Bird
from env_servers.sdk import EnvironmentConfig
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
_MIB: Final = 2**20
_ROUNDS: Final = 100
_HOSTILE: Final = (
    "SELECT COUNT(*) FROM {table} a, {table} b, {table} c",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n",
    "SELECT printf('%199000d', a.rowid) FROM {table} a, {table} b ORDER BY 1",
    "SELECT * FROM {table} a, {table} b",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure BIRD on its embedded databases."""

    episodes: int = 1000
    """Episodes at once in one server."""
    queries: int = 6000
    """Statements per measurement of a rate."""
    seconds: float = 8.0
    """For the measurement beside hostile statements."""
    execution: str = "thread"
    """Or process: where the server runs the environment."""
    save: bool = True
    """Write benchmark/results/environments/bird.json."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Serving:
    """One server with many episodes at once."""

    execution: str
    episodes: int
    answers_after_seconds: float
    """From the start of the process to its first answer."""
    plays_after_seconds: float
    """To an episode on each of the databases, all of them built by then."""
    idle_mib: float
    """Resident memory of server and workers with all databases open, with five episodes."""
    held_mib: float
    """The same with all episodes in the middle of their play."""
    kib_per_episode: float
    queries_per_second: float
    """Different statements, all episodes at once."""
    step_ms: Times
    """A step with a new statement, eight at a time, with all episodes held."""
    step_ms_beside_hostile: Times
    """The same while one client sends hostile statements without pause."""
    hostile_ms: Times
    mean_reward: float
    """Of the gold statements, submitted at the end."""


def statement_times() -> dict[str, Times]:
    """Return every embedded question's gold statement, once, by level."""
    with TemporaryDirectory() as cache:
        tasks = Bird.load_tasks(EnvironmentConfig(settings={"bird.cache": cache}))
        times: dict[str, list[float]] = {}
        for split in tasks.splits():
            for item in tasks.item_ids(split, 0, 10**6):
                task = tasks.get(item)
                database = task.payload.base.database
                database.path()
                started = time.perf_counter()
                database.ask(task.payload.sql)
                times.setdefault(task.category, []).append(time.perf_counter() - started)
        tasks.close()
    times["all"] = [each for group in list(times.values()) for each in group]
    return {name: _summary(group) for name, group in times.items()}


def _summary(seconds: Sequence[float]) -> Times:
    cuts = quantiles(seconds, n=100)
    mean = sum(seconds) / len(seconds)
    return Times(len(seconds), *(round(1000 * x, 2) for x in (mean, cuts[49], cuts[94], cuts[98])))


async def serve(config: Benchmark) -> Serving:
    """Start a server with an empty cache, hold the episodes in it, and measure."""
    with TemporaryDirectory() as folder:
        flags = ["--set", f"bird.cache={folder}", "--execution", f"bird={config.execution}"]
        async with served("bird", flags) as server:
            return await Crowd(server, config).measure()


class Crowd:
    """The episodes of one measurement."""

    def __init__(self, server: Served, config: Benchmark) -> None:
        self._connection = server.connection
        self._server = server
        self._config = config
        self._marks = itertools.count()
        self._live: list[RemoteEpisode] = []
        self._gold: list[str] = []
        self._tables: list[str] = []

    async def measure(self) -> Serving:
        """Return all figures."""
        page = await self._connection.list_tasks("bird", "train", page_size=10**6)
        tasks = [each.item_id for each in page.tasks]
        items = tasks[:: max(1, len(tasks) // 5)][:5]
        await asyncio.gather(*(self._open(item) for item in items))
        plays = time.perf_counter() - self._server.started
        await asyncio.gather(*(self._run(n) for n in range(len(self._live))))
        idle = self._server.memory()
        more = itertools.islice(itertools.cycle(tasks), self._config.episodes - len(self._live))
        await asyncio.gather(*(self._open(item) for item in more))
        rate = await self._rate()
        held = self._server.memory()
        steps = await self._step_times(self._config.queries // 4)
        beside, hostile = await self._beside_hostile()
        rewards = await asyncio.gather(*(self._submit(n) for n in range(len(self._live))))
        for episode in self._live:
            episode.close()
        return Serving(
            execution=self._config.execution,
            episodes=len(self._live),
            answers_after_seconds=round(self._server.start_seconds, 2),
            plays_after_seconds=round(plays, 2),
            idle_mib=round(idle / _MIB, 1),
            held_mib=round(held / _MIB, 1),
            kib_per_episode=round((held - idle) / 1024 / len(self._live), 1),
            queries_per_second=round(rate),
            step_ms=steps,
            step_ms_beside_hostile=beside,
            hostile_ms=hostile,
            mean_reward=sum(rewards) / len(rewards),
        )

    async def _open(self, item: str) -> None:
        reset = pb.Reset(environment="bird", item_id=item, profile="multi_turn")
        reset.options.update({"rounds": _ROUNDS})
        episode = RemoteEpisode(self._connection, f"held-{len(self._live)}-{item}", reset)
        first = await episode.reset()
        tables = first.text.partition(" with the tables ")[2].partition("\n")[0].split(", ")
        self._live.append(episode)
        self._tables.append(tables[-1])
        # The expert hands in the gold statement when no round is left for anything else.
        advice = await episode.consult(pb.ADVISOR_EXPERT, 0)
        self._gold.append(advice.action)

    async def _run(self, number: int) -> float:
        """Ask a statement that nobody asked before; return the seconds."""
        statement = f"{await self._gold_statement(number)} -- {next(self._marks)}"
        started = time.perf_counter()
        await self._live[number].step(statement)
        return time.perf_counter() - started

    async def _gold_statement(self, number: int) -> str:
        """Return the episode's gold statement; looks at tables until the expert comes to it."""
        while self._gold[number].startswith("describe "):
            await self._live[number].step(self._gold[number])
            advice = await self._live[number].consult(pb.ADVISOR_EXPERT, 0)
            self._gold[number] = advice.action
        return self._gold[number]

    async def _rate(self) -> float:
        """Statements a second, all episodes at once."""
        numbers = range(len(self._live))
        await asyncio.gather(*(self._gold_statement(n) for n in numbers))
        each = max(1, self._config.queries // len(self._live))

        async def play(number: int) -> None:
            for _ in range(each):
                await self._run(number)

        started = time.perf_counter()
        await asyncio.gather(*(play(number) for number in numbers))
        return each * len(self._live) / (time.perf_counter() - started)

    async def _step_times(self, count: int) -> Times:
        """Eight statements at a time, on episodes in turn."""
        numbers = iter(range(count))
        found: list[float] = []

        async def work() -> None:
            found.extend([await self._run(number % (len(self._live) - 10)) for number in numbers])

        await asyncio.gather(*(work() for _ in range(8)))
        return _summary(found)

    async def _beside_hostile(self) -> tuple[Times, Times]:
        """Steps of others, and the hostile statements themselves."""
        ends = time.perf_counter() + self._config.seconds
        found: list[float] = []
        hostile: list[float] = []

        async def until_end(act: Callable[[int], Awaitable[None]]) -> None:
            number = 0
            while time.perf_counter() < ends:
                await act(number)
                number += 1

        async def harm(number: int) -> None:
            place = len(self._live) - 1 - number % 10
            text = _HOSTILE[number % 4].format(table=self._tables[place])
            started = time.perf_counter()
            await self._live[place].step(f"{text} -- {next(self._marks)}")
            hostile.append(time.perf_counter() - started)

        async def query(number: int) -> None:
            found.append(await self._run(number % (len(self._live) - 10)))

        await asyncio.gather(until_end(harm), until_end(query))
        return _summary(found), _summary(hostile)

    async def _submit(self, number: int) -> float:
        transition = await self._live[number].step(f"submit {await self._gold_statement(number)}")
        return transition.reward or 0.0


def _print(times: dict[str, Times], serving: Serving) -> None:
    console = Console()
    rows = times | {
        "step": serving.step_ms,
        "step beside hostile ones": serving.step_ms_beside_hostile,
        "hostile step": serving.hostile_ms,
    }
    table = Table("statements", "count", "mean ms", "p50 ms", "p95 ms", "p99 ms")
    for name, row in rows.items():
        table.add_row(name, f"{row.count:,}", *map(str, (row.mean, row.p50, row.p95, row.p99)))
    console.print(table)
    for name, value in asdict(serving).items():
        if not isinstance(value, dict):
            console.print(f"{name.replace('_', ' ')}: {value}", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the figures and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.bird")
    times = statement_times()
    serving = run_loop(serve(config))
    _print(times, serving)
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result: dict[str, Any] = {
            "manifest": read_manifest(PACKAGES).as_json(),
            "databases": "embedded, 5 with 26,000 to 36,000 rows each",
            "statements_ms": {name: asdict(row) for name, row in times.items()},
            "server": asdict(serving),
        }
        (RESULTS / "bird.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
