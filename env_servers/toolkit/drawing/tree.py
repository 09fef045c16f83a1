"""Trees: laid out and drawn from left to right, and written as lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from env_servers.toolkit.drawing.svg import Drawing

__all__ = ["Placed", "TreeNode", "draw_tree", "place", "tree_lines"]

_COLUMN: Final = 270
_BOX: Final = (242, 24)
_ROW: Final = 34
_LABEL_CHARS: Final = 34
_LINE: Final = 20


@dataclass(frozen=True, slots=True)
class TreeNode:
    """What stands at a node, and what hangs below it."""

    label: str
    tone: str = "ink"
    """A colour of `STYLE`, by its name."""
    children: Sequence[TreeNode] = field(default_factory=tuple[()])


@dataclass(frozen=True, slots=True)
class Placed:
    """A node with its place: the column is its depth, rows begin at 0 and may be fractions."""

    node: TreeNode
    column: int
    row: float
    children: Sequence[Placed]

    def walk(self) -> Iterator[Placed]:
        """Return this node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def place(root: TreeNode) -> Placed:
    """Return a tree with places: each leaf has a row of its own, parents stand amid children."""
    rows = itertools.count()

    def descend(node: TreeNode, column: int) -> Placed:
        children = [descend(child, column + 1) for child in node.children]
        row = (children[0].row + children[-1].row) / 2 if children else next(rows)
        return Placed(node, column, row, children)

    return descend(root, 0)


def draw_tree(root: TreeNode, heading: str, notes: Sequence[str] = ()) -> Drawing:
    """Draw a tree below a heading, and notes below it, a line each."""
    nodes = list(place(root).walk())
    width, height = _BOX
    bottom = _LINE + 10 + (max(node.row for node in nodes) + 1) * _ROW
    columns = max(node.column for node in nodes) + 1
    drawing = Drawing(columns * _COLUMN, bottom + len(notes) * _LINE + 10)
    drawing.text(8, 14, heading, size=12, fill="var(--muted)")
    for node in nodes:
        x, y = _corner(node)
        color = f"var(--{node.node.tone})"
        for child in node.children:
            left, middle = _corner(child)
            bend = left - (_COLUMN - width) / 2
            drawing.line([(x + width, y), (bend, y), (bend, middle), (left, middle)])
        label = node.node.label
        top = y - height / 2
        drawing.rectangle(
            x, top, width, height, fill="var(--panel)", stroke=color, radius=4, tip=label
        )
        shown = label if len(label) <= _LABEL_CHARS else f"{label[: _LABEL_CHARS - 1]}…"
        drawing.text(x + 6, y, shown, size=11, fill=color)
    for number, note in enumerate(notes):
        drawing.text(8, bottom + (number + 0.5) * _LINE, note, size=12)
    return drawing


def _corner(placed: Placed) -> tuple[float, float]:
    """The left end of a node's box, at its middle."""
    return 8 + placed.column * _COLUMN, _LINE + 10 + (placed.row + 0.5) * _ROW


def tree_lines(root: TreeNode) -> list[str]:
    """Return a tree as lines, each child below its parent."""
    lines = [root.label]
    for index, child in enumerate(root.children):
        last = index == len(root.children) - 1
        first, *rest = tree_lines(child)
        lines.append(f"{'└─ ' if last else '├─ '}{first}")
        lines += [f"{'   ' if last else '│  '}{line}" for line in rest]
    return lines
