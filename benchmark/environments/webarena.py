"""`python -m benchmark.environments.webarena`: what WebArena costs, beside the original's way.

In one run: CPU and time of an observation by the size of the page, of a click that opens a page,
and of a reset, in ours and in `benchmark.baselines.webarena_original`; then one server of ours with
many live episodes, its memory with its browser, and its steps per second while experts play. CPU is
user and system time of Python, Playwright's driver and Chromium together, ended processes included;
memory is proportional (PSS). Takes about five minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from subprocess import PIPE, Popen
from typing import Any, Final, TypeVar

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.baselines import webarena_original
from benchmark.environments.serving import Served, served
from benchmark.environments.webarena_pages import Pages, address
from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Door
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browsing import AGENTGYM, Browsing
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
_MIB: Final = 2**20
_CLICKED: Final = 250
"""Nodes of the pages that are clicked through."""
_MOST_STEPS: Final = 30
_REST_S: Final = 10

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """What WebArena costs, beside the original's way."""

    episodes: int = 60
    """Live at once in our server."""
    playing: int = 8
    """Of them, so many play at once; the others wait."""
    repeats: int = 20
    """Of what is measured of ours."""
    original_repeats: int = 4
    """Of what is measured of the original's way."""
    original_environments: int = 2
    """Live at once, for the memory of one."""
    sizes: tuple[int, ...] = (250, 3000)
    """Nodes of the lists that are observed, roughly."""
    data: Path | None = None
    """Folder of official data files, for recorded pages; default: AGENTGYM_DATA, if set."""
    save: bool = True
    """Write benchmark/results/environments/webarena.json."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operation takes."""

    count: int
    cpu_s: float
    """Mean: systems count CPU in hundredths of a second."""
    cpu_p50_s: float
    wall_s: float
    """Median."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One operation on both sides."""

    what: str
    ours: Cost
    original: Cost
    cpu_ratio: float
    """The original's CPU by ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One server of ours, with one worker and one browser."""

    episodes: int
    start_seconds: float
    idle_mib: float
    """PSS before the first episode: without a browser, and without the content of the sites."""
    live_mib: float
    """PSS of server, worker and browser with all episodes live, after a step of each and a rest."""
    mib_per_episode: float
    reset_cpu_s: float
    """Mean, once the browser runs and the sites are built."""
    steps: int
    steps_per_second: float
    cpu_s_per_step: float
    mean_reward: float


