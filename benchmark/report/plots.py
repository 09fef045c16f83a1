"""What is drawn of which result: the figures that one would look for first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, Final

from benchmark.report.charts import Chart

__all__ = ["PLOTS"]

Result = Mapping[str, Any]
Plots = Callable[[Result], Iterator[Chart]]


def _throughput(result: Result) -> Iterator[Chart]:
    for part in ("echo, 64 to 256 episodes", "echo, 2,000 episodes"):
        cells = result["parts"][part]["cells"]
        episodes = max(cell["episodes"] for cell in cells)
        rates: defaultdict[str, list[float]] = defaultdict(list)
        for cell in cells:
            if cell["episodes"] == episodes and cell["steps_per_s"]:
                rates[cell["contender"]].append(cell["steps_per_s"])
        values = {name: median(found) for name, found in rates.items()}
        yield Chart(f"Steps per second, echo, {episodes:,} episodes", values, logarithmic=True)


def _front_door(result: Result) -> Iterator[Chart]:
    values = {f"{int(count):,} episodes": ratio for count, ratio in result["ratios"].items()}
    yield Chart("Vector's share of the asynchronous client's steps per second", values)


def _blocking(result: Result) -> Iterator[Chart]:
    values = {name: it["of_alone"] for name, it in result["medians"].items()}
    yield Chart("What a slow environment leaves the others of their throughput", values)


def _whole_path(result: Result) -> Iterator[Chart]:
    values = {
        f"{name}, {tree}": it["cpu_us_per_episode"]
        for name, trees in result["environments"].items()
        for tree, it in trees.items()
    }
    yield Chart("CPU of a recorded episode, µs, client and server", values)


def _costs(result: Result) -> Iterator[Chart]:
    measured = {
        name: trees["now"] for name, trees in result["environments"].items() if "now" in trees
    }
    for key, title in (("step_p50", "a step"), ("reset_p50", "a reset of a task seen before")):
        values = {name: it[key] for name, it in measured.items() if key in it}
        yield Chart(f"CPU of {title}, µs, p50", values, logarithmic=True)
    yield Chart("Time to serve, s", {name: it["serves_s"] for name, it in measured.items()})


def _crowd(result: Result) -> Iterator[Chart]:
    rates = {name: it["server"]["steps_per_second"] for name, it in result.items()}
    yield Chart("Steps per second, experts in 1,000 episodes", rates, logarithmic=True)
    memory = {name: it["server"]["kib_per_episode"] for name, it in result.items()}
    yield Chart("Memory of a live episode, KiB", memory, logarithmic=True)


def _guard(result: Result) -> Iterator[Chart]:
    yield Chart("Cost in steps of echo without a server", result["ratios"], logarithmic=True)


def _fidelity(result: Result) -> Iterator[Chart]:
    values = {
        name: 100 * it["steps_identical"] / it["steps"]
        for name, it in result["environments"].items()
        if it["steps"]
    }
    yield Chart("Recorded steps that are replayed identically, %", values)


def _time_travel(result: Result) -> Iterator[Chart]:
    turns = {name: 1e3 * it["turn_seconds"]["p50"] for name, it in result["travel"].items()}
    yield Chart(f"Going to turn {result['turn']} of an episode, ms, p50", turns)
    pictures = {name: it["milliseconds"]["p50"] for name, it in result["pictures"].items()}
    yield Chart("Picture of a state, ms, p50", pictures, logarithmic=True)


def _language_model(result: Result) -> Iterator[Chart]:
    values = {name: it["cpu"] for name, it in result["tokens_per_s"].items()}
    yield Chart(f"Tokens per second of CPU, {result['settings']['model']}", values)


def _asynchronous(result: Result) -> Iterator[Chart]:
    values = {name: it["steps_per_hour"] for name, it in result["sides"].items()}
    yield Chart("Steps of GRPO per hour", values)


def _grpo_wordle(result: Result) -> Iterator[Chart]:
    values = {name: 100 * it["mean"] for name, it in result["rows"].items()}
    yield Chart("Held-out tasks of Wordle solved, %", values)


def _viewer(result: Result) -> Iterator[Chart]:
    values = {
        key.removesuffix("_seconds").replace("_", " "): value
        for key, value in result.items()
        if key.endswith("_seconds") and "_cpu_" not in key
    }
    yield Chart(f"Viewer with {result['episodes']:,} episodes, s", values)


PLOTS: Final[Mapping[str, Plots]] = {
    "throughput.json": _throughput,
    "front_door.json": _front_door,
    "blocking.json": _blocking,
    "whole_path.json": _whole_path,
    "guard.json": _guard,
    "fidelity.json": _fidelity,
    "time_travel.json": _time_travel,
    "viewer.json": _viewer,
    "environments/costs.json": _costs,
    "environments/crowd.json": _crowd,
    "policy/language_model.json": _language_model,
    "training/asynchronous.json": _asynchronous,
    "training/grpo-wordle.json": _grpo_wordle,
}
"""By file below `benchmark/results`."""
