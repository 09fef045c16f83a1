"""A maze as rows of cells: which cells are free, where a move leads, how far the goal is.

A `Maze` is closed (its border is wall) and its goal can be reached from its start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

__all__ = ["DIRECTIONS", "FREE", "WALL", "Cell", "Maze", "distances_from", "distances_to_goal"]

Cell = tuple[int, int]
"""(row, column), counted from 0 at the upper left."""

WALL: Final = "#"
FREE: Final = "."
DIRECTIONS: Final[Mapping[str, Cell]] = {
    "up": (-1, 0),
    "down": (1, 0),
    "left": (0, -1),
    "right": (0, 1),
}


@dataclass(frozen=True, slots=True)
class Maze:
    """One maze with its start and goal; immutable, so that episodes and forks share it."""

    rows: tuple[str, ...]
    """Equally long strings of `WALL` and `FREE`."""
    start: Cell
    goal: Cell

    def is_free(self, cell: Cell) -> bool:
        """Return whether one can stand on the cell; cells outside the grid are walls."""
        row, column = cell
        inside = 0 <= row < len(self.rows) and 0 <= column < len(self.rows[row])
        return inside and self.rows[row][column] == FREE

    def neighbour(self, cell: Cell, direction: str) -> Cell:
        """Return the cell that a move leads to: the same cell where a wall is in the way."""
        down, right = DIRECTIONS[direction]
        target = (cell[0] + down, cell[1] + right)
        return target if self.is_free(target) else cell

    def walls(self, cell: Cell) -> frozenset[str]:
        """Return the directions in which a wall is beside the cell."""
        return frozenset(name for name in DIRECTIONS if self.neighbour(cell, name) == cell)


def distances_from(rows: tuple[str, ...], origin: Cell) -> dict[Cell, int]:
    """Moves from the origin to every free cell that can be reached, in order of distance."""
    distances = {origin: 0}
    waiting = deque([origin])
    while waiting:
        row, column = cell = waiting.popleft()
        for down, right in DIRECTIONS.values():
            target = (row + down, column + right)
            if target not in distances and rows[target[0]][target[1]] == FREE:
                distances[target] = distances[cell] + 1
                waiting.append(target)
    return distances


@lru_cache(maxsize=256)
def distances_to_goal(maze: Maze) -> Mapping[Cell, int]:
    """Moves to the goal from every cell of a maze; kept, because an expert asks every turn."""
    return distances_from(maze.rows, maze.goal)
