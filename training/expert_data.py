"""`python -m training.expert_data`: our AgentTraj, by the environments' own experts.

Plays the expert on train tasks through the orchestrator and keeps the episodes that the
environment's own reward confirms. Owns the sizes of the base and the large set (the paper's) and
the confirmation. Invariant: what is counted as an expert episode scored above its environment's
threshold; the others are counted in the report, never kept.

A size counts confirmed episodes: where the expert fails, further tasks are played, and where a
split has fewer tasks than the set has episodes, each is played several times, worded differently.

    python -m training.expert_data --env textcraft --size base --out data/expert

Each environment becomes a run folder (`<out>/<environment>`, for `data.sources` of a recipe;
further tasks are in `<environment>-2` and so on) and a file of confirmed conversations in
AgentTraj's layout (`<out>/<environment>.json`).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import tyro
from rich.console import Console
from rich.table import Table

from orchestrator.atomic_file import write_atomically
from orchestrator.command_line import make_console, run_command
from orchestrator.configuration import parse_names
from orchestrator.errors import UsageError
from orchestrator.fleet import FleetConfig
from orchestrator.formats.agenttraj import to_conversation
from orchestrator.store import RunReader
from training.data.selection import Selection, score_threshold, select
from training.rollouts.jobs import (
    EvalRun,
    RolloutConfig,
    RolloutJob,
    RolloutPolicy,
    list_tasks,
    play,
)
from training.rollouts.tasks import EnvironmentTasks, shuffled_by_hash

__all__ = ["PAPER_SIZES", "ExpertData", "confirmed_episodes", "main"]

PAPER_SIZES: Final[Mapping[str, tuple[int, int]]] = {
    "webshop": (1000, 3930),
    "alfworld": (500, 2420),
    "textcraft": (300, 374),
    "sciworld": (1000, 2120),
    "babyai": (400, 810),
    "maze": (100, 215),
    "wordle": (500, 955),
    "weather": (160, 311),
    "movie": (100, 215),
    "todo": (70, 135),
    "bird": (2000, 3000),
}
"""Episodes of AgentTraj and of AgentTraj-L. Source: the paper's table of environments."""
_MAX_ROUNDS: Final[Mapping[str, int]] = {"sciworld": 60}
"""Where an environment's own bound on replies ends too many of the expert's episodes: of SciWorld's
tasks it solves 35 of 60 within 30 replies and 54 within 100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertData:
    """Build a set of confirmed expert episodes."""

    env: str
    """Environments, separated by commas; `paper` = all those of the paper's table."""
    size: Literal["base", "large"] = "base"
    """The paper's AgentTraj or AgentTraj-L; environments that it does not have get 500 or 2000."""
    episodes: int = 0
    """Confirmed episodes per environment in place of the paper's number."""
    split: str = "train"
    """Split whose tasks are played."""
    samples: int = 1
    """Episodes per task, at least; they differ in the wording of thoughts."""
    max_rounds: int = 0
    """Replies per episode; 0 = the environment's number, 60 for SciWorld, whose tasks are long."""
    seed: int = 0
    """Decides the wording of thoughts."""
    out: Path = Path("data/expert")
    """Folder that gets one run and one file per environment."""
    concurrency: int = 64
    fleet: tyro.conf.OmitArgPrefixes[FleetConfig] = field(default_factory=FleetConfig)


def confirmed_episodes(
    played: EvalRun, *, threshold: float | None = None, samples: int = 1
) -> Selection:
    """Which episodes of an expert's run the environment's own reward confirms."""
    with RunReader.open(played.folder) as reader:
        return select(
            reader.summaries(),
            threshold=score_threshold(played.environment, threshold),
            repeats="all" if samples > 1 else "first",
        )


def _build(wanted: ExpertData) -> int:
    console = make_console()
    names = list(PAPER_SIZES) if wanted.env == "paper" else parse_names(wanted.env)
    if not names:
        raise UsageError("--env names no environment", valid=sorted(PAPER_SIZES))
    if wanted.samples < 1 or min(wanted.episodes, wanted.max_rounds) < 0:
        raise UsageError("--samples is at least 1, --episodes and --max-rounds at least 0")
    rollout = RolloutConfig(concurrency=wanted.concurrency, fleet=wanted.fleet)
    table = Table(
        *("environment", "wanted", "played", "confirmed", "refused", "rounds"), title="expert data"
    )
    for name in names:
        _build_one(wanted, rollout, name, table, console)
    console.print(table)
    return 0


def _build_one(
    wanted: ExpertData, rollout: RolloutConfig, name: str, table: Table, console: Console
) -> None:
    tasks = EnvironmentTasks(
        name=name,
        train=wanted.split,
        evaluation=wanted.split,
        max_rounds=wanted.max_rounds or _MAX_ROUNDS.get(name, 0),
    )
    ids, _ = list_tasks(rollout, [tasks])[name]
    size = wanted.episodes or PAPER_SIZES.get(name, (500, 2000))[wanted.size == "large"]
    left, samples = shuffled_by_hash(ids), max(wanted.samples, -(-size // max(1, len(ids))))
    agent = RolloutPolicy(policy="expert", samples=samples, seed=wanted.seed)
    parts: list[tuple[EvalRun, Selection]] = []
    kept = 0
    while kept < size and left:
        count = _next_tasks(size - kept, samples, [selection for _, selection in parts])
        items, left = left[:count], left[count:]
        folder = wanted.out / (f"{name}-{len(parts) + 1}" if parts else name)
        (played,) = play(rollout, agent, [RolloutJob(tasks, items, folder)], console=console)
        parts.append((played, confirmed_episodes(played, samples=samples)))
        kept += len(parts[-1][1].kept)
    rounds = _export(parts, size, wanted.out / f"{name}.json")
    episodes = sum(it.episodes + it.failed for _, it in parts)
    refused = episodes - sum(it.confirmed for _, it in parts)
    shown = (size, episodes, min(kept, size), refused)
    table.add_row(name, *(str(it) for it in shown), f"{rounds:.1f}")
    if kept < size:
        console.print(f"{name}: all {len(ids)} tasks of {wanted.split} give {kept} episodes")


def _next_tasks(missing: int, samples: int, before: Sequence[Selection]) -> int:
    """How many tasks to play for so many confirmed episodes, by the share confirmed so far."""
    episodes = sum(it.episodes + it.failed for it in before)
    share = sum(it.confirmed for it in before) / episodes if episodes else 1.0
    return max(1, math.ceil(missing / samples / max(share, 0.05)))


def _export(parts: Sequence[tuple[EvalRun, Selection]], size: int, path: Path) -> float:
    """Write `size` confirmed conversations in AgentTraj's layout; returns their mean rounds."""
    entries: list[dict[str, Any]] = []
    rounds = 0
    for played, selection in parts:
        wanted = selection.kept[: size - len(entries)]
        order = {kept.episode_id: number for number, kept in enumerate(wanted)}
        found: list[tuple[int, dict[str, Any]]] = []
        with RunReader.open(played.folder) as reader:
            for episode in reader.episodes(lambda it, order=order: it.episode_id in order):
                rounds += len(episode.steps) - 1
                found.append((order[episode.episode_id], to_conversation(episode)))
        entries += [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
    write_atomically(path, json.dumps(entries, ensure_ascii=False, indent=1) + "\n")
    return rounds / len(entries) if entries else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(ExpertData, _build, argv, program="python -m training.expert_data")


if __name__ == "__main__":
    sys.exit(main())
