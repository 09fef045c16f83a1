"""`python -m benchmark.throughput`: steps per second, latency and memory beside other systems.

Everything that is compared is measured in one run, in turn, so that a noisy machine hits all alike.
Prints the tables and the ratios that the README quotes, and writes them with the raw cells.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.baselines.contenders import baseline
from benchmark.load import Cell, Contender, Report, Settings, measure
from benchmark.memory import IdleMemory, measure_idle_memory
from benchmark.system import SYSTEM, SYSTEM_UNIX
from benchmark.tables import RESULTS, Summary, render_markdown, summarise

__all__ = ["Throughput", "main"]

REQUESTS: Final = "AgentGym HTTP, requests"
AIOHTTP: Final = "AgentGym HTTP, aiohttp"
WEBSOCKET: Final = "OpenEnv WebSocket"
STREAM: Final = "bare gRPC, stream per episode"
COALESCED: Final = "bare gRPC, coalesced"
CEILING: Final = "ceiling: TCP msgpack, coalesced"
IN_PROCESS: Final = "in process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Measure this system beside AgentGym's shape, OpenEnv's shape, and the ceiling."""

    rounds: int = 3
    """Every cell is measured so often, in turn."""
    seconds: float = 4.0
    """Measured per cell."""
    crowd_seconds: float = 15.0
    """Measured per cell with 2,000 episodes: the slow shapes need long to answer them all."""
    crowd_warmup: float = 12.0
    """Not measured before that."""
    quick: bool = False
    """One short round of everything, to see that it works; writes nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """One comparison: contenders and the settings that they share."""

    name: str
    contenders: tuple[Contender, ...]
    settings: Settings


def parts(config: Throughput) -> list[Part]:
    """What is measured, in order."""
    rounds = 1 if config.quick else config.rounds
    seconds = 1.5 if config.quick else config.seconds
    crowd = (1.5, 1.0) if config.quick else (config.crowd_seconds, config.crowd_warmup)
    shapes = tuple(baseline(name) for name in (REQUESTS, AIOHTTP, WEBSOCKET))
    limits = tuple(baseline(name) for name in (COALESCED, CEILING, IN_PROCESS))
    return [
        Part(
            "alone",
            (baseline(STREAM), SYSTEM, SYSTEM_UNIX),
            Settings(episodes=(1,), seconds=seconds, rounds=rounds + 2),
        ),
        Part(
            "echo, 64 to 256 episodes",
            (*shapes, SYSTEM, SYSTEM_UNIX, *limits),
            Settings(episodes=(64, 256), seconds=seconds, rounds=rounds),
        ),
        Part(
            "echo, 2,000 episodes",
            (*shapes, SYSTEM, *limits),
            Settings(episodes=(2000,), seconds=crowd[0], warmup_s=crowd[1], rounds=rounds),
        ),
        Part(
            "echo, 512 to 10,000 episodes",
            (SYSTEM, baseline(COALESCED), baseline(CEILING)),
            Settings(episodes=(512, 2000, 10_000), seconds=seconds, warmup_s=2.0, rounds=rounds),
        ),
        Part(
            "TextCraft, 256 episodes",
            (baseline(REQUESTS), baseline(AIOHTTP), SYSTEM),
            Settings(
                episodes=(256,),
                seconds=seconds,
                warmup_s=2.0,
                rounds=rounds,
                environment="textcraft",
            ),
        ),
    ]


class Rates:
    """Medians by part, contender and number of episodes."""

    def __init__(self, reports: dict[str, Report]) -> None:
        self._rows: dict[tuple[str, str, int], Summary] = {
            (part, row.contender, row.episodes): row
            for part, report in reports.items()
            for row in summarise(report.cells)
        }

    def rate(self, part: str, contender: str, episodes: int) -> float | None:
        """Median steps per second; None = no valid figure."""
        row = self._rows.get((part, contender, episodes))
        return row.steps_per_s if row is not None and row.rounds else None

    def p50(self, part: str, contender: str, episodes: int) -> float | None:
        """Median latency in ms."""
        row = self._rows.get((part, contender, episodes))
        return row.p50_ms if row is not None else None


def ratios(rates: Rates) -> list[dict[str, Any]]:
    """The comparisons that count, each with its goal."""
    rows: list[dict[str, Any]] = []

    def compare(what: str, ours: float | None, theirs: float | None, goal: str) -> None:
        ratio = None if ours is None or not theirs else round(ours / theirs, 3)
        rows.append({"what": what, "ours": ours, "theirs": theirs, "ratio": ratio, "goal": goal})

    goals = ((AIOHTTP, ">= 60"), (REQUESTS, ">= 100"), (WEBSOCKET, ">= 15"), (CEILING, ">= 0.4"))
    for part, episodes in (("echo, 64 to 256 episodes", 256), ("echo, 2,000 episodes", 2000)):
        ours = rates.rate(part, SYSTEM.name, episodes)
        for name, goal in goals:
            what = f"steps/s against {name}, {episodes:,} episodes"
            compare(what, ours, rates.rate(part, name, episodes), goal)
    large = "echo, 512 to 10,000 episodes"
    compare(
        "steps/s at 10,000 against 2,000 episodes",
        rates.rate(large, SYSTEM.name, 10_000),
        rates.rate(large, SYSTEM.name, 2_000),
        ">= 0.7",
    )
    compare(
        "p50 latency of one episode against a bare stream",
        rates.p50("alone", SYSTEM.name, 1),
        rates.p50("alone", STREAM, 1),
        "<= 1.3",
    )
    craft = "TextCraft, 256 episodes"
    ours = rates.rate(craft, SYSTEM.name, 256)
    for name in (AIOHTTP, REQUESTS):
        what = f"TextCraft steps/s against {name}, 256 episodes"
        compare(what, ours, rates.rate(craft, name, 256), ">= 15")
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write; returns 0."""
    config = tyro.cli(Throughput, prog="python -m benchmark.throughput", args=argv)
    console = Console()
    reports: dict[str, Report] = {}
    for part in parts(config):
        console.rule(part.name)

        def show(cell: Cell) -> None:
            rate = f"{cell.steps_per_s:>10,.0f} steps/s  {cell.outcome.value} {cell.detail}"
            console.print(f"{cell.contender:<34}{cell.episodes:>6} {rate}", markup=False)

        reports[part.name] = measure(part.contenders, part.settings, on_cell=show)
    memory = measure_idle_memory()
    rows = ratios(Rates(reports))
    console.print(_table(rows, memory))
    if not config.quick:
        _write(config, reports, rows, memory)
    return 0


