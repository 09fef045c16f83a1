"""Time travel in the viewer: how long a person waits for a past state, and what pictures cost.

    python -m benchmark.time_travel
    python -m benchmark.time_travel --travel maze --turn 3 --pictures maze --out -

Scripted players play long episodes. A headless Chromium opens each of them in the viewer at a late
turn and asks for the environment's state: times are from the key to the state on the screen, the
whole replay with its comparisons included. The first of an environment starts its server and is
told apart. Pictures are drawn in this process, of every state of the expert's first episodes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final
from urllib.parse import urlencode

import psutil
import tyro
from playwright.async_api import Page, async_playwright

from benchmark.manifest import read_manifest, write_result
from benchmark.viewer import running_viewer
from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from env_servers.sdk import (
    EnvironmentConfig,
    EnvironmentUnavailable,
    Observation,
    ResetOptions,
    environment_names,
    load_environment,
)
from orchestrator.store import RunReader

_DECIMALS: Final = 3
_LEAST: Final = 3
"""Episodes of which anything can be said: one that starts the server, and two."""


@dataclass(frozen=True, slots=True)
class Options:
    """Measure time travel, and the pictures of environments."""

    travel: tuple[str, ...] = ("alfworld", "sciworld")
    """Environments through whose episodes is travelled."""
    turn: int = 30
    """That is gone to."""
    episodes: int = 21
    """Of each environment; the first one starts the server."""
    pictures: tuple[str, ...] = tuple(environment_names())
    """Environments whose states are drawn."""
    drawn_episodes: int = 5
    """Of the expert, of each environment."""
    out: str = "benchmark/results/time_travel.json"
    """File for the figures; - = standard output."""


def record_run(folder: Path, environment: str, options: Options) -> Sequence[str]:
    """Play episodes, by chance and by the expert; gives the ids of those that came to the turn."""
    command = [sys.executable, "-m", "orchestrator.sample", "--env", environment]
    command += ["--policy", "random,expert", "--max-rounds", str(options.turn), "--spawn", "1"]
    command += ["--episodes", str(options.episodes), "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with RunReader.open(folder) as run:
        long = [it.episode_id for it in run.episodes() if len(it.steps) > options.turn]
    if len(long) < _LEAST:
        raise SystemExit(f"{len(long)} episodes of {environment} came to turn {options.turn}")
    return long[: options.episodes]


async def travel(page: Page, origin: str, run: str, ids: Sequence[str], turn: int) -> Any:
    """Go to a turn of each episode, one back, to the start and one forward; gives seconds."""
    moves = {"turn": ("s", turn), "one_back": ("k", turn - 1), "start": ("Home", 0)}
    moves["one_forward"] = ("j", 1)
    waits: dict[str, list[float]] = {name: [] for name in moves}
    for episode_id in ids:
        await page.goto(
            f"{origin}/episode?{urlencode({'run': run, 'id': episode_id, 'turn': turn})}"
        )
        await page.locator(f"[data-turn='{turn}'].turn.current").wait_for()
        for name, (key, reached) in moves.items():
            begun = time.perf_counter()
            await page.keyboard.press(key)
            await page.get_by_text(_proof(reached)).wait_for()
            waits[name].append(time.perf_counter() - begun)
    return {
        "episodes": len(ids) - 1,
        "cold_seconds": round(waits["turn"][0], _DECIMALS),
        **{f"{name}_seconds": _spread(seconds[1:]) for name, seconds in waits.items()},
    }


def _proof(turn: int) -> str:
    if turn == 0:
        return "Replayed the reset:"
    return f"Replayed the reset and {turn} turn{'s' if turn > 1 else ''}:"


def _spread(values: Sequence[float]) -> dict[str, float]:
    cuts = quantiles(values, n=20, method="inclusive")
    return {
        "p50": round(cuts[9], _DECIMALS),
        "p95": round(cuts[18], _DECIMALS),
        "most": round(max(values), _DECIMALS),
    }


async def look(runs: Path, ids: dict[str, Sequence[str]], turn: int) -> dict[str, Any]:
    """Start viewer and browser, and travel in each environment."""
    figures: dict[str, Any] = {}
    with running_viewer(runs) as (address, server):
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=find_chromium(AUTO), chromium_sandbox=False
            )
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(120_000)
            origin = address.partition("/?")[0]
            await page.goto(address)
            for name, episodes in ids.items():
                before = _cpu(server)
                found = await travel(page, origin, f"{runs.name}/{name}", episodes, turn)
                spent = (_cpu(server) - before) / len(episodes)
                figures[name] = found | {"cpu_seconds_per_episode": round(spent, _DECIMALS)}
            await browser.close()
    return figures


def _cpu(server: psutil.Process) -> float:
    """Seconds of CPU of the viewer and the environment servers that it started."""
    return sum(sum(it.cpu_times()[:2]) for it in (server, *server.children(recursive=True)))


def draw_pictures(name: str, count: int) -> dict[str, Any]:
    """Draw every state of the expert's first episodes; gives milliseconds."""
    kind = load_environment(name)
    tasks = kind.load_tasks(EnvironmentConfig())
    milliseconds: list[float] = []
    size = 0
    try:
        split = next(iter(tasks.splits()))
        for item_id in tasks.item_ids(split, 0, count):
            episode = kind(tasks)
            observation = episode.reset(tasks.get(item_id), ResetOptions())
            for rounds in range(kind.spec.max_rounds + 1):
                begun = time.perf_counter()
                views = episode.render()
                milliseconds.append(1000 * (time.perf_counter() - begun))
                size = max(size, sum(len(view.content) for view in views))
                if _ended(observation) or rounds == kind.spec.max_rounds:
                    break
                observation = episode.step(episode.advise_expert(0).action)
            episode.close()
    finally:
        tasks.close()
    return {"states": len(milliseconds), "milliseconds": _spread(milliseconds), "most_bytes": size}


def _ended(observation: Observation) -> bool:
    return observation.terminated or observation.truncated


def main() -> None:
    """Run the benchmark."""
    options = tyro.cli(Options, prog="benchmark.time_travel")
    result: dict[str, Any] = {"manifest": read_manifest().as_json(), "turn": options.turn}
    with tempfile.TemporaryDirectory(prefix="time-travel-") as temporary:
        runs = Path(temporary) / "runs"
        ids = {name: record_run(runs / name, name, options) for name in options.travel}
        result["travel"] = asyncio.run(look(runs, ids, options.turn))
    result["pictures"] = {}
    for name in options.pictures:
        try:
            result["pictures"][name] = draw_pictures(name, options.drawn_episodes)
        except EnvironmentUnavailable as error:
            result["pictures"][name] = {"unavailable": str(error)}
    write_result(options.out, result)


if __name__ == "__main__":
    main()
