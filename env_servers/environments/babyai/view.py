"""What the agent sees: the 7x7 window before it, with occlusion, as a flat tuple of codes.

Equal tuples mean equal MiniGrid images, and the other way round. Everything is in the agent's own
frame: `forward` steps ahead (0..6) and `right` steps to the right (-3..3).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minigrid.core.constants import COLOR_TO_IDX, IDX_TO_COLOR, IDX_TO_OBJECT, OBJECT_TO_IDX

__all__ = [
    "AHEAD",
    "SIDE",
    "SIZE",
    "Entity",
    "Image",
    "entities",
    "heading_vector",
    "look",
    "to_grid",
]

Image = tuple[int, ...]
"""49 codes, row by row from far to near, each row from left to right; 0 = not seen."""

SIZE: Final = 7
SIDE: Final = SIZE // 2
AHEAD: Final = SIZE - 1
_AGENT: Final = AHEAD * SIZE + SIDE
_EMPTY: Final = OBJECT_TO_IDX["empty"] << 8
_WALL: Final = OBJECT_TO_IDX["wall"]
_DOOR: Final = OBJECT_TO_IDX["door"]
_OUTSIDE: Final = _WALL << 8 | COLOR_TO_IDX["grey"] << 4
_DOOR_STATES: Final = ("open", "closed", "locked")

_HEADINGS: Final = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Grid vectors of the directions right, down, left, up."""


def heading_vector(direction: int) -> tuple[int, int]:
    """Return the grid step (dx, dy) of looking in a direction 0..3."""
    return _HEADINGS[direction % 4]


def to_grid(x: int, y: int, direction: int, forward: int, right: int) -> tuple[int, int]:
    """Grid cell of a place in the frame of an agent at (x, y) that looks in a direction."""
    (fx, fy), (rx, ry) = _HEADINGS[direction], _HEADINGS[(direction + 1) % 4]
    return x + forward * fx + right * rx, y + forward * fy + right * ry


_WINDOW: Final = tuple(
    tuple(
        to_grid(0, 0, direction, AHEAD - row, column - SIDE)
        for row in range(SIZE)
        for column in range(SIZE)
    )
    for direction in range(4)
)


class Entity(NamedTuple):
    """Something seen that is neither empty floor nor unseen."""

    name: str
    """`red ball`, `blue closed door`, `grey wall`."""
    kind: str
    forward: int
    right: int

    @property
    def distance(self) -> int:
        """Manhattan distance from the agent, in steps."""
        return self.forward + abs(self.right)


def look(grid: Any, x: int, y: int, direction: int, held: Any) -> Image:
    """Return the window of an agent at (x, y); `held` (or nothing) is seen at its own place.

    The agent's own cell never blocks its sight: it can only stand on floor and in open doors.
    """
    cells, width, height = grid.grid, grid.width, grid.height
    window = _WINDOW[direction]
    seen = bytearray(SIZE * SIZE)
    seen[_AGENT] = 1
    codes = [0] * (SIZE * SIZE)
    clear = bytearray(SIZE * SIZE)
    # Sight spreads row by row away from the agent, first to the right and then to the left.
    for base in range(AHEAD * SIZE, -1, -SIZE):
        for places, step in (
            (range(base, base + SIZE), 1),
            (range(base + AHEAD, base - 1, -1), -1),
        ):
            last = places[-1]
            for index in places:
                if not seen[index]:
                    continue
                if not codes[index]:
                    dx, dy = window[index]
                    i, j = x + dx, y + dy
                    if 0 <= i < width and 0 <= j < height:
                        codes[index], clear[index] = _read(cells[j * width + i])
                    else:
                        codes[index] = _OUTSIDE
                if index == last or not (clear[index] or index == _AGENT):
                    continue
                seen[index + step] = 1
                if base:
                    seen[index + step - SIZE] = seen[index - SIZE] = 1
    codes[_AGENT] = _read(held)[0]
    return tuple(codes)


def _read(cell: Any) -> tuple[int, bool]:
    """Code of a grid cell, and whether one can see past it."""
    if cell is None:
        return _EMPTY, True
    kind, color, state = cell.encode()
    return kind << 8 | color << 4 | state, cell.see_behind()


_NAMES: dict[int, tuple[str, str]] = {}


def _name(code: int) -> tuple[str, str]:
    """Name and kind of a code."""
    kind = IDX_TO_OBJECT[code >> 8]
    words = [IDX_TO_COLOR[code >> 4 & 15], kind]
    if kind == "door":
        words.insert(1, _DOOR_STATES[code & 15])
    return " ".join(words), kind


def entities(image: Image) -> list[Entity]:
    """Everything seen besides floor, nearest first; among equals far rows first, then from left."""
    seen: list[Entity] = []
    for index, code in enumerate(image):
        if code in (0, _EMPTY) or index == _AGENT:
            continue
        named = _NAMES.get(code)
        if named is None:
            named = _NAMES[code] = _name(code)
        row, column = divmod(index, SIZE)
        seen.append(Entity(*named, AHEAD - row, column - SIDE))
    seen.sort(key=lambda thing: thing.forward + abs(thing.right))
    return seen
