"""The viewer on a large run: how long a person waits, and how much memory the server takes.

    python -m benchmark.viewer                      a run of 100,000 episodes
    python -m benchmark.viewer --episodes 1000 --out -

Records a run of generated episodes in a temporary folder, starts `python -m orchestrator.view` on
it, and looks at it with a headless Chromium: times are from the click to what was asked for on the
screen. The server's CPU seconds are there, too, which a busy machine changes less.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final
from urllib.parse import urlencode

import psutil
import tyro
from playwright.async_api import Page, async_playwright

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from benchmark.manifest import read_manifest, write_result
from env_servers.environments.webarena.browser.chromium import AUTO, find_chromium
from orchestrator import seeds
from orchestrator.manifest import EnvironmentIdentity, Manifest, begin_session, utc_now
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store import RunStore

_RUN: Final = "generated"
_BATCH: Final = 5000
_OPENED: Final = 60
"""Episodes that are opened one after the other."""


@dataclass(frozen=True, slots=True)
class Options:
    """Measure the viewer on a large run."""

    episodes: int = 100_000
    out: str = "benchmark/results/viewer.json"
    """File for the figures; - = standard output."""


def names_of(number: int) -> tuple[str, str, str]:
    """Return environment, item and id of an episode."""
    environment = ("maze", "wordle", "textcraft")[number % 3]
    item_id = f"{environment}_{number}"
    episode_id = seeds.episode_id(
        _RUN, environment=environment, item_id=item_id, sample=0, policy="generated", attempt=1
    )
    return environment, item_id, episode_id


def build_episode(number: int) -> episode_pb2.Episode:
    """Return an episode of one to eight turns; every third one wins, every fiftieth fails."""
    environment, item_id, episode_id = names_of(number)
    episode = episode_pb2.Episode(
        schema_version=1,
        run_id=_RUN,
        episode_id=episode_id,
        environment=environment,
        item_id=item_id,
        attempt=1,
        policy="generated",
        category=f"size {number % 5}",
        started_unix_ms=1_700_000_000_000 + 20 * number,
        ended_unix_ms=1_700_000_001_000 + 20 * number + 137 * (number % 40),
        environment_seconds=0.2,
        policy_seconds=0.7,
    )
    episode.messages.add(role=episode_pb2.ROLE_USER, text="Find the goal, then open the chest.")
    for turn in range(2 + number % 8):
        observation = f"You see a wall, a door and chest {number % 17}. {turn} steps were made."
        step = episode.steps.add(seq=turn, observation=observation)
        if turn:
            reply = f"Thought: the door leads on to room {turn}.\nAction: move up"
            episode.messages.add(role=episode_pb2.ROLE_ASSISTANT, text=reply, sampled=True)
            episode.generations.add(turn=turn - 1, prompt_tokens=40 * turn, completion_tokens=18)
            step.input.reply, step.parsed_action = reply, "move up"
        episode.messages.add(role=episode_pb2.ROLE_USER, text=observation)
    if number % 50 == 0:
        episode.stop_reason = types_pb2.STOP_REASON_POLICY_ERROR
        episode.error.reason, episode.error.fault = "POLICY_UNAVAILABLE", types_pb2.FAULT_POLICY
    else:
        episode.stop_reason = types_pb2.STOP_REASON_GOAL_REACHED
        episode.score = episode.reward = float(number % 3 == 0)
        episode.success = number % 3 == 0
    return episode


def generated_manifest() -> Manifest:
    """Return the manifest of a run of generated episodes."""
    return Manifest(
        run_id=_RUN,
        created=utc_now(),
        environments=(EnvironmentIdentity(name="maze", version="1", digest="generated"),),
        policy="generated",
        run_seed=0,
    )


def record_run(folder: Path, count: int) -> None:
    """Write a run of generated episodes."""
    with RunStore.create(folder, generated_manifest(), begin_session()) as store:
        items: dict[str, list[str]] = {}
        for number in range(count):
            environment, item_id, _ = names_of(number)
            items.setdefault(environment, []).append(item_id)
        store.begin_playing(
            RunPlan(
                items={name: tuple(ids) for name, ids in items.items()},
                samples=1,
                policies=("generated",),
            )
        )
        for start in range(0, count, _BATCH):
            numbers = range(start, min(start + _BATCH, count))
            store.append_all([build_episode(number) for number in numbers])
        store.end_playing(SessionEnd(interrupted=False))


@contextmanager
def running_viewer(*folders: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start the viewer; gives its address with the token, and its process."""
    command = [sys.executable, "-m", "orchestrator.view", *map(str, folders), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), psutil.Process(process.pid)
        finally:
            process.terminate()


