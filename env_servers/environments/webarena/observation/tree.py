"""The accessibility tree as lines of text, as the original writes it.

Pure. Every line is one element; its number is what an action addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from env_servers.environments.webarena.observation.rectangles import Rectangle
from env_servers.environments.webarena.observation.reports import Node

__all__ = ["Element", "Tree", "candidates", "read_tree"]

_ROOT: Final = "RootWebArea"
_ROOT_RECTANGLE: Final = Rectangle(0.0, 0.0, 10.0, 10.0)
"""The original's: a click on the page as a whole lands at its top left corner."""

_DROPPED_PROPERTIES: Final = frozenset(
    {"focusable", "editable", "readonly", "level", "settable", "multiline", "invalid"}
)
_DROPPED_ROLES: Final = frozenset(
    {
        *("generic", "img", "list", "strong", "paragraph", "banner", "navigation"),
        *("Section", "LabelText", "Legend", "listitem"),
    }
)
"""Roles of which a node without name and properties is no line."""
_STATIC_TEXT: Final = re.compile(r"\[\d+\] StaticText (.+)", re.DOTALL)
_COMPARED_LINES: Final = 3
"""So many lines before a text are searched for it."""


@dataclass(frozen=True, slots=True)
class Element:
    """What a line shows."""

    element_id: str
    line: str
    """Without indentation."""
    rectangle: Rectangle | None
    """None = not shown, in a full tree."""
    backend_id: int


@dataclass(frozen=True, slots=True)
class Tree:
    """An accessibility tree."""

    text: str
    elements: Mapping[str, Element]
    """All that an action may address; some have no line in the text."""


def candidates(nodes: Sequence[Node]) -> Iterator[int]:
    """Yield the backend ids of the nodes that may become lines."""
    for node in nodes:
        if node.name is not None and node.backend_id:
            yield node.backend_id


def read_tree(
    nodes: Sequence[Node],
    rectangles: Mapping[int, Rectangle],
    number: Callable[[Node], str],
    *,
    full: bool = False,
) -> Tree:
    """Return the tree of nodes that are in the window, or of all.

    `number` is called once for each element, in the order of lines.
    """
    by_id: dict[str, Node] = {}
    for node in nodes:
        by_id.setdefault(node.node_id, node)
    lines: list[str] = []
    elements: dict[str, Element] = {}
    # Depth first without recursion: pages may nest deeper than Python does.
    waiting: list[tuple[str, int]] = [(nodes[0].node_id, 0)] if nodes else []
    while waiting:
        node_id, depth = waiting.pop()
        node = by_id.pop(node_id, None)
        if node is None:
            continue
        rectangle = _rectangle(node, rectangles)
        shown = full or (rectangle is not None and rectangle.in_view)
        if shown and (content := _content(node)) is not None:
            element_id = number(node)
            line = f"[{element_id}] {content}"
            lines.append("\t" * depth + line)
            elements[element_id] = Element(element_id, line, rectangle, node.backend_id)
            depth += 1
        waiting.extend((child, depth) for child in reversed(node.child_ids))
    return Tree("\n".join(_without_repetitions(lines)), elements)


def _rectangle(node: Node, rectangles: Mapping[int, Rectangle]) -> Rectangle | None:
    if not node.backend_id:
        return None
    if node.role_name == _ROOT:
        return _ROOT_RECTANGLE
    return rectangles.get(node.backend_id)


def _content(node: Node) -> str | None:
    """Role, name and properties; None where the node is no line."""
    if node.name is None or node.name.value is None or not node.role_name:
        return None
    role, name = node.role_name, node.name.value
    properties = " ".join(
        f"{each.name}: {each.value.value}"
        for each in node.properties
        if each.name not in _DROPPED_PROPERTIES and each.value.value is not UNSET
    )
    if not name.strip() and ((role == "listitem") if properties else (role in _DROPPED_ROLES)):
        return None
    return f"{role} {name!r} {properties}" if properties else f"{role} {name!r}"


def _without_repetitions(lines: Sequence[str]) -> Iterator[str]:
    """Leave out texts that stand in one of the last lines before, as coarsely as the original.

    It takes the number of an element for text, too. So it leaves out the same texts as the original
    where elements have the browser's numbers, and in equal episodes the same ones where they have
    numbers of our own.
    """
    kept: list[str] = []
    for line in "\n".join(lines).split("\n"):
        if "statictext" in line.lower():
            match = _STATIC_TEXT.search(line)
            shown = match[1][1:-1] if match else ""
            if not shown or any(shown in before for before in kept):
                continue
        kept = [*kept[1 - _COMPARED_LINES :], line]
        yield line
