"""Sheet's tasks: item ids, splits, and the backends that they play on.

Official ids are AgentEval's `tool_sheet_0` to `tool_sheet_19`; all of them are held out, because no
conversations were published.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from env_servers.environments.sheet.assignments import as_tool_task
from env_servers.environments.sheet.generator import KINDS, make_assignment, task_kind
from env_servers.environments.sheet.official import read_official
from env_servers.environments.sheet.sessions import EmbeddedSheet, get_assignment
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
    EMBEDDED,
    EVAL_BASE,
    LIVE,
    Backend,
    ToolSettings,
    ToolTask,
    ToolTaskSet,
    official_splits,
)

__all__ = ["EVAL_SIZE", "NAME", "OFFICIAL_PREFIX", "SETTINGS", "TRAIN_SIZE", "load_tasks"]

NAME: Final = "sheet"
OFFICIAL_PREFIX: Final = "tool_sheet"
TRAIN_SIZE: Final = 60 * len(KINDS)
EVAL_SIZE: Final = 6 * len(KINDS)
SETTINGS: Final = ("backend", "workbook", "base_url", "timeout", "calls_per_minute")
_VERSION: Final = "1"
_CACHED: Final = 256
"""Generated tasks that are kept: groups of episodes play the same one."""


class SheetTasks(ToolTaskSet):
    """All tasks; official ids have a prefix of their own."""

    def get(self, item_id: str) -> Task:
        try:
            index = item_index(item_id, names=(NAME, OFFICIAL_PREFIX))
        except UnknownItem:
            return super().get(item_id)
        if index < EMBEDDED_BASE:
            task = self._official_tasks.get(f"{OFFICIAL_PREFIX}_{index}")
            return task if task is not None else super().get(f"{NAME}_{index}")
        return super().get(f"{NAME}_{index}")

    def category(self, item_id: str) -> str:
        """Return the kind, which follows from a generated task's index: no table is drawn."""
        try:
            index = item_index(item_id, names=(NAME,))
        except UnknownItem:
            return super().category(item_id)
        for start, size in ((EMBEDDED_BASE, TRAIN_SIZE), (EVAL_BASE, EVAL_SIZE)):
            if start <= index < start + size:
                return task_kind(index - start)
        return super().category(item_id)


def load_tasks(config: EnvironmentConfig) -> ToolTaskSet:
    """Generated tasks, and the official ones where their file and workbook are in `data_dir`.

    The setting `sheet.workbook` names another reference workbook.
    """
    settings = ToolSettings.read(config, NAME, SETTINGS)
    workbook = settings.text("workbook", "")
    if workbook and not Path(workbook).is_file():
        raise EnvironmentUnavailable(f"setting sheet.workbook names {workbook}, which is no file")
    official = (
        read_official(config.data_dir, Path(workbook) if workbook else None)
        if config.data_dir is not None
        else None
    )
    backends: dict[str, Backend] = {EMBEDDED: EmbeddedSheet()}
    if settings.backend == LIVE:
        from env_servers.environments.sheet.live import LiveSheet

        backends[LIVE] = LiveSheet.of(settings)
    splits = {
        "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, _train_task),
        "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, _eval_task),
    }
    held_out = [task.index for task in official or ()]
    return SheetTasks(
        NAME,
        splits,
        official_splits(OFFICIAL_PREFIX, official, held_out, category=_category),
        backends,
        chosen=settings.backend,
        version=_VERSION,
    )


def _category(task: ToolTask) -> str:
    return get_assignment(task).kind


def _train_task(index: int) -> Task:
    return _task(index, index - EMBEDDED_BASE, held_out=False)


def _eval_task(index: int) -> Task:
    return _task(index, index - EVAL_BASE, held_out=True)


@lru_cache(maxsize=_CACHED)
def _task(index: int, number: int, *, held_out: bool) -> Task:
    assignment = make_assignment(number, held_out=held_out)
    return Task(f"{NAME}_{index}", as_tool_task(assignment, index), assignment.kind)
