"""SciWorld's tasks: which simulator task and variation an item id stands for.

Contains item ids, splits, both of AgentGym's id maps, and the pool that a process's episodes share.
Nothing here starts Java.

Embedded splits divide all 7,207 variations of all 30 tasks as the simulator does. Official ids run
through the variations of the tasks that AgentGym uses, in order of their codes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from env_servers.environments.sciworld.facts import TASKS
from env_servers.environments.sciworld.java import AUTO, find_java
from env_servers.environments.sciworld.simulator import Assignment
from env_servers.environments.sciworld.simulator_pool import SimulatorPool, default_heap
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    StaticTaskSet,
    Task,
)

__all__ = ["ID_MAPS", "SciWorldTasks", "load_tasks", "official_order"]

_NEVER: Final = frozenset({"5-1", "5-2", "9-1", "9-2", "9-3", "10-1", "10-2"})
"""Tasks that AgentGym leaves out: their solutions are too long."""

ID_MAPS: Final[Mapping[str, frozenset[str]]] = {
    "4339": _NEVER | {"2-3"},
    "4639": _NEVER,
}
"""Excluded tasks by map: `4339` is that of AgentTraj-L and AgentEval, `4639` that of AgentGym's
present code, in which every id from 1096 on means another task."""

_BASES: Final = {
    "train": EMBEDDED_BASE,
    "dev": EMBEDDED_BASE + 250_000,
    "eval": EMBEDDED_BASE + 500_000,
}
_SETTINGS: Final = ("java", "heap_mib", "ids")
_EVAL_LIST: Final = ("agenteval/sciworld_test.json", "sciworld_test.json")
"""Where AgentEval's item ids may lie in the data folder."""


class SciWorldTasks(StaticTaskSet):
    """All tasks, and the pool that plays them."""

    def __init__(self, splits: Mapping[str, Iterable[Task]], pool: SimulatorPool) -> None:
        super().__init__(splits)
        self.pool = pool
        """Starts Java at the first reset."""

    def digest(self) -> bytes:
        text = repr([(split, self.item_ids(split, 0, 10**6)) for split in self.splits()])
        return hashlib.blake2b(text.encode(), digest_size=8).digest()

    def close(self) -> None:
        self.pool.close()


def load_tasks(config: EnvironmentConfig) -> SciWorldTasks:
    """All splits. Raises EnvironmentUnavailable where there is no Java, and InvalidOption."""
    settings = _settings(config.settings)
    ids = settings.get("ids", "4339")
    if ids not in ID_MAPS:
        raise InvalidOption(f"setting sciworld.ids is {ids!r:.100}", valid=ID_MAPS)
    pool = SimulatorPool(find_java(settings.get("java", AUTO)), _heap(settings))
    return SciWorldTasks(_embedded() | _official(ids, config.data_dir), pool)


def official_order(ids: str) -> list[Assignment]:
    """Return the assignment of every official integer under an id map."""
    excluded = ID_MAPS[ids]
    return [
        Assignment(task.name, variation)
        for task in TASKS
        if task.code not in excluded
        for variation in range(task.variations)
    ]


def _embedded() -> dict[str, list[Task]]:
    return {split: _embedded_split(split, base) for split, base in _BASES.items()}


def _embedded_split(split: str, base: int) -> list[Task]:
    """Tasks are mixed evenly, so that any stretch of ids is a fair sample of all thirty."""
    ranked: list[tuple[float, int, Assignment]] = []
    for order, task in enumerate(TASKS):
        variations = {"train": task.train, "dev": task.dev, "eval": task.test}[split]
        ranked += [
            ((rank + 0.5) / len(variations), order, Assignment(task.name, variation))
            for rank, variation in enumerate(variations)
        ]
    return [_task(base + n, assignment) for n, (_, _, assignment) in enumerate(sorted(ranked))]


def _official(ids: str, data_dir: Path | None) -> dict[str, list[Task]]:
    tasks = [_task(index, assignment) for index, assignment in enumerate(official_order(ids))]
    held_out = _eval_ids(data_dir) if data_dir is not None else None
    if held_out is None:
        return {"official": tasks}
    present = [item_id for item_id in held_out if item_id in {task.item_id for task in tasks}]
    by_id = {task.item_id: task for task in tasks}
    return {
        "official_train": [task for task in tasks if task.item_id not in set(present)],
        "official_eval": [by_id[item_id] for item_id in present],
    }


def _eval_ids(data_dir: Path) -> list[str] | None:
    """AgentEval's item ids in their order; None where the list is not there."""
    for name in _EVAL_LIST:
        path = data_dir / name
        if path.is_file():
            try:
                rows = json.loads(path.read_text(encoding="utf-8"))
                return [str(row["item_id"]) for row in rows]
            except (ValueError, KeyError, TypeError) as error:
                raise EnvironmentUnavailable(
                    f"{path} is no list of AgentEval items; remove it or fetch it again "
                    "(sciworld_test.json of the dataset AgentGym/AgentEval)"
                ) from error
    return None


def _task(index: int, assignment: Assignment) -> Task:
    return Task(f"sciworld_{index}", assignment, assignment.task)


def _settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of sciworld, without that prefix."""
    own_settings = {
        key[9:]: str(value) for key, value in settings.items() if key.startswith("sciworld.")
    }
    for name in own_settings:
        if name not in _SETTINGS:
            raise InvalidOption(f"unknown setting sciworld.{name:.100}", valid=_SETTINGS)
    return own_settings


def _heap(settings: Mapping[str, str]) -> int:
    text = settings.get("heap_mib")
    if text is None:
        return default_heap()
    if not text.isascii() or not text.isdigit() or not 128 <= int(text[:9]) <= 1_000_000:
        raise InvalidOption(
            f"setting sciworld.heap_mib is {text!r:.100}", valid="MiB, at least 128"
        )
    return int(text)
