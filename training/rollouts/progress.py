"""A policy while it learns: evaluated on develop tasks every so often, the best of it kept.

What everything is chosen by are the tasks that `environments.*.validate` sets apart, never those of
a final evaluation. An evaluation is a stage of the run, recorded once: a training that goes on from
an earlier state finds it again, and chooses as it would have chosen.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.episode.v1 import episode_pb2
from orchestrator.atomic_file import write_atomically
from orchestrator.training_folder import Metric, metrics_from_plain, validation_stage
from training.rollouts.on_policy import Rollouts
from training.runs.run_dir import RunDir

__all__ = [
    "Checkpoints",
    "ProgressConfig",
    "Validation",
    "write_table",
]

_CHECKPOINT: Final = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressConfig:
    """What is measured and kept on the way, every so many steps; 0 = never."""

    validate_every: int = 0
    """Play the tasks of `environments.*.validate` greedily, and keep a checkpoint."""
    checkpoint_every: int = 0
    """Write a Hugging Face folder to `checkpoints/step-N`."""
    keep_checkpoints: int = 2
    """How many of the newest ones are kept; the best of those that were validated is kept too."""
    choose: Literal["last", "validation"] = "last"
    """Which weights become `final`: the last ones, or the best that were validated (the earliest of
    equals)."""
    table_every: int = 0
    """Write some of the step's episodes, with rewards and advantages, to `tables/step-N.jsonl`."""
    table_tasks: int = 4
    """Tasks in it, each with all of its episodes."""

    def __post_init__(self) -> None:
        if min(self.validate_every, self.checkpoint_every, self.table_every) < 0:
            raise ValueError("numbers of steps are at least 0")
        if self.keep_checkpoints < 1 or self.table_tasks < 1:
            raise ValueError("keep_checkpoints and table_tasks are at least 1")
        if self.choose == "validation" and not self.validate_every:
            raise ValueError('choose = "validation" needs validate_every')

    def validates(self, step: int) -> bool:
        """Tell whether the weights after a number of steps are evaluated."""
        return _is_due(step, self.validate_every)

    def keeps(self, step: int) -> bool:
        """Tell whether they become a checkpoint."""
        return self.validates(step) or _is_due(step, self.checkpoint_every)

    def tabulates(self, step: int) -> bool:
        """Tell whether episodes of the step before are written down."""
        return _is_due(step, self.table_every)


def _is_due(step: int, every: int) -> bool:
    return bool(every) and step % every == 0


class Validation:
    """Evaluations on develop tasks, by the number of steps that the weights have made."""

    def __init__(self, run_dir: RunDir, tasks: Mapping[str, Sequence[str]]) -> None:
        """Name the run and the tasks, by environment."""
        self._run_dir = run_dir
        self._tasks = {name: items for name, items in tasks.items() if items}
        self._results: dict[int, Mapping[str, Metric]] = {}

    async def evaluate(self, rollouts: Rollouts, step: int) -> dict[str, float]:
        """Evaluate the weights of the moment, or find what was recorded of this step.

        Returns:
            `validate/ENVIRONMENT` and `validate/mean`, from 0 to 1.
        """
        stage = validation_stage(step)
        if stage not in self._run_dir.finished:
            folder = self._run_dir.folder / "evaluation" / stage
            played = await rollouts.evaluate(folder, step, self._tasks)
            plain = {name: metric.to_plain() for name, metric in played.items()}
            self._run_dir.stage(stage, lambda: plain)
        return _figures(self.metrics(step))

    def metrics(self, step: int) -> Mapping[str, Metric]:
        """Return the metrics by environment; empty = the step was not evaluated."""
        if step not in self._results:
            plain = self._run_dir.result(validation_stage(step))
            self._results[step] = metrics_from_plain(plain or {})
        return self._results[step]

    def best(self, steps: Sequence[int]) -> int | None:
        """Return the step whose mean over environments is highest; None = none was evaluated."""
        means = {it: _figures(self.metrics(it)).get("validate/mean") for it in sorted(steps)}
        known = {step: mean for step, mean in means.items() if mean is not None}
        return max(known, default=None, key=lambda step: known[step])


def _figures(metrics: Mapping[str, Metric]) -> dict[str, float]:
    means = {name: metric.mean for name, metric in metrics.items()}
    found = {f"validate/{name}": mean for name, mean in means.items() if mean is not None}
    if found:
        # An environment without a result has earned nothing.
        found["validate/mean"] = math.fsum(found.values()) / len(means)
    return found


class Checkpoints:
    """Folders `step-N` of weights on the way."""

    def __init__(self, folder: Path, config: ProgressConfig) -> None:
        self._folder = folder
        self._config = config

    def path(self, step: int) -> Path:
        """Return the folder of the weights after a number of steps."""
        return self._folder / f"step-{step:06d}"

    def prune(self, last: int, best: int | None) -> None:
        """Remove all but the newest ones up to step `last`, and the best.

        Later ones are of a process that was cut off; they come again.
        """
        there = [int(match[1]) for match in map(_CHECKPOINT.fullmatch, self._names()) if match]
        newest = sorted(it for it in there if it <= last)[-self._config.keep_checkpoints :]
        for step in there:
            if step not in newest and step != best:
                shutil.rmtree(self.path(step))

    def _names(self) -> list[str]:
        return [it.name for it in self._folder.iterdir()] if self._folder.is_dir() else []


def write_table(
    path: Path,
    episodes: Sequence[episode_pb2.Episode],
    rewards: Sequence[float],
    advantages: Sequence[NDArray[np.float32]],
    *,
    tasks: int,
) -> None:
    """Write the episodes of the first tasks of a step, an object a line.

    Args:
        path: The file, written whole or not at all.
        episodes: All of a step.
        rewards: Of each.
        advantages: Of each, of its turns.
        tasks: How many tasks are written, each with all of its episodes.
    """
    order = dict.fromkeys((it.environment, it.item_id) for it in episodes)
    chosen = frozenset(list(order)[:tasks])
    rows = [
        _row(episode, reward, of_turns)
        for episode, reward, of_turns in zip(episodes, rewards, advantages, strict=True)
        if (episode.environment, episode.item_id) in chosen
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _row(
    episode: episode_pb2.Episode, reward: float, advantages: NDArray[np.float32]
) -> dict[str, Any]:
    return {
        "environment": episode.environment,
        "item_id": episode.item_id,
        "sample": episode.sample,
        "run_id": episode.run_id,
        "episode_id": episode.episode_id,
        "reward": reward,
        "advantages": advantages.tolist(),
        "turns": len(episode.generations),
        "reply_tokens": sum(call.completion_tokens for call in episode.generations),
        "truncated": episode.truncated,
        "messages": [
            {"role": _ROLES[message.role], "text": message.text, "sampled": message.sampled}
            for message in episode.messages
        ],
    }


_ROLES: Final[Mapping[int, str]] = {
    episode_pb2.ROLE_SYSTEM: "system",
    episode_pb2.ROLE_USER: "user",
    episode_pb2.ROLE_ASSISTANT: "assistant",
}
