"""A level drawn: whole for people, with what the agent sees brightened; what it sees for agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from minigrid.core.constants import COLORS

from env_servers.environments.babyai.levels import Level
from env_servers.environments.babyai.view import AHEAD, SIDE, SIZE, Image, heading_vector, to_grid
from env_servers.sdk import Image as ObservationImage
from env_servers.sdk import ImageType, View
from env_servers.toolkit.drawing import Drawing, text_view
from env_servers.toolkit.png import encode_png

__all__ = ["draw", "image_of"]

_TILE: Final = 24
_IMAGE_TILE: Final = 32
"""Pixels of a cell's side, as MiniGrid's own."""
_LINE: Final = 20
_BLACK: Final = "#000000"
_COLORS: Final = {
    name: "#" + "".join(f"{int(part):02x}" for part in color) for name, color in COLORS.items()
}
_WALL: Final = _COLORS["grey"]
_SEEN: Final = "#ffffff4d"
_LETTERS: Final = {"door": "D", "key": "K", "ball": "A", "box": "B", "lava": "V", "goal": "G"}
"""Of MiniGrid's own text, as far as BabyAI has the kinds; an open door is `_`, a locked one `L`."""
_ARROWS: Final = (">>", "VV", "<<", "^^")


def draw(level: Level, seen: Image, facts: list[str]) -> list[View]:
    """Draw a level.

    Args:
        level: As it is now; it is only read.
        seen: What the agent sees of it.
        facts: Lines below the picture.
    """
    carried = level.carrying
    held = "nothing" if carried is None else f"{carried.color} {carried.type}"
    lines = [*facts, f"carrying {held}, moves {level.step_count} of {level.max_steps}"]
    return [_map(level, seen, lines), text_view("text", "Level as text", _text(level, lines))]


