"""What an ALFWorld step costs: the native engine, and TextWorld where it is installed.

    python -m benchmark.alfworld_engines [--data FOLDER] [--episodes 1000] [--games 6]

Plays `--episodes` episodes at once with the native engine in this process, official ones where
data is given, and prints the time of a reset and of a step and the memory that an episode takes.
Then it plays `--games` of them with TextWorld, by the same commands, and prints both engines' time
for a step, what comes with it (the list of admissible commands) included, as TextWorld always makes
it.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from env_servers.alfworld import Alfworld
from env_servers.alfworld.play import NativePlay, Play
from env_servers.alfworld.reference import ReferencePlay, check_installed
from env_servers.alfworld.tasks import AlfworldTasks
from env_servers.sdk import EnvironmentConfig, EnvironmentUnavailable, ResetOptions

T = TypeVar("T")
STEPS = 20
"""Random commands of an episode."""


def timed(times: list[float], call: Callable[[], T]) -> T:
    """The call's result; its duration in microseconds is appended."""
    start = time.perf_counter()
    result = call()
    times.append(1e6 * (time.perf_counter() - start))
    return result


def show(label: str, times: Sequence[float]) -> None:
    """One line: median, 95th and 99th percentile."""
    cuts = statistics.quantiles(times, n=100)
    print(f"{label:<34} p50 {cuts[49]:9.0f} us   p95 {cuts[94]:9.0f} us   p99 {cuts[98]:9.0f} us")


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def chosen_items(tasks: AlfworldTasks, count: int) -> list[str]:
    """Official items first, then embedded ones: every one another game."""
    official = [name for name in tasks.splits() if name.startswith("official_")]
    found = [item for split in (*official, "train") for item in tasks.item_ids(split, 0, count)]
    return found[:count]


def crowd(tasks: AlfworldTasks, items: Sequence[str]) -> None:
    """Many episodes at once, stepped in turns."""
    gc.collect()
    before = resident()
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
    each = (resident() - before) / len(episodes)
    print(f"{len(episodes)} episodes at once, each another game: {each / 1024:.0f} KiB an episode")
    show("reset, with reading the game", resets)
    show("step", steps)


def duel(tasks: AlfworldTasks, items: Sequence[str]) -> None:
    """The same commands with both engines."""
    native: list[float] = []
    reference: list[float] = []
    for item in items:
        source = tasks.get(item).payload
        game = tasks.game(source)
        engines: tuple[Play, Play] = (
            NativePlay(game),
            ReferencePlay(game, tasks.game_file(source)),
        )
        rng = random.Random(0)
        for _ in range(STEPS):
            command = rng.choice(engines[0].admissible())
            answers = [
                timed(times, lambda e=engine, c=command: (e.act(c), e.admissible()))
                for engine, times in zip(engines, (native, reference), strict=True)
            ]
            if answers[0] != answers[1]:
                raise SystemExit(f"the engines disagree on {command!r} in {item}")
        engines[1].close()
    show("native, with admissible commands", native)
    show("textworld", reference)
    factor = statistics.median(reference) / statistics.median(native)
    print(f"native is {factor:.0f} times as fast")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=None, help="root of official data")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--games", type=int, default=6)
    asked = parser.parse_args()
    tasks = Alfworld.load_tasks(EnvironmentConfig(asked.data))
    items = chosen_items(tasks, asked.episodes)
    crowd(tasks, items)
    try:
        check_installed()
    except EnvironmentUnavailable as error:
        print(error)
        return
    duel(tasks, items[:: max(1, len(items) // asked.games)][: asked.games])


if __name__ == "__main__":
    main()
