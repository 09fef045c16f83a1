"""The tokens of a step as flat lists and rectangles: what every backend turns into its own tensors.

Linear layers take all tokens of a step as one list; attention takes the rectangles that `grouping`
made. Invariant: the tokens of a rectangle stand together in the list, in the order of its rows.

Pure: no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_runtime.engine.grouping import Group

__all__ = ["Layout", "Rectangle", "lay_out"]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A group's places; `begin` to `end` are its tokens in the list."""

    begin: int
    end: int
    shape: tuple[int, int, int]
    """Rows, width, length."""
    slots: tuple[int, int] | list[int]
    """First slot and end of neighbouring ones, or the slot of each row."""
    spread: list[int] | None
    """Token of the group for each place of the rectangle; None = they are the same."""
    collect: list[int] | None
    """Place of the rectangle for each token of the group; None where `spread` is."""
    seen: list[int]
    """For each place the last cached position that it attends to."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tokens of a step."""

    ids: list[int]
    positions: list[int]
    slots: list[int]
    rectangles: list[Rectangle]
    last: list[int]
    """Index of the tokens from which the next are sampled, in the order of rows in groups."""


def lay_out(groups: Sequence[Group]) -> Layout:
    """A step's groups as lists."""
    layout = Layout([], [], [], [], [])
    for group in groups:
        begin = len(layout.ids)
        for chunk in group.rows:
            if chunk is None:
                continue
            layout.ids.extend(chunk.ids)
            layout.positions.extend(range(chunk.start, chunk.end))
            layout.slots.extend([chunk.slot] * len(chunk.ids))
            if chunk.samples:
                layout.last.append(len(layout.ids) - 1)
        layout.rectangles.append(_rectangle(group, begin))
    return layout


def _rectangle(group: Group, begin: int) -> Rectangle:
    rows, width = len(group.rows), group.width
    spread, collect, seen = [0] * (rows * width), list[int](), [0] * (rows * width)
    token = 0
    for row, chunk in enumerate(group.rows):
        if chunk is None:
            continue
        at, count = row * width, len(chunk.ids)
        spread[at : at + count] = range(token, token + count)
        collect.extend(range(at, at + count))
        seen[at : at + count] = range(chunk.start, chunk.end)
        token += count
    even = token == rows * width
    neighbours = isinstance(group.slots, range)
    return Rectangle(
        begin=begin,
        end=begin + token,
        shape=(rows, width, group.length),
        slots=(group.slots[0], group.slots[-1] + 1) if neighbours else list(group.slots),
        spread=None if even else spread,
        collect=None if even else collect,
        seen=seen,
    )
