"""`python -m benchmark.whole_path.compare`: the same episodes by other harnesses' own loops.

TextCraft's train tasks with the expert's replies, which were worked out before: by a server and
`orchestrator.sample`, and by each loop of `benchmark.whole_path.loops`. Each plays few and many
episodes of the same tasks; what an episode and a step cost is the difference of all CPU that its
processes took, and the rate that of the larger run. Rewards must be equal everywhere. A harness
that this Python does not have is played by another: `--pythons inspect .venv-adapters/bin/python`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from benchmark.manifest import read_manifest, write_result
from benchmark.whole_path.__main__ import ROOT, middle, play
from benchmark.whole_path.loops.script import NAME, Play, Script
from benchmark.whole_path.replies import write_replies
from orchestrator.store import RunReader
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving_in_thread, text_of

__all__ = ["HARNESSES", "Comparison", "Cost", "Played", "answers", "main", "play_loop", "play_ours"]

OURS: Final = "orchestrator.sample"
HARNESSES: Final = ("agentgym", "inspect", "verifiers")
"""Loops of others, by the names of their modules."""
_QUICK: Final = Behaviour(quickest=0, slowest=0)
RESULT: Final = ROOT / "benchmark" / "results" / "whole_path_loops.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Compare harnesses."""

    items: int = 40
    """Tasks."""
    samples: int = 10
    """Episodes of each in the larger run of a harness; ours plays ten times as many."""
    concurrency: int = 256
    """Episodes that are live at once, where a harness plays several."""
    rounds: int = 3
    """Of all harnesses in turns; medians count."""
    pythons: dict[str, str] = field(default_factory=dict[str, str])
    """By harness, the Python that has it; this one for those that are not named."""
    out: str = str(RESULT)
    """File for the result; - = standard output."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a harness."""

    episodes: int
    steps: int
    seconds: float
    """From its first reset to its last step or record."""
    cpu: float
    """Seconds of all of its processes, from start to end."""
    rewards: Mapping[str, frozenset[float]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What two runs of a harness say."""

    episodes: int
    episodes_per_second: float
    steps_per_second: float
    cpu_us_per_episode: float
    cpu_us_per_step: float

    @classmethod
    def between(cls, few: Played, many: Played) -> Cost:
        """Return what the episodes cost by which a run is larger."""
        cpu = (many.cpu - few.cpu) * 1e6
        return cls(
            many.episodes,
            round(many.episodes / many.seconds, 1),
            round(many.steps / many.seconds, 1),
            round(cpu / (many.episodes - few.episodes), 1),
            round(cpu / (many.steps - few.steps), 1),
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; prints the table and writes the result."""
    config = tyro.cli(Comparison, args=argv, prog="python -m benchmark.whole_path.compare")
    manifest = read_manifest()
    with TemporaryDirectory() as folder:
        replies = Path(folder) / "replies.json"
        items = write_replies(NAME, config.items, replies)
        with serving_in_thread(FakeOpenAI(_QUICK, reply=answers(replies))) as url:
            rounds = _alternate(config, items, replies, url)
    costs = {
        name: middle(found, lambda it: it.cpu_us_per_episode) for name, found in rounds.items()
    }
    _print(costs)
    result = {
        "manifest": manifest.as_json(),
        "busy machine": manifest.busy,
        "environment": NAME,
        "loops": {name: asdict(cost) for name, cost in costs.items()},
    }
    write_result(config.out, result)
    return 0


def _alternate(
    config: Comparison, items: Sequence[str], replies: Path, url: str
) -> dict[str, list[Cost]]:
    """Return what each harness's episodes cost, by rounds."""
    rounds: dict[str, list[Cost]] = {name: [] for name in (OURS, *HARNESSES)}
    for _ in range(config.rounds):
        expected: Mapping[str, frozenset[float]] | None = None
        for name, costs in rounds.items():
            with TemporaryDirectory() as folder:
                few, many = _pair(name, config, items, replies, url, Path(folder))
            expected = expected or many.rewards
            if many.rewards != expected:
                raise RuntimeError(f"{name} gave other rewards than {OURS}")
            costs.append(Cost.between(few, many))
    return rounds


def _pair(
    name: str, config: Comparison, items: Sequence[str], replies: Path, url: str, folder: Path
) -> tuple[Played, Played]:
    """Return a small run of a harness and a large one."""
    if name == OURS:
        few = play_ours(items, replies, 1, folder, config.concurrency)
        return few, play_ours(items, replies, 10 * config.samples, folder, config.concurrency)
    python = config.pythons.get(name, sys.executable)
    few = play_loop(name, python, replies, 1, folder, url)
    return few, play_loop(name, python, replies, config.samples, folder, url)


def answers(file: Path) -> Callable[[dict[str, Any]], str]:
    """Return what is replied to a request that begins one of the conversations."""
    script = Script(file)
    items: dict[str, str] = {}
    for item_id in script.replies:
        play = Play(script, item_id)
        items[play.text] = item_id
        play.close()
    if len(items) != len(script.replies):
        raise RuntimeError("two tasks begin alike")

    def answer(body: dict[str, Any]) -> str:
        texts = [text_of(message) for message in body["messages"]]
        return script.next_reply(items[texts[2]], (len(texts) - 3) // 2)

    return answer


def play_ours(
    items: Sequence[str], replies: Path, samples: int, folder: Path, concurrency: int
) -> Played:
    """Play every item so many times on a server, everything recorded."""
    done = play(ROOT, NAME, items, replies, samples, folder, concurrency)
    rewards: dict[str, list[float]] = {}
    with RunReader.open(folder / f"run-{samples}") as reader:
        for episode in reader.episodes():
            rewards.setdefault(episode.item_id, []).append(episode.score)
    cpu = sum(done.cpu.values())
    return Played(done.episodes, done.steps, done.seconds, cpu, _distinct(rewards))


def play_loop(
    name: str, python: str, replies: Path, samples: int, folder: Path, url: str = ""
) -> Played:
    """Play every item so many times by another's loop; raises RuntimeError where it fails.

    Args:
        name: One of `HARNESSES`.
        python: The Python that has it.
        replies: File of the replies.
        samples: Episodes of each item.
        folder: For what the loop leaves.
        url: Of a model that says the replies, for verifiers.
    """
    own = folder / f"{name}-{samples}"
    own.mkdir()
    module = f"benchmark.whole_path.loops.{name}_loop"
    words = ["--replies", str(replies), "--samples", str(samples), "--folder", str(own)]
    words += ["--url", url]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "gen")))}
    log = own / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, "-m", module, *words], env=variables, stdout=output, stderr=output
        )
        # With the CPU of its children, which it waits for.
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{name}'s loop failed: {log.read_text()[-2000:]}")
    outcome = json.loads((own / "outcome.json").read_text())
    cpu = usage.ru_utime + usage.ru_stime
    rewards = _distinct(outcome["rewards"])
    return Played(outcome["episodes"], outcome["steps"], outcome["seconds"], cpu, rewards)


def _distinct(rewards: Mapping[str, Sequence[float]]) -> dict[str, frozenset[float]]:
    return {item_id: frozenset(found) for item_id, found in rewards.items()}


def _print(costs: Mapping[str, Cost]) -> None:
    table = Table("", "episodes/s", "steps/s", "CPU µs an episode", "a step", title=NAME)
    for name, it in costs.items():
        figures = (it.episodes_per_second, it.steps_per_second)
        figures += (it.cpu_us_per_episode, it.cpu_us_per_step)
        table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
