"""`python -m benchmark.whole_path`: recorded episodes a second, and where their CPU goes.

For each environment one server and one `orchestrator.sample`, two processes, play the replies of
the expert, or of random, which were worked out before (`replies`), from the reset to the durable
record. Each environment is played with few and with many episodes of the same tasks: the difference
is what an episode costs, without starting and ending. Both processes say themselves which part of
the program their CPU went to (`split`). With `--against FOLDER`, another checkout, both alternate.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.manifest import read_manifest
from benchmark.whole_path.replies import Player, write_replies
from orchestrator.store import RunReader

__all__ = ["ROOT", "Benchmark", "Run", "main", "middle", "play"]

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[2]
RESULT: Final = ROOT / "benchmark" / "results" / "whole_path.json"
_ENVIRONMENTS: Final = "echo,wordle,textcraft,maze,babyai,alfworld,todo"
_PLAYER, _SERVER = "player", "server"
_READY_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure the whole path."""

    env: str = _ENVIRONMENTS
    """Environments, separated by commas."""
    items: int = 50
    """Tasks; each is played by several episodes."""
    episodes: int = 2000
    """Episodes of the larger run; the smaller one has an episode of each task."""
    concurrency: int = 256
    """Episodes that are live at once."""
    player: Player = "expert"
    """Whose replies are played: the expert's episodes are short, those of random are as long as
    those of a model that does not get there."""
    rounds: int = 1
    """Pairs of runs; medians count."""
    against: Path | None = None
    """Another checkout, measured in turns with this one."""
    save: Path | None = RESULT
    """File of the result; `None` writes nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a server and a player."""

    episodes: int
    steps: int
    seconds: float
    """From the first reset to the last record, by the clock."""
    cpu: Mapping[str, float]
    """Seconds by "process: part"."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the table and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.whole_path")
    manifest = read_manifest()
    trees = {"now": ROOT} | ({"before": config.against.resolve()} if config.against else {})
    figures: dict[str, dict[str, Any]] = {}
    for name in config.env.split(","):
        rounds: dict[str, list[dict[str, Any]]] = {tree: [] for tree in trees}
        for _ in range(config.rounds):
            for tree, folder in trees.items():
                rounds[tree].append(_measure(folder, name, config))
        figures[name] = {
            tree: middle(found, lambda it: it["cpu_us_per_episode"])
            for tree, found in rounds.items()
        }
        _print({name: figures[name]})
    if config.save is not None:
        said = {"manifest": manifest.as_json(), "busy machine": manifest.busy}
        result = said | {"player": config.player, "environments": figures}
        config.save.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _measure(tree: Path, name: str, config: Benchmark) -> dict[str, Any]:
    """Return what a step and an episode cost, by the difference of two runs."""
    with TemporaryDirectory() as folder:
        replies = Path(folder) / "replies.json"
        items = write_replies(name, config.items, replies, config.player)
        samples = max(2, config.episodes // len(items))
        few = play(tree, name, items, replies, 1, Path(folder), config.concurrency)
        many = play(tree, name, items, replies, samples, Path(folder), config.concurrency)
    episodes, steps = many.episodes - few.episodes, many.steps - few.steps
    cpu = Counter(many.cpu)
    cpu.subtract(few.cpu)
    total = sum(cpu.values())
    return {
        "episodes": many.episodes,
        "steps": many.steps,
        "seconds": round(many.seconds, 2),
        "steps_per_second": round(many.steps / many.seconds, 1),
        "episodes_per_second": round(many.episodes / many.seconds, 1),
        "cpu_us_per_step": round(total / steps * 1e6, 1),
        "cpu_us_per_episode": round(total / episodes * 1e6, 1),
        "parts_us_per_episode": {
            part: round(seconds / episodes * 1e6, 1) for part, seconds in sorted(cpu.items())
        },
    }


def middle(rounds: Sequence[T], cost: Callable[[T], float]) -> T:
    """Return the round whose cost is the median; of two, the lesser."""
    return sorted(rounds, key=cost)[(len(rounds) - 1) // 2]


def play(
    tree: Path,
    name: str,
    items: Sequence[str],
    replies: Path,
    samples: int,
    folder: Path,
    concurrency: int,
) -> Run:
    """Play every item so many times by replies in a file, into `folder/run-SAMPLES`.

    Raises RuntimeError where a process fails.
    """
    address, run = f"unix:{folder}/s{samples}", folder / f"run-{samples}"
    split = str(Path(__file__).with_name("split.py"))
    # Of the tree everything but the policy: an older one may have none.
    path = os.pathsep.join((str(tree), str(tree / "gen"), str(Path(__file__).parent)))
    variables = os.environ | {"PYTHONPATH": path}

    def spawn(process: str, module: str, *words: str) -> subprocess.Popen[bytes]:
        file = str(folder / f"{process}-{samples}.json")
        command = [sys.executable, "-P", split, file, module, *words]
        output = (folder / f"{process}-{samples}.log").open("wb")
        return subprocess.Popen(command, env=variables, cwd=folder, stdout=output, stderr=output)

    ready = folder / f"ready-{samples}"
    serving = ("serve", name, "--bind", address, "--address-file", str(ready), "--drain", "0")
    server = spawn(_SERVER, "env_servers", *serving, "--log-level", "error")
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while not ready.exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / f"{_SERVER}-{samples}.log").read_text()[-2000:])
            time.sleep(0.05)
        policy = f"replies:policy:{replies}"
        words = ("--env", name, "--split", "train", "--items", ",".join(items), "--episodes", "0")
        words += ("--samples", str(samples), "--policy", policy, "--servers", address)
        words += ("--concurrency", str(concurrency), "--out", str(run))
        player = spawn(_PLAYER, "orchestrator.sample", *words)
        if player.wait() != 0:
            raise RuntimeError((folder / f"{_PLAYER}-{samples}.log").read_text()[-2000:])
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    return _read(run, folder, samples)


def _read(run: Path, folder: Path, samples: int) -> Run:
    """Return what a run recorded, and what its processes say of themselves."""
    steps, begins, ends = 0, list[float](), list[float]()
    with RunReader.open(run) as reader:
        for episode in reader.episodes():
            steps += len(episode.steps) - 1  # the first is the reset
            begins.append(episode.started_unix_ms / 1000)
            ends.append(episode.ended_unix_ms / 1000)
    cpu: dict[str, float] = {}
    for process in (_PLAYER, _SERVER):
        parts = json.loads((folder / f"{process}-{samples}.json").read_text())
        cpu |= {f"{process}: {part}": seconds for part, seconds in parts.items()}
    return Run(len(begins), steps, max(ends) - min(begins), cpu)


def _print(figures: Mapping[str, Mapping[str, Any]]) -> None:
    for name, trees in figures.items():
        table = Table("", *trees, title=name)
        keys = [key for key, value in trees["now"].items() if not isinstance(value, dict)]
        for key in keys:
            table.add_row(key, *(f"{it[key]:,}" for it in trees.values()))
        for part in trees["now"]["parts_us_per_episode"]:
            cells = (it["parts_us_per_episode"].get(part, 0.0) for it in trees.values())
            table.add_row(f"{part}, µs an episode", *(f"{cell:,.0f}" for cell in cells))
        Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
