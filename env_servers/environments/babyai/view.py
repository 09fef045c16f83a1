"""What the agent sees: the 7x7 window before it, with occlusion, as a flat tuple of codes.

Equal tuples mean equal MiniGrid images, and the other way round. Everything is in the agent's own
frame: `forward` steps ahead (0..6) and `right` steps to the right (-3..3).
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any, Final, NamedTuple

from minigrid.core.constants import COLOR_TO_IDX, IDX_TO_COLOR, IDX_TO_OBJECT, OBJECT_TO_IDX

__all__ = [
    "AHEAD",
    "SIDE",
    "SIZE",
    "Entity",
    "Image",
    "Sight",
    "entities",
    "heading_vector",
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
_OPAQUE: Final = 1 << 15
"""Beside the code of a cell that one cannot see past."""
_BORDER: Final = SIZE
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


class Sight:
    """The codes of a grid, kept beside it for looking: an agent looks at every low-level move."""

    __slots__ = ("_codes", "_stride")

    def __init__(self, grid: Any) -> None:
        """Read every cell; a border of wall as wide as the window surrounds them."""
        self._stride = grid.width + 2 * _BORDER
        border = array("H", [_OUTSIDE | _OPAQUE])
        margin, side = border * (self._stride * _BORDER), border * _BORDER
        self._codes = margin[:]
        for start in range(0, len(grid.grid), grid.width):
            row = array("H", map(_read, grid.grid[start : start + grid.width]))
            self._codes += side + row + side
        self._codes += margin

    def read(self, grid: Any, x: int, y: int) -> None:
        """Read a cell anew that may have changed."""
        self._codes[self._place(x, y)] = _read(grid.get(x, y))

    def look(self, x: int, y: int, direction: int, held: Any) -> Image:
        """Return the window of an agent at (x, y); `held` (or nothing) is seen at its own place.

        The agent's own cell never blocks its sight: it can only stand on floor and in open doors.
        """
        (fx, fy), (rx, ry) = _HEADINGS[direction], _HEADINGS[(direction + 1) % 4]
        onward, across = fx + fy * self._stride, rx + ry * self._stride
        agent = self._place(x, y)
        first, codes = agent - SIDE * across, self._codes
        # Sight spreads row by row away from the agent.
        row = codes[first : first + SIZE * across : across]
        row[SIDE] = _EMPTY
        shown, sight = _spread(1 << SIDE, row.tobytes())
        image = (*shown[:SIDE], _read(held) & ~_OPAQUE, *shown[SIDE + 1 :])
        for _ in range(AHEAD):
            first += onward
            row = codes[first : first + SIZE * across : across]
            shown, sight = _spread(sight, row.tobytes())
            image = shown + image
        return image

    def _place(self, x: int, y: int) -> int:
        return (y + _BORDER) * self._stride + x + _BORDER


@lru_cache(maxsize=8192)
def _spread(sight: int, row: bytes) -> tuple[Image, int]:
    """Return what is seen of a row, 0 for what is not, and which cells of the next one can be.

    `sight` are the cells seen from the row before: bits, the lowest for the leftmost cell. Sight
    spreads to the right and then to the left, from every cell that one can see past to the one
    beside it and to both of the next row.
    """
    codes = array("H", row)
    seen, beyond = sight, 0
    for places, step in ((range(SIZE - 1), 1), (range(SIZE - 1, 0, -1), -1)):
        for place in places:
            if seen >> place & 1 and not codes[place] & _OPAQUE:
                seen |= 1 << place + step
                beyond |= 1 << place | 1 << place + step
    shown = (code & ~_OPAQUE if seen >> place & 1 else 0 for place, code in enumerate(codes))
    return tuple(shown), beyond


def _read(cell: Any) -> int:
    """Code of a grid cell, with `_OPAQUE` where one cannot see past it."""
    if cell is None:
        return _EMPTY
    kind, color, state = cell.encode()
    code = kind << 8 | color << 4 | state
    return code if cell.see_behind() else code | _OPAQUE


_NEAREST_FIRST: Final = tuple(
    sorted(
        (index for index in range(SIZE * SIZE) if index != _AGENT),
        key=lambda index: AHEAD - index // SIZE + abs(index % SIZE - SIDE),
    )
)
"""Places of the window by their distance, the agent's own left out."""


@lru_cache(maxsize=8192)
def _entity(code: int, index: int) -> Entity:
    """Return what a code at a place of the window stands for; windows share these."""
    kind = IDX_TO_OBJECT[code >> 8]
    words = [IDX_TO_COLOR[code >> 4 & 15], kind]
    if kind == "door":
        words.insert(1, _DOOR_STATES[code & 15])
    row, column = divmod(index, SIZE)
    return Entity(" ".join(words), kind, AHEAD - row, column - SIDE)


def entities(image: Image) -> list[Entity]:
    """Everything seen besides floor, nearest first; among equals far rows first, then from left."""
    return [
        _entity(code, index)
        for index in _NEAREST_FIRST
        if (code := image[index]) and code != _EMPTY
    ]
