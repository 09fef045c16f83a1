"""Trees, laid out for a drawing and written as lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Placed", "TreeNode", "place", "tree_lines"]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """What stands at a node, and what hangs below it."""

    label: str
    kind: str = ""
    """Of the environment's choice, for a colour."""
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


def tree_lines(root: TreeNode) -> list[str]:
    """Return a tree as lines, each child below its parent."""
    lines = [root.label]
    for index, child in enumerate(root.children):
        last = index == len(root.children) - 1
        first, *rest = tree_lines(child)
        lines.append(f"{'└─ ' if last else '├─ '}{first}")
        lines += [f"{'   ' if last else '│  '}{line}" for line in rest]
    return lines
