"""Seeded mazes of any size, in two families that share no layout.

The family of a layout is read off the layout itself (a digest that is the same for all its
rotations and reflections), so a maze that one family can make the other never makes, whatever the
seeds: disjoint by construction. Every maze is solvable: the start is drawn among the cells that are
at most `LONGEST_PATH` moves from the goal.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from enum import Enum
from typing import Final

from env_servers.environments.maze.grid import DIRECTIONS, FREE, WALL, Cell, Maze, distances_from

__all__ = [
    "LARGEST_SIDE",
    "LONGEST_PATH",
    "SHORTEST_PATH",
    "SMALLEST_SIDE",
    "Family",
    "Shape",
    "generate",
    "layout_family",
]

SMALLEST_SIDE: Final = 7
"""Smaller grids have too few layouts to be shared between two families."""
LARGEST_SIDE: Final = 31
"""Larger grids would take longer to make than a reset on the event loop may last."""
SHORTEST_PATH: Final = 4
LONGEST_PATH: Final = 14
"""Below the 15 rounds of an evaluation, so that every maze can be won within them."""
_EVAL_SHARE: Final = 8
"""One layout in this many belongs to the evaluation family."""
_PATIENT_ATTEMPTS: Final = 64


class Family(Enum):
    """Which mazes a split is made of."""

    TRAIN = "train"
    """Seven of eight layouts."""
    EVAL = "eval"
    """The eighth."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Size and kind of a generated maze."""

    rows: int
    """Odd, walls included."""
    columns: int
    braid: float = 0.0
    """Share of dead ends that are opened: 0 is a perfect maze, with one way between two cells."""

    def __post_init__(self) -> None:
        for side in (self.rows, self.columns):
            if side % 2 == 0 or not SMALLEST_SIDE <= side <= LARGEST_SIDE:
                raise ValueError(f"sides are odd, {SMALLEST_SIDE} to {LARGEST_SIDE}, not {side}")
        if not 0.0 <= self.braid <= 1.0:
            raise ValueError(f"braid is a share from 0 to 1, not {self.braid}")


def generate(shape: Shape, family: Family, seed: int) -> Maze:
    """Return the maze of a seed; a pure function of its arguments.

    A small, fully braided shape may have no layout in a family: after `_PATIENT_ATTEMPTS` the
    braid shrinks towards a perfect maze, of which both families have some in every size.
    """
    rng = random.Random(seed)
    braid, attempts = shape.braid, 1
    rows = _carve(shape, braid, rng)
    while layout_family(rows) is not family:
        if attempts >= _PATIENT_ATTEMPTS:
            braid *= 0.9
        attempts += 1
        rows = _carve(shape, braid, rng)
    start, goal = _place(rows, rng)
    return Maze(rows, start, goal)


def layout_family(rows: tuple[str, ...]) -> Family:
    """Return the family that a layout belongs to, whichever way it is turned or mirrored."""
    digest = hashlib.blake2b("\n".join(_canonical(rows)).encode(), digest_size=4).digest()
    return Family.EVAL if int.from_bytes(digest) % _EVAL_SHARE == 0 else Family.TRAIN


def _canonical(rows: tuple[str, ...]) -> tuple[str, ...]:
    """Return the smallest of the eight rotations and reflections."""
    turned = tuple("".join(column) for column in zip(*rows, strict=True))
    variants: list[tuple[str, ...]] = []
    for grid in (rows, turned):
        mirrored = tuple(row[::-1] for row in grid)
        variants += [grid, grid[::-1], mirrored, mirrored[::-1]]
    return min(variants)


def _carve(shape: Shape, braid: float, rng: random.Random) -> tuple[str, ...]:
    """Return a layout: a random spanning tree over the odd cells, then some dead ends opened."""
    grid = [[WALL] * shape.columns for _ in range(shape.rows)]
    rooms = [(r, c) for r in range(1, shape.rows, 2) for c in range(1, shape.columns, 2)]
    first = rooms[rng.randrange(len(rooms))]
    grid[first[0]][first[1]] = FREE
    path = [first]
    while path:
        row, column = path[-1]
        closed = [room for room in _rooms_beside(grid, path[-1]) if grid[room[0]][room[1]] == WALL]
        if not closed:
            path.pop()
            continue
        target = closed[rng.randrange(len(closed))]
        grid[target[0]][target[1]] = FREE
        grid[(row + target[0]) // 2][(column + target[1]) // 2] = FREE
        path.append(target)
    for room in rooms:
        _braid(grid, room, braid, rng)
    return tuple("".join(row) for row in grid)


def _braid(grid: list[list[str]], room: Cell, share: float, rng: random.Random) -> None:
    """Open a dead end towards another room, with the given probability."""
    row, column = room
    walls = [
        beside
        for beside in _rooms_beside(grid, room)
        if grid[(row + beside[0]) // 2][(column + beside[1]) // 2] == WALL
    ]
    ways = sum(grid[row + down][column + right] == FREE for down, right in DIRECTIONS.values())
    if ways == 1 and walls and rng.random() < share:
        beside = walls[rng.randrange(len(walls))]
        grid[(row + beside[0]) // 2][(column + beside[1]) // 2] = FREE


def _rooms_beside(grid: list[list[str]], room: Cell) -> list[Cell]:
    """Return the rooms two cells away in the four directions, inside the border."""
    targets = [(room[0] + 2 * down, room[1] + 2 * right) for down, right in DIRECTIONS.values()]
    return [(r, c) for r, c in targets if 0 < r < len(grid) and 0 < c < len(grid[0])]


def _place(rows: tuple[str, ...], rng: random.Random) -> tuple[Cell, Cell]:
    """Start and goal. The length of the way is drawn first, so that all lengths are as likely.

    A start has at least one wall beside it: an agent can always make a move that does nothing.
    """
    rooms = [(r, c) for r in range(1, len(rows), 2) for c in range(1, len(rows[0]), 2)]
    goal = rooms[rng.randrange(len(rooms))]
    by_length: dict[int, list[Cell]] = {}
    for cell, length in distances_from(rows, goal).items():
        beside = (rows[cell[0] + down][cell[1] + right] for down, right in DIRECTIONS.values())
        if SHORTEST_PATH <= length <= LONGEST_PATH and WALL in beside:
            by_length.setdefault(length, []).append(cell)
    lengths = sorted(by_length)
    starts = sorted(by_length[lengths[rng.randrange(len(lengths))]])
    return starts[rng.randrange(len(starts))], goal
