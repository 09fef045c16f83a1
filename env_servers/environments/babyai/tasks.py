"""Item ids of BabyAI: which level and which seed an integer stands for.

Contains the splits. An id stands for level `1 + id % 40` and seed `id // 40`, official and embedded
ids alike, so the two share no (level, seed) and neither do the splits. Small levels have so few
rooms that seeds repeat them: `repeats.txt` lists those that the embedded splits leave out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from env_servers.environments.babyai.levels import LEVELS
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
    item_index,
)

__all__ = [
    "EVAL",
    "EVAL_SEEDS",
    "OFFICIAL_TRAIN",
    "REPEATS",
    "TRAIN",
    "BabyaiTasks",
    "Start",
    "load",
]

NAME: Final = "babyai"
OFFICIAL_TRAIN: Final = range(900)
"""Every official evaluation id is above these."""
TRAIN: Final = range(EMBEDDED_BASE, EMBEDDED_BASE + 500 * len(LEVELS))
"""Ids of the embedded train split, and of those that it leaves out."""
EVAL: Final = range(2 * EMBEDDED_BASE, 2 * EMBEDDED_BASE + 100 * len(LEVELS))
"""Ids from which the embedded eval split takes the first of each level that are not left out."""
EVAL_SEEDS: Final = 10
"""Eval items of a level."""
REPEATS: Final = Path(__file__).with_name("repeats.txt")
EVALUATION_FILE: Final = Path("agenteval") / "babyai_test.json"


class Start(NamedTuple):
    """Payload of a task: where an episode begins."""

    level: int
    """1..40"""
    seed: int


class BabyaiTasks(TaskSet):
    """Official and embedded splits; any official id can be played, listed or not."""

    def __init__(self, official_eval: Sequence[int] = ()) -> None:
        """`official_eval` are the integers of AgentEval's ids, in the file's order."""
        listed = frozenset(official_eval)
        self._splits: dict[str, Sequence[int]] = _embedded_splits()
        self._splits["official_train"] = [i for i in OFFICIAL_TRAIN if i not in listed]
        if official_eval:
            self._splits["official_eval"] = tuple(official_eval)

    def splits(self) -> Mapping[str, int]:
        return {name: len(indexes) for name, indexes in self._splits.items()}

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._splits:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._splits)
        return [f"{NAME}_{index}" for index in self._splits[split][start:stop]]

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(NAME,))
        if not (index < EMBEDDED_BASE or index in TRAIN or index in EVAL):
            spans = (
                f"0..{EMBEDDED_BASE - 1}",
                *(f"{s.start}..{s.stop - 1}" for s in (TRAIN, EVAL)),
            )
            raise UnknownItem(f"unknown item {item_id[:100]!r}", valid=spans)
        seed, level = divmod(index, len(LEVELS))
        return Task(f"{NAME}_{index}", Start(level + 1, seed), LEVELS[level])

    def digest(self) -> bytes:
        text = repr((LEVELS, sorted(self._splits.items())))
        return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _embedded_splits() -> dict[str, Sequence[int]]:
    left_out: set[int] = set()
    for line in REPEATS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            _, level, *seeds = line.split(" ")
            left_out.update(int(seed) * len(LEVELS) + int(level) - 1 for seed in seeds)
    levels = [EVAL[number :: len(LEVELS)] for number in range(len(LEVELS))]
    chosen = [[index for index in level if index not in left_out][:EVAL_SEEDS] for level in levels]
    return {
        "train": [index for index in TRAIN if index not in left_out],
        "eval": sorted(index for level in chosen for index in level),
    }


def load(config: EnvironmentConfig) -> BabyaiTasks:
    """Return all splits; `official_eval` only where AgentEval's list is in the data folder."""
    if config.data_dir is None:
        return BabyaiTasks()
    path = config.data_dir / EVALUATION_FILE
    if not path.exists():
        return BabyaiTasks()
    try:
        listed: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return BabyaiTasks([item_index(entry["item_id"], names=(NAME,)) for entry in listed])
    except (ValueError, TypeError, KeyError, UnknownItem) as error:
        raise EnvironmentUnavailable(f"{path} is not a list of BabyAI item ids") from error
