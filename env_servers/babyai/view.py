"""What the agent sees: the 7x7 window before it, with occlusion, as a flat tuple of codes.

Invariant: equal tuples mean equal MiniGrid images, and the other way round. Everything is in the
agent's own frame: `forward` steps ahead (0..6) and `right` steps to the right (-3..3). Knows
nothing of texts, actions or missions.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from minigrid.core.constants import COLOR_TO_IDX, IDX_TO_COLOR, IDX_TO_OBJECT, OBJECT_TO_IDX

__all__ = [
    "AHEAD",
    "SIDE",
    "SIZE",
    "Sight",
    "Thing",
    "heading_vector",
    "look",
    "things_in",
    "to_grid",
]

Sight = tuple[int, ...]
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
    """The grid step (dx, dy) of looking in a direction 0..3."""
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


class Thing(NamedTuple):
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


def look(grid: Any, x: int, y: int, direction: int, held: Any) -> Sight:
    """The window of an agent at (x, y); `held` (or nothing) is seen at its own place.

    The agent's own cell never blocks its sight: it can only stand on floor and in open doors.
    """
    cells, width, height = grid.grid, grid.width, grid.height
    seen = bytearray(SIZE * SIZE)
    seen[_AGENT] = 1
    codes = [0] * (SIZE * SIZE)
    window = _WINDOW[direction]
    for base in range(AHEAD * SIZE, -1, -SIZE):
        clear = [False] * SIZE
        for columns, step in ((range(SIZE), 1), (range(SIZE - 1, -1, -1), -1)):
            last = columns[-1]
            for column in columns:
                place = base + column
                if not seen[place]:
                    continue
                if not codes[place]:
                    dx, dy = window[place]
                    i, j = x + dx, y + dy
                    inside = 0 <= i < width and 0 <= j < height
                    cell = cells[j * width + i] if inside else None
                    if cell is None:
                        codes[place], clear[column] = (_EMPTY, True) if inside else (_OUTSIDE, False)
                    else:
                        kind, color, state = cell.encode()
                        codes[place] = kind << 8 | color << 4 | state
                        clear[column] = place == _AGENT or cell.see_behind()
                if not clear[column] or column == last:
                    continue
                seen[place + step] = 1
                if base:
                    seen[place + step - SIZE] = seen[place - SIZE] = 1
    if held is None:
        codes[_AGENT] = _EMPTY
    else:
        kind, color, state = held.encode()
        codes[_AGENT] = kind << 8 | color << 4 | state
    return tuple(codes)


_NAMES: dict[int, tuple[str, str]] = {}


def _name(code: int) -> tuple[str, str]:
    """Name and kind of a code."""
    kind = IDX_TO_OBJECT[code >> 8]
    words = [IDX_TO_COLOR[code >> 4 & 15], kind]
    if kind == "door":
        words.insert(1, _DOOR_STATES[code & 15])
    return " ".join(words), kind


def things_in(sight: Sight) -> list[Thing]:
    """Everything seen besides floor, nearest first; among equals far rows first, then from left."""
    found: list[Thing] = []
    for place, code in enumerate(sight):
        if code in (0, _EMPTY) or place == _AGENT:
            continue
        named = _NAMES.get(code)
        if named is None:
            named = _NAMES[code] = _name(code)
        row, column = divmod(place, SIZE)
        found.append(Thing(*named, AHEAD - row, column - SIDE))
    found.sort(key=lambda thing: thing.forward + abs(thing.right))
    return found