def _table(rows: Sequence[dict[str, Any]], memory: IdleMemory) -> Table:
    table = Table("comparison", "ours", "theirs", "ratio", "goal")
    for row in rows:
        figures = [row["ours"], row["theirs"], row["ratio"]]
        shown = ["-" if value is None else f"{value:,.2f}" for value in figures]
        table.add_row(row["what"], *shown, row["goal"])
    kib = [value / 1024 for value in (memory.runtime_bytes, memory.environment_bytes)]
    table.add_row(
        "KiB per idle episode, beside the environment", *map("{:.2f}".format, kib), "", "<= 8"
    )
    return table


def _write(
    config: Throughput,
    reports: dict[str, Report],
    rows: Sequence[dict[str, Any]],
    memory: IdleMemory,
) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    data = {
        "config": asdict(config),
        "ratios": rows,
        "idle_memory": {**asdict(memory), "runtime_bytes": memory.runtime_bytes},
        "parts": {name: report.as_json() for name, report in reports.items()},
    }
    (RESULTS / "throughput.json").write_text(json.dumps(data, indent=1) + "\n")
    texts = [f"## {name}\n\n{render_markdown(report)}" for name, report in reports.items()]
    (RESULTS / "throughput.md").write_text("# Throughput\n\n" + "\n".join(texts))


if __name__ == "__main__":
    sys.exit(main())
