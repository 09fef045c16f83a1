"""The maze as a map, with the way that was walked: for people, agents see only the walls beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from env_servers.environments.maze.grid import FREE, Cell, Maze
from env_servers.sdk import View
from env_servers.toolkit.drawing import Drawing, text_view

__all__ = ["draw"]

_SIDE: Final = 24
_CAPTION: Final = 28


def draw(maze: Maze, walked: Sequence[Cell], steps: int) -> list[View]:
    """Draw a walk.

    Args:
        maze: Where it goes.
        walked: The cells in order, the start first and the present one last.
        steps: Actions so far, those that did not move included.
    """
    said = f"at {_named(walked[-1])}, goal {_named(maze.goal)}, steps {steps}"
    return [_map(maze, walked, said), text_view("text", "Map as text", _lines(maze, walked, said))]


def _named(cell: Cell) -> str:
    return f"{cell[0]}, {cell[1]}"


def _map(maze: Maze, walked: Sequence[Cell], said: str) -> View:
    width, height = len(maze.rows[0]) * _SIDE, len(maze.rows) * _SIDE
    drawing = Drawing(max(width, 260), height + _CAPTION)
    for row, cells in enumerate(maze.rows):
        for column, cell in enumerate(cells):
            if cell != FREE:
                drawing.rectangle(column * _SIDE, row * _SIDE, _SIDE, _SIDE, fill="var(--muted)")
    x, y = _middle(maze.start)
    drawing.circle(x, y, _SIDE * 0.3, stroke="var(--accent)")
    x, y = _middle(maze.goal)
    drawing.circle(x, y, _SIDE * 0.4, fill="var(--good)")
    drawing.text(x, y, "G", fill="var(--paper)", anchor="middle", bold=True)
    drawing.line([_middle(cell) for cell in walked], stroke="var(--accent)", width=3)
    x, y = _middle(walked[-1])
    drawing.circle(x, y, _SIDE * 0.3, fill="var(--bad)")
    drawing.text(4, height + _CAPTION / 2, said, size=12)
    return drawing.view("map", "Map and way")


def _middle(cell: Cell) -> tuple[float, float]:
    return (cell[1] + 0.5) * _SIDE, (cell[0] + 0.5) * _SIDE


def _lines(maze: Maze, walked: Sequence[Cell], said: str) -> str:
    signs = dict.fromkeys(walked, "·") | {maze.start: "S", maze.goal: "G", walked[-1]: "@"}
    rows = (
        "".join(
            signs.get((row, column), " " if cell == FREE else "#")
            for column, cell in enumerate(cells)
        )
        for row, cells in enumerate(maze.rows)
    )
    return "\n".join((*rows, said))
