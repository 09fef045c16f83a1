"""Ways through the visible window: from the agent to a thing, as turns and steps.

Contains the search behind the macro actions. Unseen cells count as free. For one window the ways
depend on nothing but the blocked cells, the direction and the rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from env_servers.environments.babyai.view import AHEAD, SIDE

__all__ = ["DROP", "FORWARD", "LEFT", "PICKUP", "RIGHT", "TOGGLE", "Ways"]

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
"""MiniGrid's low-level actions."""

_WIDTH: Final = 8
_CELLS: Final = _WIDTH * _WIDTH
_START: Final[int] = 4 * (_WIDTH + SIDE)


def _cell(forward: int, right: int) -> int:
    """Number of a cell: forward -1..6, right -3..4."""
    return (forward + 1) * _WIDTH + right + SIDE


def _ahead(state: int) -> int:
    """The cell that a state looks at, -1 outside. A state is 4 * cell + heading (0 = ahead)."""
    cell, heading = divmod(state, 4)
    row, column = divmod(cell, _WIDTH)
    row += (1, 0, -1, 0)[heading]
    column += (0, 1, 0, -1)[heading]
    return row * _WIDTH + column if 0 <= row < _WIDTH and 0 <= column < _WIDTH else -1


_AHEAD_OF: Final = tuple(_ahead(state) for state in range(4 * _CELLS))


def _bounds(behind: bool, beyond: bool) -> frozenset[int]:
    """Cells of the window, with the row behind the agent and the column right of it if wanted."""
    return frozenset(
        _cell(forward, right)
        for forward in range(-1 if behind else 0, AHEAD + 1)
        for right in range(-SIDE, SIDE + (2 if beyond else 1))
    )


_EXACT: Final = _bounds(behind=False, beyond=False)
_ORIGINAL: Final = tuple(
    _bounds(behind=direction in (0, 1), beyond=direction in (1, 2)) for direction in range(4)
)
"""The original's ranges: one cell too long towards the smaller grid coordinates."""


class Ways:
    """Ways from the agent's place to every cell that can be reached or faced in the window.

    Searched as far as was asked: the way to a state stands when the state leaves the queue.
    """

    __slots__ = ("_arrive", "_came", "_face", "_go_on", "_queue", "_shut")

    def __init__(
        self, blocked: Iterable[tuple[int, int]], direction: int, *, original: bool
    ) -> None:
        """`blocked` are (forward, right) of cells that cannot be entered.

        With `original` the search is the one of AgentGym, which does not always find the shortest
        way and may leave the window by one cell; otherwise it is a plain breadth-first search.
        """
        walls = {_cell(forward, right) for forward, right in blocked}
        shut = bytearray(_SHUT_ORIGINAL[direction] if original else _SHUT_EXACT)
        for cell in walls:
            shut[4 * cell : 4 * cell + 4] = b"\1\1\1\1"
        self._shut = shut
        self._came: list[int] = [0] * (4 * _CELLS)
        self._face: dict[int, int] = {}
        self._arrive: dict[int, int] = {}
        self._queue: deque[int] = deque((_START,))
        self._go_on = self._repeat if original else self._search
        if not original:
            shut[_START] = 1

    def to_face(self, forward: int, right: int) -> tuple[int, ...] | None:
        """Moves after which the agent stands before the cell and looks at it, or None."""
        return self._moves(self._face, _cell(forward, right))

    def to_enter(self, forward: int, right: int) -> tuple[int, ...] | None:
        """Moves after which the agent stands in the cell, or None."""
        return self._moves(self._arrive, _cell(forward, right))

    def _moves(self, known: dict[int, int], cell: int) -> tuple[int, ...] | None:
        if cell not in known:
            self._go_on(known, cell)
        state = known.get(cell)
        if state is None:
            return None
        moves: list[int] = []
        while state != _START:
            came = self._came[state]
            moves.append(_move(came, state))
            state = came
        return tuple(reversed(moves))

    def _search(self, known: dict[int, int], wanted: int) -> None:
        """Search until the cell is known."""
        queue, shut = self._queue, self._shut
        while queue and wanted not in known:
            state = queue.popleft()
            self._face.setdefault(_AHEAD_OF[state], state)
            self._arrive.setdefault(state >> 2, state)
            for successor in _NEXT[state]:
                if not shut[successor]:
                    shut[successor] = 1
                    self._came[successor] = state
                    queue.append(successor)

    def _repeat(self, known: dict[int, int], wanted: int) -> None:
        """Search as the original: a state is known when it leaves the queue, not before.

        So states are queued several times and a later, sometimes longer, way replaces an earlier
        one. The moves of a recorded action follow from that.
        """
        came, face, arrive, shut = self._came, self._face, self._arrive, self._shut
        queue = self._queue
        pop, push = queue.popleft, queue.append
        while queue and wanted not in known:
            state = pop()
            if not shut[state]:
                shut[state] = 1
                cell = _AHEAD_OF[state]
                if cell not in face:
                    face[cell] = state
                if state >> 2 not in arrive:
                    arrive[state >> 2] = state
            for successor in _NEXT[state]:
                if not shut[successor]:
                    came[successor] = state
                    push(successor)


def _move(state: int, successor: int) -> int:
    """Return which move leads from a state to a neighbouring one."""
    if state >> 2 != successor >> 2:
        return FORWARD
    return RIGHT if successor == (state & ~3 | (state + 1) % 4) else LEFT


def _expand(state: int) -> tuple[int, ...]:
    """States after a step, a left turn and a right turn, in this order."""
    cell_bits, heading = state & ~3, state & 3
    turns = (cell_bits | (heading - 1) % 4, cell_bits | (heading + 1) % 4)
    cell = _AHEAD_OF[state]
    return turns if cell < 0 else (4 * cell + heading, *turns)


def _shut(cells: frozenset[int]) -> bytes:
    """Return a flag for every state: 1 outside these cells."""
    return bytes(state >> 2 not in cells for state in range(4 * _CELLS))


_NEXT: Final = tuple(_expand(state) for state in range(4 * _CELLS))
_SHUT_EXACT: Final = _shut(_EXACT)
_SHUT_ORIGINAL: Final = tuple(_shut(cells) for cells in _ORIGINAL)
