"""What it costs that a run has shards: the same records in one store and in several, read.

    python -m benchmark.shards
    python -m benchmark.shards --episodes 100000 --out -

Each operation is made in turn on the run without shards and on those with, in one process, again
and again; a figure is the median of its CPU seconds. Ratios are to the run without shards.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import tyro

from agentgym.episode.v1 import episode_pb2
from benchmark.manifest import read_manifest, write_result
from benchmark.viewer import build_episode, generated_manifest
from orchestrator.manifest import begin_session
from orchestrator.records import episode_key
from orchestrator.store import RunReader, RunStore

_BATCH: Final = 5000
_LOOKED_UP: Final = 500


@dataclass(frozen=True, slots=True)
class Options:
    """Measure reading of runs with shards."""

    episodes: int = 10_000
    """Of each run, whatever it is divided into."""
    shards: tuple[int, ...] = (1, 4, 16)
    repeats: int = 7
    out: str = "benchmark/results/shards.json"
    """File for the figures; - = standard output."""


def record_run(folder: Path, episodes: int, shards: int) -> None:
    """Write a run whose records are in its own store (no shards), or divided among shards."""
    store = RunStore.create(folder, generated_manifest(), begin_session())
    with store:
        if not shards:
            _append(store, map(build_episode, range(episodes)))
        for number in range(shards):
            with RunStore.open_shard(folder, f"shard-{number:02}", begin_session()) as shard:
                _append(shard, map(build_episode, range(number, episodes, shards)))


def _append(store: RunStore, episodes: Iterable[episode_pb2.Episode]) -> None:
    batch: list[episode_pb2.Episode] = []
    for episode in episodes:
        batch.append(episode)
        if len(batch) == _BATCH:
            store.append_all(batch)
            batch = []
    store.append_all(batch)


def operations(episodes: int) -> dict[str, Callable[[RunReader], object]]:
    """Return what is measured, each with a reader of its own."""
    step = max(1, episodes // _LOOKED_UP)
    keys = [episode_key(build_episode(number)) for number in range(0, episodes, step)]
    return {
        "count": lambda run: run.count(),
        "finished keys": lambda run: run.finished_keys(),
        "columns of all": lambda run: sum(1 for _ in run.summaries()),
        "records of all": lambda run: sum(1 for _ in run.episodes()),
        f"{len(keys)} records by key": lambda run: [run.get(key) for key in keys],
        "anything new? (1,000 times)": lambda run: [run.version() for _ in range(1000)],
        "verify": lambda run: run.verify(),
    }


def measure(runs: dict[int, Path], options: Options) -> dict[str, dict[int, float]]:
    """Return the median CPU seconds of each operation by number of shards."""
    figures: dict[str, dict[int, float]] = {}
    for name, operate in operations(options.episodes).items():
        seconds: dict[int, list[float]] = {shards: [] for shards in runs}
        for _ in range(options.repeats):
            for shards, folder in runs.items():
                with RunReader.open(folder) as run:
                    begun = time.process_time()
                    operate(run)
                    seconds[shards].append(time.process_time() - begun)
        figures[name] = {shards: median(found) for shards, found in seconds.items()}
    return figures


def _opening(runs: dict[int, Path], repeats: int) -> dict[int, float]:
    seconds: dict[int, list[float]] = {shards: [] for shards in runs}
    for _ in range(10 * repeats):
        for shards, folder in runs.items():
            begun = time.process_time()
            RunReader.open(folder).close()
            seconds[shards].append(time.process_time() - begun)
    return {shards: median(found) for shards, found in seconds.items()}


def main(options: Options) -> None:
    """Measure, print a table, write the figures."""
    with tempfile.TemporaryDirectory(prefix="agentgym-shards-") as temporary:
        runs = {shards: Path(temporary) / f"run-{shards}" for shards in (0, *options.shards)}
        for shards, folder in runs.items():
            record_run(folder, options.episodes, shards)
        figures = {"open": _opening(runs, options.repeats), **measure(runs, options)}
    rows = {
        name: {
            "seconds": {str(shards): round(value, 6) for shards, value in found.items()},
            "ratios": {
                str(shards): round(value / found[0], 2) for shards, value in found.items() if shards
            },
        }
        for name, found in figures.items()
    }
    for name, row in rows.items():
        ratios = ", ".join(f"{shards} shards x {it}" for shards, it in row["ratios"].items())
        print(f"{name:30} {1e3 * row['seconds']['0']:9.3f} ms without shards; {ratios}")
    result: dict[str, Any] = {
        "benchmark": "shards",
        "manifest": asdict(read_manifest()),
        "episodes": options.episodes,
        "figures": rows,
    }
    write_result(options.out, result)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