def image_of(level: Level) -> ObservationImage:
    """Return what the agent sees, as MiniGrid draws it for agents: ahead is up, nothing more."""
    pixels = level.get_frame(tile_size=_IMAGE_TILE, agent_pov=True)
    # One number a pixel; there are few different ones.
    codes = np.asarray(pixels, dtype=np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    colors, places = np.unique(codes, return_inverse=True)
    palette = b"".join(int(color).to_bytes(3, "big") for color in colors)
    content = encode_png(codes.shape[1], places.astype(np.uint8).tobytes(), palette)
    return ObservationImage(ImageType.PNG, content)


def _map(level: Level, seen: Image, lines: list[str]) -> View:
    grid = level.grid
    width, height = grid.width * _TILE, grid.height * _TILE
    longest = max(map(len, lines)) * 7.3 + 8
    drawing = Drawing(max(width, longest), height + len(lines) * _LINE + 8)
    drawing.rectangle(0, 0, width, height, fill=_BLACK)
    for number in range(1, grid.width):
        drawing.line([(number * _TILE, 0), (number * _TILE, height)], stroke="#646464", width=0.5)
    for number in range(1, grid.height):
        drawing.line([(0, number * _TILE), (width, number * _TILE)], stroke="#646464", width=0.5)
    for index, cell in enumerate(grid.grid):
        if cell is not None:
            _Tile(drawing, index % grid.width, index // grid.width).draw(cell)
    x, y = map(int, level.agent_pos)
    _Tile(drawing, x, y).draw_agent(int(level.agent_dir))
    for column, row in _seen_cells(level, seen):
        drawing.rectangle(column * _TILE, row * _TILE, _TILE, _TILE, fill=_SEEN)
    for number, line in enumerate(lines):
        drawing.text(4, height + 4 + (number + 0.5) * _LINE, line, size=12)
    return drawing.view("level", "Level")


def _seen_cells(level: Level, seen: Image) -> Iterator[tuple[int, int]]:
    x, y = map(int, level.agent_pos)
    for index, code in enumerate(seen):
        row, column = divmod(index, SIZE)
        place = to_grid(x, y, int(level.agent_dir), AHEAD - row, column - SIDE)
        if code and 0 <= place[0] < level.grid.width and 0 <= place[1] < level.grid.height:
            yield place


class _Tile:
    """Draws into one cell; coordinates are parts of its side, the shapes MiniGrid's."""

    def __init__(self, drawing: Drawing, column: int, row: int) -> None:
        self._drawing = drawing
        self._left, self._top = column * _TILE, row * _TILE

    def draw(self, cell: Any) -> None:
        """Draw what stands in the cell."""
        color = _COLORS[cell.color]
        match cell.type:
            case "wall":
                self._rectangle(0, 1, 0, 1, _WALL)
            case "door":
                self._door(cell, color)
            case "key":
                self._rectangle(0.50, 0.63, 0.31, 0.88, color)
                self._rectangle(0.38, 0.50, 0.59, 0.66, color)
                self._rectangle(0.38, 0.50, 0.81, 0.88, color)
                self._circle(0.56, 0.28, 0.19, color)
                self._circle(0.56, 0.28, 0.064, _BLACK)
            case "ball":
                self._circle(0.5, 0.5, 0.31, color)
            case "box":
                self._rectangle(0.12, 0.88, 0.12, 0.88, color)
                self._rectangle(0.18, 0.82, 0.18, 0.82, _BLACK)
                self._rectangle(0.16, 0.84, 0.47, 0.53, color)
            case _:
                self._rectangle(0, 1, 0, 1, color)

    def draw_agent(self, direction: int) -> None:
        """Draw the agent's red triangle."""
        (fx, fy), (rx, ry) = heading_vector(direction), heading_vector(direction + 1)
        corners = [(-0.38, -0.31), (0.37, 0.0), (-0.38, 0.31)]
        points = [
            self._point(0.5 + ahead * fx + right * rx, 0.5 + ahead * fy + right * ry)
            for ahead, right in corners
        ]
        self._drawing.polygon(points, fill=_COLORS["red"])

    def _door(self, door: Any, color: str) -> None:
        if door.is_open:
            self._rectangle(0.88, 1, 0, 1, color)
            self._rectangle(0.92, 0.96, 0.04, 0.96, _BLACK)
            return
        self._rectangle(0, 1, 0, 1, color)
        if door.is_locked:
            self._rectangle(0.06, 0.94, 0.06, 0.94, f"{_BLACK}8c")
            self._rectangle(0.52, 0.75, 0.50, 0.56, color)
            return
        self._rectangle(0.04, 0.96, 0.04, 0.96, _BLACK)
        self._rectangle(0.08, 0.92, 0.08, 0.92, color)
        self._rectangle(0.12, 0.88, 0.12, 0.88, _BLACK)
        self._circle(0.75, 0.5, 0.08, color)

    def _rectangle(self, left: float, right: float, top: float, bottom: float, fill: str) -> None:
        x, y = self._point(left, top)
        self._drawing.rectangle(x, y, (right - left) * _TILE, (bottom - top) * _TILE, fill=fill)

    def _circle(self, x: float, y: float, radius: float, fill: str) -> None:
        self._drawing.circle(*self._point(x, y), radius * _TILE, fill=fill)

    def _point(self, x: float, y: float) -> tuple[float, float]:
        return self._left + x * _TILE, self._top + y * _TILE


def _text(level: Level, lines: list[str]) -> str:
    grid = level.grid
    signs = [_sign(cell) for cell in grid.grid]
    x, y = map(int, level.agent_pos)
    signs[y * grid.width + x] = _ARROWS[int(level.agent_dir)]
    rows = [
        "".join(signs[start : start + grid.width]) for start in range(0, len(signs), grid.width)
    ]
    return "\n".join((*rows, *lines))


def _sign(cell: Any) -> str:
    """Two characters: kind and the first letter of the colour."""
    if cell is None:
        return "  "
    if cell.type == "wall":
        return "##"
    letter = _LETTERS.get(cell.type, "?")
    if cell.type == "door":
        letter = "_" if cell.is_open else "L" if cell.is_locked else letter
    return letter + cell.color[0].upper()