def _family(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def _cpu(process: psutil.Process) -> float:
    """Seconds of a process and all below it; those that ended are told by their parents."""
    total = 0.0
    for each in _family(process):
        try:
            total += sum(each.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def _memory(process: psutil.Process) -> float:
    total = 0
    for each in _family(process):
        try:
            total += each.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / _MIB


class _Meter:
    """Measures one operation several times."""

    def __init__(self, cpu: Callable[[], float]) -> None:
        self._cpu = cpu
        self._found: list[tuple[float, float]] = []

    @contextmanager
    def once(self) -> Iterator[None]:
        before, began = self._cpu(), time.perf_counter()
        yield
        self._found.append((self._cpu() - before, time.perf_counter() - began))

    @property
    def cost(self) -> Cost:
        cpu, wall = zip(*self._found, strict=True)
        return Cost(len(cpu), *(round(x, 4) for x in (fmean(cpu), median(cpu), median(wall))))


class _Original:
    """An environment of the original's shape, in a process of its own."""

    def __init__(self, port: int) -> None:
        command = [sys.executable, "-m", webarena_original.__name__, str(port)]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, text=True)
        self.process = psutil.Process(self._process.pid)

    def __enter__(self) -> _Original:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def do(self, what: str, **arguments: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the original's environment ended over {what}")
        return json.loads(line)

    def measure(self, count: int, what: str, **arguments: object) -> Cost:
        meter = _Meter(lambda: _cpu(self.process))
        for _ in range(count):
            with meter.once():
                self.do(what, **arguments)
        return meter.cost


def _measure_original(config: Benchmark, pages: Pages) -> tuple[dict[str, Cost], float]:
    """Return the costs by names, and the MiB of one of several live environments."""
    costs: dict[str, Cost] = {}
    with ExitStack() as stack:
        port = stack.enter_context(pages.serve())
        environment = stack.enter_context(_Original(port))
        for name, url in pages.observed(config.sizes).items():
            nodes = environment.do("reset", url=url)["nodes"]
            environment.do("scroll")
            count = max(2, config.original_repeats * 250 // nodes)
            costs[f"observation, {name} ({nodes} nodes)"] = environment.measure(count, "scroll")
        environment.do("reset", url=address(_CLICKED))
        costs["click that opens a page"] = environment.measure(config.original_repeats, "click")
        resets = environment.measure(config.original_repeats, "reset", url=address(_CLICKED))
        costs["reset"] = resets
        live = [stack.enter_context(_Original(port)) for _ in range(config.original_environments)]
        for each in live:
            each.do("reset", url=address(_CLICKED))
            each.do("scroll")
        memory = sum(_memory(each.process) for each in live) / len(live)
    return costs, memory


async def _open(browser: SharedBrowser, pages: Pages, url: str) -> Browsing:
    window = await browser.open_window(Door(pages.hosts, pages))
    browsing = Browsing(window, Addresses({}), "Look", AGENTGYM)
    await browsing.open([url])
    return browsing


async def _repeat(count: int, call: Callable[[], Awaitable[object]]) -> Cost:
    process = psutil.Process()
    meter = _Meter(lambda: _cpu(process))
    for _ in range(count):
        with meter.once():
            await call()
    return meter.cost


async def _measure_ours(config: Benchmark, pages: Pages) -> list[Cost]:
    """Return the costs in the order in which the original's were measured."""
    costs: list[Cost] = []
    browser = SharedBrowser()
    try:
        for url in pages.observed(config.sizes).values():
            browsing = await _open(browser, pages, url)
            scrolls = cycle(("scroll [down]", "scroll [up]"))
            await browsing.step(next(scrolls))
            look = partial(_scroll, browsing, scrolls)
            costs.append(await _repeat(config.repeats, look))
            await browsing.window.close()
        browsing = await _open(browser, pages, address(_CLICKED))
        await _click(browsing)
        costs.append(await _repeat(config.repeats, partial(_click, browsing)))
        await browsing.window.close()
        reset = partial(_open, browser, pages, address(_CLICKED))
        costs.append(await _repeat(config.repeats, reset))
    finally:
        await browser.close()
    return costs


async def _scroll(browsing: Browsing, scrolls: Iterator[str]) -> None:
    await browsing.step(next(scrolls))


async def _click(browsing: Browsing) -> None:
    link = next(n for n, line in browsing.shown.items() if " link " in line)
    await browsing.step(f"click [{link}]")


async def _tasks(server: Served, count: int) -> list[str]:
    """Return train tasks of all sites."""
    page = await server.connection.list_tasks("webarena", "train", page_size=10_000)
    return [task.item_id for task in page.tasks[:: max(1, len(page.tasks) // count)][:count]]


async def _held(gate: asyncio.Semaphore, call: Callable[[], Awaitable[_Result]]) -> _Result:
    async with gate:
        return await call()


async def _play(episode: RemoteEpisode) -> float:
    """Let the expert play to the end; returns the score."""
    reward = 0.0
    for _ in range(_MOST_STEPS):
        advice = await episode.consult(pb.ADVISOR_EXPERT, 0)
        transition = await episode.step(advice.action)
        reward = transition.reward or 0.0
        if transition.ended:
            break
    return reward


async def _serve(config: Benchmark) -> Serving:
    """Open episodes in a server, look at its memory, let experts play them to their ends."""
    flags = ("--workers", "1", "--max-episodes", str(3 * config.episodes))
    async with served("webarena", flags) as server:
        gate = asyncio.Semaphore(config.playing)
        tasks = await _tasks(server, config.episodes)
        idle = _memory(server.process)
        live = [_episode(server, f"live-{number}", task) for number, task in enumerate(tasks)]
        await asyncio.gather(*(_held(gate, each.reset) for each in live))
        looks = [partial(each.step, "scroll [down]") for each in live]
        await asyncio.gather(*(_held(gate, look) for look in looks))
        # A model thinks this long, too; meanwhile scripts' heaps are tidied.
        await asyncio.sleep(_REST_S)
        memory = _memory(server.process)
        before, began = _cpu(server.process), time.perf_counter()
        plays = [partial(_play, each) for each in live]
        rewards = await asyncio.gather(*(_held(gate, play) for play in plays))
        seconds, cpu = time.perf_counter() - began, _cpu(server.process) - before
        for each in live:
            each.close()
        steps = sum(each.seq - 1 for each in live)
        return Serving(
            episodes=len(live),
            start_seconds=round(server.start_seconds, 1),
            idle_mib=round(idle, 1),
            live_mib=round(memory, 1),
            mib_per_episode=round((memory - idle) / len(live), 1),
            reset_cpu_s=round(await _reset_again(server, tasks[: config.repeats]), 3),
            steps=steps,
            steps_per_second=round(steps / seconds, 2),
            cpu_s_per_step=round(cpu / steps, 4),
            mean_reward=sum(rewards) / len(rewards),
        )


def _episode(server: Served, name: str, task: str) -> RemoteEpisode:
    return RemoteEpisode(server.connection, name, pb.Reset(environment="webarena", item_id=task))


async def _reset_again(server: Served, tasks: Sequence[str]) -> float:
    """Return the CPU of a reset once the sites are built."""
    await asyncio.sleep(1)
    before = _cpu(server.process)
    again = [_episode(server, f"again-{number}", task) for number, task in enumerate(tasks)]
    for each in again:
        await each.reset()
    cpu = _cpu(server.process) - before
    for each in again:
        each.close()
    return cpu / len(again)


def _run(config: Benchmark) -> dict[str, Any]:
    folder = os.environ.get("AGENTGYM_DATA")
    pages = Pages(config.data or (Path(folder) if folder else None))
    originals, original_mib = _measure_original(config, pages)
    ours = run_loop(_measure_ours(config, pages))
    pairs = [
        Pair(what, cost, original, round(original.cpu_s / cost.cpu_s, 1))
        for (what, original), cost in zip(originals.items(), ours, strict=True)
    ]
    return {
        "pairs": [asdict(pair) for pair in pairs],
        "original_mib_per_environment": round(original_mib, 1),
        "server": asdict(run_loop(_serve(config))),
    }


def _print(found: dict[str, Any], console: Console) -> None:
    table = Table("what", "CPU s", "p50", "wall s", "original: CPU s", "wall s", "CPU ratio")
    for pair in found["pairs"]:
        ours, original = pair["ours"], pair["original"]
        table.add_row(
            pair["what"],
            *(f"{ours[name]:.3f}" for name in ("cpu_s", "cpu_p50_s", "wall_s")),
            *(f"{original[name]:.3f}" for name in ("cpu_s", "wall_s")),
            f"{pair['cpu_ratio']:.1f}",
        )
    console.print(table)
    mib = found["original_mib_per_environment"]
    console.print(f"the original: {mib} MiB per environment (PSS)", highlight=False)
    for name, value in found["server"].items():
        console.print(f"{name.replace('_', ' ')}: {value}", highlight=False)


def _settings(config: Benchmark) -> dict[str, Any]:
    """All of them but the folder, which is the user's own."""
    return {name: value for name, value in asdict(config).items() if name != "data"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints tables and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.webarena")
    found = _run(config)
    _print(found, Console())
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        manifest = read_manifest((*PACKAGES, "playwright", "msgspec")).as_json()
        result = {"manifest": manifest, "config": _settings(config), **found}
        path = RESULTS / "webarena.json"
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
