"""The tokens of a step as flat lists and padded rectangles, ready to become a backend's tensors.

Linear layers take all tokens of a step as one list; attention takes the rectangles that `grouping`
arranged. Invariant: the tokens of a rectangle stand together in the list, in the order of its rows.

Pure: no tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_runtime.engine.grouping import Group, SharedPrefix

__all__ = ["Layout", "Rectangle", "make_layout"]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A group whose rows are padded to one width; cells are counted row by row."""

    begin: int
    """With `end`: the group's tokens in the step's list."""
    end: int
    shape: tuple[int, int, int]
    """Rows, width, length."""
    slots: tuple[int, int] | list[int]
    """First cache slot and end of neighbouring ones, or the slot of each row."""
    pad_indices: list[int] | None
    """[rows * width]: for each cell the token of the group that fills it (0 where none does);
    None = no row is padded, cells and tokens are the same."""
    unpad_indices: list[int] | None
    """[tokens]: for each token of the group its cell; None where `pad_indices` is."""
    last_visible: list[int]
    """[rows * width]: for each cell the last cached position that it attends to."""
    prefix: SharedPrefix | None = None
    """Positions that all rows may read from one slot; each row's own slot holds them, too."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tokens of a step."""

    ids: list[int]
    positions: list[int]
    slots: list[int]
    rectangles: list[Rectangle]
    logit_indices: list[int]
    """Index of each token whose logits are needed, in the order of the groups' rows."""


def make_layout(groups: Sequence[Group]) -> Layout:
    """Lay the tokens of a step's groups out as lists."""
    layout = Layout([], [], [], [], [])
    for group in groups:
        begin = len(layout.ids)
        chunks = [chunk for chunk in group.rows if chunk is not None]
        if group.width == 1:  # most rows of most steps, hence without a loop over rows
            layout.ids.extend([chunk.ids[0] for chunk in chunks])
            layout.positions.extend([chunk.start for chunk in chunks])
            layout.slots.extend([chunk.slot for chunk in chunks])
            sampling = [index for index, chunk in enumerate(chunks, begin) if chunk.samples]
            layout.logit_indices.extend(sampling)
        else:
            for chunk in chunks:
                layout.ids.extend(chunk.ids)
                layout.positions.extend(range(chunk.start, chunk.end))
                layout.slots.extend([chunk.slot] * chunk.count)
                if chunk.samples:
                    layout.logit_indices.append(len(layout.ids) - 1)
        layout.rectangles.append(_make_rectangle(group, begin, layout.positions[begin:]))
    return layout


def _make_rectangle(group: Group, begin: int, positions: list[int]) -> Rectangle:
    """Make a group's rectangle; `positions` are those of its tokens, which begin at `begin`."""
    rows, width = len(group.rows), group.width
    padded = len(positions) < rows * width
    pad_indices = unpad_indices = None
    last_visible = positions
    if padded:
        unpad_indices = _cells(group)
        pad_indices, last_visible = [0] * (rows * width), [0] * (rows * width)
        for token, cell in enumerate(unpad_indices):
            pad_indices[cell] = token
            last_visible[cell] = positions[token]
    neighbours = isinstance(group.slots, range)
    return Rectangle(
        begin=begin,
        end=begin + len(positions),
        shape=(rows, width, group.length),
        slots=(group.slots[0], group.slots[-1] + 1) if neighbours else list(group.slots),
        pad_indices=pad_indices,
        unpad_indices=unpad_indices,
        last_visible=last_visible,
        prefix=group.prefix,
    )


def _cells(group: Group) -> list[int]:
    """Return the cell of each of a group's tokens."""
    if group.width == 1:
        return [row for row, chunk in enumerate(group.rows) if chunk is not None]
    cells: list[int] = []
    for row, chunk in enumerate(group.rows):
        if chunk is not None:
            cells.extend(range(row * group.width, row * group.width + chunk.count))
    return cells
