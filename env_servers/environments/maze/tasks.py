"""Which mazes there are, and under which item ids.

Contains the official maze with its 25 starts and the index ranges of the generated ones. An item id
always means the same maze; train and eval never share a layout (see `generator`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from env_servers.environments.maze.generator import Family, Shape, generate
from env_servers.environments.maze.grid import FREE, WALL, Cell, Maze
from env_servers.sdk import EMBEDDED_BASE, RangeSplit, RangeTaskSet, Task, UnknownItem, item_index

__all__ = [
    "EVAL_BASE",
    "EVAL_SIZE",
    "OFFICIAL_PREFIX",
    "OFFICIAL_STARTS",
    "TRAIN_SIZE",
    "MazeTasks",
    "official_maze",
]

OFFICIAL_PREFIX: Final = "lmrlgym_maze"
TRAIN_SIZE: Final = 2_000
EVAL_SIZE: Final = 200
EVAL_BASE: Final = 2 * EMBEDDED_BASE
_EMBEDDED_END: Final = 3 * EMBEDDED_BASE
_SIDES: Final = (7, 9, 11, 13, 15)
_BRAIDS: Final = (0.0, 0.5)
_KEPT: Final = 4096
"""Mazes that are kept, 2 KiB each: more than all listed ones. Making one takes 30 times as long as
the rest of a reset, and groups of episodes play the same one."""

_OFFICIAL_FREE: Final = (
    "",
    "1-5 7-11",
    *("3-3 9-9",) * 3,
    "3-9",
    *("6-6",) * 3,
    "",
)
"""Free columns of each row of LMRL-Gym's `double_t_maze`, 13 columns wide."""
_OFFICIAL_GOAL: Final[Cell] = (8, 6)
OFFICIAL_STARTS: Final[tuple[Cell, ...]] = (
    *((1, column) for column in range(1, 6)),
    *((1, column) for column in range(7, 12)),
    *((2, 3), (3, 3), (4, 3), (5, 3), (5, 4), (5, 5), (5, 6), (6, 6), (7, 6)),
    *((5, 7), (5, 8), (5, 9), (4, 9), (3, 9), (2, 9)),
    _OFFICIAL_GOAL,
)
"""Start by official index. The last one is the goal itself: no task, but AgentTraj-L has it."""


_generated = lru_cache(maxsize=_KEPT)(generate)


def official_maze(index: int) -> Maze:
    """Return the official maze with the start of an index in [0, 26)."""
    return Maze(_OFFICIAL_ROWS, OFFICIAL_STARTS[index], _OFFICIAL_GOAL)


def _official_rows() -> tuple[str, ...]:
    rows: list[str] = []
    for spans in _OFFICIAL_FREE:
        cells = [WALL] * 13
        for span in spans.split():
            first, last = (int(column) for column in span.split("-"))
            cells[first : last + 1] = FREE * (last + 1 - first)
        rows.append("".join(cells))
    return tuple(rows)


_OFFICIAL_ROWS: Final = _official_rows()


class MazeTasks(RangeTaskSet):
    """The official starts and two families of generated mazes.

    The listed splits are finite; `get` makes any generated maze below index 3,000,000.
    """

    def __init__(self) -> None:
        super().__init__(
            "maze",
            {
                "train": RangeSplit(EMBEDDED_BASE, TRAIN_SIZE, self._embedded),
                "eval": RangeSplit(EVAL_BASE, EVAL_SIZE, self._embedded),
                "official_eval": RangeSplit(0, len(OFFICIAL_STARTS) - 1, self._official),
            },
            prefixes={"official_eval": OFFICIAL_PREFIX},
        )

    def get(self, item_id: str) -> Task:
        index = item_index(item_id, names=(OFFICIAL_PREFIX, "maze"))
        if index < len(OFFICIAL_STARTS):
            return self._official(index)
        if EMBEDDED_BASE <= index < _EMBEDDED_END:
            return self._embedded(index)
        valid = f"0..{len(OFFICIAL_STARTS) - 2} or {EMBEDDED_BASE}..{_EMBEDDED_END - 1}"
        raise UnknownItem(f"unknown item {item_id!r}", valid=valid)

    def category(self, item_id: str) -> str:
        index = item_index(item_id, names=(OFFICIAL_PREFIX, "maze"))
        return "double_t" if index < EMBEDDED_BASE else _category(_shape_at(index))

    def resized(self, task: Task, shape: Shape) -> Maze:
        """Return the generated maze of a task's seed and family in another shape."""
        index = item_index(task.item_id, names=("maze",))
        return _generated(shape, _family_at(index), index)

    def shape(self, task: Task) -> Shape:
        """Return the shape of a generated task; raises UnknownItem for an official one."""
        return _shape_at(item_index(task.item_id, names=("maze",)))

    def _official(self, index: int) -> Task:
        return Task(f"{OFFICIAL_PREFIX}_{index}", official_maze(index), "double_t")

    def _embedded(self, index: int) -> Task:
        shape = _shape_at(index)
        maze = _generated(shape, _family_at(index), index)
        return Task(f"maze_{index}", maze, _category(shape))


def _family_at(index: int) -> Family:
    return Family.EVAL if index >= EVAL_BASE else Family.TRAIN


def _shape_at(index: int) -> Shape:
    """Return the shape of an index: all fifty take turns, perfect and braided alternating."""
    rest, kind = divmod(index, len(_BRAIDS))
    rest, row = divmod(rest, len(_SIDES))
    return Shape(_SIDES[row], _SIDES[rest % len(_SIDES)], _BRAIDS[kind])


def _category(shape: Shape) -> str:
    kind = "braided" if shape.braid else "perfect"
    return f"{kind}_{shape.rows}x{shape.columns}"