async def measure(page: Page, address: str, server: psutil.Process, count: int) -> dict[str, Any]:
    """Look at the run as a person does; gives seconds."""
    figures: dict[str, Any] = {}
    origin = address.partition("/?")[0]

    async def timed(name: str, act: Callable[[], Awaitable[Any]]) -> None:
        cpu, begun = sum(server.cpu_times()[:2]), time.perf_counter()
        await act()
        figures[f"{name}_seconds"] = round(time.perf_counter() - begun, 3)
        figures[f"{name}_server_cpu_seconds"] = round(sum(server.cpu_times()[:2]) - cpu, 3)

    async def first_page() -> None:
        await page.goto(f"{origin}/episodes?run={_RUN}")
        await page.get_by_text(f"{count:,} of {count:,} episodes").wait_for()
        await page.locator(".row .item a").first.wait_for()

    async def read_whole() -> None:
        await page.get_by_label("Outcome").wait_for()

    async def filtered() -> None:
        await page.get_by_label("Outcome").select_option("failed")
        await page.get_by_text(f"{-(-count // 50):,} of {count:,} episodes").wait_for()

    async def summary() -> None:
        await page.goto(f"{origin}/run?run={_RUN}")
        await page.get_by_role("heading", name="Results").wait_for()

    async def intervals() -> None:
        await page.get_by_role("heading", name="Over time").wait_for()

    # No run is open yet. The page of all runs would sum it up meanwhile, so it is not shown first.
    await page.goto(f"{origin}/assets/icon.svg?{address.partition('?')[2]}")
    await timed("first_page", first_page)
    await timed("first_page_filters", read_whole)
    await timed("filter", filtered)
    numbers = [number * count // _OPENED for number in range(_OPENED)]
    cuts = quantiles([await open_episode(page, origin, number) for number in numbers], n=20)
    figures["episode_p50_seconds"] = round(cuts[9], 3)
    figures["episode_p95_seconds"] = round(cuts[18], 3)
    await timed("run_page", summary)
    await timed("run_page_intervals", intervals)
    figures["server_rss_mib"] = round(server.memory_info().rss / 2**20, 1)
    return figures


async def open_episode(page: Page, origin: str, number: int) -> float:
    """Open an episode by its address; gives the seconds until its turns are there."""
    episode_id = names_of(number)[2]
    begun = time.perf_counter()
    await page.goto(f"{origin}/episode?{urlencode({'run': _RUN, 'id': episode_id})}")
    await page.locator(".turn").nth(1).wait_for()
    return time.perf_counter() - begun


async def look(address: str, server: psutil.Process, count: int) -> dict[str, Any]:
    """Start a browser and measure with it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(AUTO), chromium_sandbox=False
        )
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        figures = await measure(page, address, server, count)
        await browser.close()
    return figures


def main() -> None:
    """Run the benchmark."""
    options = tyro.cli(Options, prog="benchmark.viewer")
    manifest = read_manifest()
    with tempfile.TemporaryDirectory(prefix="viewer-benchmark-") as temporary:
        folder = Path(temporary) / _RUN
        record_run(folder, options.episodes)
        with running_viewer(folder) as (address, server):
            figures = asyncio.run(look(address, server, options.episodes))
    result = {"manifest": manifest.as_json(), "episodes": options.episodes, **figures}
    write_result(options.out, result)


if __name__ == "__main__":
    main()
