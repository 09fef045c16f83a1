"""TODOList's tasks: item ids, splits, and the backends that they play on.

Official ids are AgentGym's 0..154; AgentEval's list says which of them are held out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from env_servers.environments.todo.generator import KINDS, make_task_spec, task_kind
from env_servers.environments.todo.official import as_tool_task, read_official
from env_servers.environments.todo.sessions import EmbeddedTodo, RecordedTodo, get_task_spec
from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    RangeSplit,
    Task,
    UnknownItem,
    item_index,
)
from env_servers.toolkit.tool_calls import (
    AUTO,
    EMBEDDED,
    EVAL_BASE,
    LIVE,
    RECORDED,
    Backend,
    Recording,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    official_splits,
)

__all__ = ["EVAL_SIZE", "NAME", "SETTINGS", "TRAIN_SIZE", "load_tasks"]

NAME: Final = "todo"
TRAIN_SIZE: Final = 64 * len(KINDS)
EVAL_SIZE: Final = 8 * len(KINDS)
SETTINGS: Final = ("backend", "base_url", "allow_destructive", "timeout", "calls_per_minute")
_HELD_OUT: Final = Path("agenteval", "tool_todo_test.json")
_VERSION: Final = "1"
_CACHED: Final = 256
"""Generated tasks that are kept: groups of episodes play the same one."""


class TodoTasks(ToolTaskSet):
    """All tasks."""

    def category(self, item_id: str) -> str:
        """Return the kind, which follows from a generated task's index: no account is drawn."""
        try:
            index = item_index(item_id, names=(NAME,))
        except UnknownItem:
            return super().category(item_id)
        for start, size in ((EMBEDDED_BASE, TRAIN_SIZE), (EVAL_BASE, EVAL_SIZE)):
            if start <= index < start + size:
                return task_kind(index - start)
        return super().category(item_id)


def load_tasks(config: EnvironmentConfig) -> ToolTaskSet:
    """Generated tasks, and the official ones where `tools/todo.jsonl` is in `data_dir`."""
    settings = ToolSettings.read(config, NAME, SETTINGS)
    recording = Recording.read(config.data_dir, NAME) if config.data_dir is not None else None
    official = read_official(config.data_dir, recording) if config.data_dir is not None else None
    backends: dict[str, Backend] = {EMBEDDED: EmbeddedTodo(recording)}
    if recording is not None:
        backends[RECORDED] = RecordedTodo(recording)
    if settings.backend == LIVE:
        from env_servers.environments.todo.live import LiveTodo

        backends[LIVE] = LiveTodo.of(settings)
    chosen = EMBEDDED if settings.backend == AUTO else settings.backend
    splits = {
        "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _train_task),
        "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _eval_task),
    }
    held_out = held_out_ids(config.data_dir, _HELD_OUT)
    return TodoTasks(
        NAME,
        splits,
        official_splits(NAME, official, held_out, category=_category),
        backends,
        chosen=chosen,
        version=_VERSION,
    )


def held_out_ids(data_dir: Path | None, name: Path) -> frozenset[int]:
    """Return the indexes of AgentEval's list; none where the file is not there."""
    path = data_dir / name if data_dir is not None else None
    if path is None or not path.is_file():
        return frozenset()
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return frozenset(int(entry["item_id"].rpartition("_")[2]) for entry in entries)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error!r}") from error


def _category(task: ToolTask) -> str:
    return get_task_spec(task).kind


def _train_task(index: int) -> Task:
    return _task(index, index - EMBEDDED_BASE, held_out=False)


def _eval_task(index: int) -> Task:
    return _task(index, index - EVAL_BASE, held_out=True)


@lru_cache(maxsize=_CACHED)
def _task(index: int, number: int, *, held_out: bool) -> Task:
    spec = replace(make_task_spec(number, held_out=held_out), seed=index)
    return Task(f"{NAME}_{index}", as_tool_task(spec, index), spec.kind)
