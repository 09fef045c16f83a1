"""`python -m training.expert_data`: our AgentTraj, by the environments' own experts.

Plays the expert on train tasks through the orchestrator and takes the episodes that scored above
their environment's threshold; the others are counted in the report. Sizes are the paper's.

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
from functools import partial
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
from orchestrator.records import EpisodeSummary
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
    run: EvalRun, *, threshold: float | None = None, samples: int = 1
) -> Selection:
    """Return which episodes of an expert's run the environment's own reward confirms."""
    with RunReader.open(run.folder) as reader:
        return select(
            reader.summaries(),
            threshold=score_threshold(run.environment, threshold),
            repeats="all" if samples > 1 else "first",
        )


def _build(options: ExpertData) -> int:
    console = make_console()
    names = list(PAPER_SIZES) if options.env == "paper" else parse_names(options.env)
    if not names:
        raise UsageError("--env names no environment", valid=sorted(PAPER_SIZES))
    if options.samples < 1 or min(options.episodes, options.max_rounds) < 0:
        raise UsageError("--samples is at least 1, --episodes and --max-rounds at least 0")
    rollout = RolloutConfig(concurrency=options.concurrency, fleet=options.fleet)
    table = Table(
        *("environment", "wanted", "played", "confirmed", "refused", "rounds"), title="expert data"
    )
    for name in names:
        _build_environment(options, rollout, name, table, console)
    console.print(table)
    return 0


def _build_environment(
    options: ExpertData, rollout: RolloutConfig, name: str, table: Table, console: Console
) -> None:
    """Play the expert until enough episodes are confirmed, and export them."""
    tasks = EnvironmentTasks(
        name=name,
        train=options.split,
        evaluation=options.split,
        max_rounds=options.max_rounds or _MAX_ROUNDS.get(name, 0),
    )
    ids, _ = list_tasks(rollout, [tasks])[name]
    size = options.episodes or PAPER_SIZES.get(name, (500, 2000))[options.size == "large"]
    unplayed, samples = shuffled_by_hash(ids), max(options.samples, -(-size // max(1, len(ids))))
    policy = RolloutPolicy(policy="expert", samples=samples, seed=options.seed)
    runs: list[tuple[EvalRun, Selection]] = []
    confirmed = 0
    while confirmed < size and unplayed:
        count = _next_tasks(size - confirmed, samples, [selection for _, selection in runs])
        items, unplayed = unplayed[:count], unplayed[count:]
        folder = options.out / (f"{name}-{len(runs) + 1}" if runs else name)
        (run,) = play(rollout, policy, [RolloutJob(tasks, items, folder)], console=console)
        selection = confirmed_episodes(run, samples=samples)
        runs.append((run, selection))
        confirmed += len(selection.selected)
    rounds = _export(runs, size, options.out / f"{name}.json")
    played = sum(selection.episodes + selection.failed for _, selection in runs)
    refused = played - sum(selection.confirmed for _, selection in runs)
    numbers = (size, played, min(confirmed, size), refused)
    table.add_row(name, *(str(number) for number in numbers), f"{rounds:.1f}")
    if confirmed < size:
        console.print(f"{name}: all {len(ids)} tasks of {options.split} give {confirmed} episodes")


def _next_tasks(missing: int, samples: int, before: Sequence[Selection]) -> int:
    """Return how many tasks to play for the missing episodes, by the share confirmed so far."""
    episodes = sum(selection.episodes + selection.failed for selection in before)
    share = sum(selection.confirmed for selection in before) / episodes if episodes else 1.0
    return max(1, math.ceil(missing / samples / max(share, 0.05)))


def _export(runs: Sequence[tuple[EvalRun, Selection]], size: int, path: Path) -> float:
    """Write `size` confirmed conversations in AgentTraj's layout; returns their mean rounds."""
    entries: list[dict[str, Any]] = []
    rounds = 0
    for run, selection in runs:
        selected = selection.selected[: size - len(entries)]
        order = {episode.episode_id: number for number, episode in enumerate(selected)}
        conversations: list[tuple[int, dict[str, Any]]] = []
        with RunReader.open(run.folder) as reader:
            for episode in reader.episodes(partial(_is_selected, order)):
                rounds += len(episode.steps) - 1
                conversations.append((order[episode.episode_id], to_conversation(episode)))
        entries += [entry for _, entry in sorted(conversations, key=lambda pair: pair[0])]
    write_atomically(path, json.dumps(entries, ensure_ascii=False, indent=1) + "\n")
    return rounds / len(entries) if entries else 0.0


def _is_selected(order: Mapping[str, int], summary: EpisodeSummary) -> bool:
    return summary.episode_id in order


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(ExpertData, _build, argv, program="python -m training.expert_data")


if __name__ == "__main__":
    sys.exit(main())
