"""`python -m benchmark.environments.alfworld`: what an ALFWorld step costs.

Plays a thousand episodes at once with the native engine in this process, each in another game,
official ones where data is given. Then plays a few of them by the same commands with TextWorld,
where that is installed (extra `alfworld-reference`), and compares: both engines' times include the
list of admissible commands, as TextWorld always makes it. An answer on which the engines disagree
ends the benchmark.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from benchmark.manifest import PACKAGES, read_manifest
from env_servers.environments.alfworld import Alfworld
from env_servers.environments.alfworld.play import NativePlay, Play
from env_servers.environments.alfworld.reference import ReferencePlay, check_installed
from env_servers.environments.alfworld.tasks import AlfworldTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions
from env_servers.sdk.extras import install_command

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
STEPS: Final = 20
"""Random commands of an episode."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure ALFWorld's engines."""

    data: Path | None = None
    """Root of official data; without it the generated games are played."""
    episodes: int = 1000
    """Episodes at once."""
    games: int = 6
    """Games that are played with both engines."""
    save: bool = True
    """Write benchmark/results/environments/alfworld.json."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of calls of one sort."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def timed(times: list[float], call: Callable[[], T]) -> T:
    """Return the call's result; its duration in milliseconds is appended."""
    start = time.perf_counter()
    result = call()
    times.append(1e3 * (time.perf_counter() - start))
    return result


def summary(times: Sequence[float]) -> Times:
    """Median, 95th and 99th percentile."""
    cuts = statistics.quantiles(times, n=100)
    return Times(len(times), *(round(cuts[n - 1], 3) for n in (50, 95, 99)))


def chosen_items(tasks: AlfworldTasks, count: int) -> list[str]:
    """Official items first, then embedded ones: every one another game."""
    official = [name for name in tasks.splits() if name.startswith("official_")]
    item_ids = [item for split in (*official, "train") for item in tasks.item_ids(split, 0, count)]
    return item_ids[:count]


def crowd(tasks: AlfworldTasks, items: Sequence[str]) -> tuple[dict[str, Times], float]:
    """Play many episodes at once, stepped in turns; return times, and KiB of an episode."""
    gc.collect()
    before = psutil.Process().memory_info().rss
    resets: list[float] = []
    steps: list[float] = []
    episodes = [Alfworld(tasks) for _ in items]
    for episode, item in zip(episodes, items, strict=True):
        task, options = tasks.get(item), ResetOptions(options={"step_limit": 0})
        timed(resets, lambda e=episode, t=task, o=options: e.reset(t, o))
    rng = random.Random(0)
    for _ in range(STEPS):
        for episode in episodes:
            action = episode.advise_random(rng).action
            timed(steps, lambda e=episode, a=action: e.step(a))
    gc.collect()
    each = (psutil.Process().memory_info().rss - before) / len(episodes)
    times = {"reset, with reading the game": summary(resets), "step": summary(steps)}
    return times, round(each / 1024, 1)


def duel(tasks: AlfworldTasks, items: Sequence[str]) -> dict[str, Times]:
    """The same commands with both engines; raises RuntimeError where their answers differ."""
    native: list[float] = []
    reference: list[float] = []
    for item in items:
        source = tasks.get(item).payload
        game = tasks.game(source)
        other = ReferencePlay(game, tasks.game_file(source))
        engines: tuple[Play, Play] = (NativePlay(game), other)
        rng = random.Random(0)
        for _ in range(STEPS):
            command = rng.choice(engines[0].admissible())
            answers = [
                timed(times, lambda e=engine, c=command: (e.act(c), e.admissible()))
                for engine, times in zip(engines, (native, reference), strict=True)
            ]
            if answers[0] != answers[1]:
                raise RuntimeError(f"the engines disagree on {command!r} in {item}")
        other.close()
    return {"native": summary(native), "textworld": summary(reference)}


def compared(tasks: AlfworldTasks, items: Sequence[str], games: int) -> dict[str, Times] | None:
    """Both engines' times on some of the games; None where TextWorld is not installed."""
    try:
        check_installed()
    except EnvironmentUnavailable:
        return None
    return duel(tasks, items[:: max(1, len(items) // games)][:games])


def _print(times: dict[str, Times], kib: float, engines: dict[str, Times] | None) -> None:
    console = Console()
    table = Table("call", "count", "p50 ms", "p95 ms", "p99 ms")
    for name, row in {**times, **(engines or {})}.items():
        table.add_row(name, f"{row.count:,}", str(row.p50_ms), str(row.p95_ms), str(row.p99_ms))
    console.print(table)
    console.print(f"KiB an episode, each in another game: {kib}", highlight=False)
    if engines is None:
        hint = f"TextWorld is not installed: {install_command('alfworld-reference')}"
        console.print(hint, markup=False)
    else:
        factor = engines["textworld"].p50_ms / engines["native"].p50_ms
        console.print(f"native is {factor:.0f} times as fast as TextWorld", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the figures and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.alfworld")
    tasks = Alfworld.load_tasks(EnvironmentConfig(config.data))
    items = chosen_items(tasks, config.episodes)
    times, kib = crowd(tasks, items)
    engines = compared(tasks, items, config.games)
    _print(times, kib, engines)
    if config.save:
        RESULTS.mkdir(parents=True, exist_ok=True)
        result = {
            "manifest": read_manifest((*PACKAGES, "textworld", "alfworld")).as_json(),
            "games": "official, then generated" if config.data else "generated",
            "episodes": len(items),
            "kib_per_episode": kib,
            "native": {name: asdict(row) for name, row in times.items()},
            "same_commands": {name: asdict(row) for name, row in (engines or {}).items()},
        }
        (RESULTS / "alfworld.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
