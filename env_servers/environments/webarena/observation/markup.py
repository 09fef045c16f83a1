"""The elements of a page as lines of HTML, from the same snapshot as their rectangles.

Pure. A line is an element with what can be acted on or read: some attributes, what is filled in,
and its own text. The form is of this project; of the original's `html` nothing was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from env_servers.environments.webarena.observation.rectangles import Rectangle
from env_servers.environments.webarena.observation.reports import SnapshotReport
from env_servers.environments.webarena.observation.tree import Element, Tree

__all__ = ["read_markup"]

_ATTRIBUTES: Final = (
    *("alt", "aria-label", "checked", "disabled", "for", "href", "id", "name", "placeholder"),
    *("role", "selected", "title", "type", "value"),
)
_TEXT: Final = "#text"


def read_markup(
    report: SnapshotReport,
    rectangles: Mapping[int, Rectangle],
    number: Callable[[str], str],
    *,
    full: bool = False,
) -> Tree:
    """Return the main document's elements that are in the window, or all that are laid out.

    `number` gives an element's number for the browser's; it is called in the order of lines.
    """
    nodes, strings = report.documents[0].nodes, report.strings
    boxes = [rectangles.get(backend_id) for backend_id in nodes.backend_node_id]
    shown = [box is not None and (full or box.in_view) for box in boxes]
    names = [strings[name] if name >= 0 else "" for name in nodes.node_name]
    texts = _own_texts(report, names, shown)
    typed = dict(zip(nodes.input_value.index, nodes.input_value.value, strict=True))
    lines: list[str] = []
    elements: dict[str, Element] = {}
    depths = [0] * len(names)
    """Of the children of each node; a node comes after its parent."""
    for index, name in enumerate(names):
        parent = nodes.parent_index[index]
        depth = depths[index] = depths[parent] if parent >= 0 else 0
        if not shown[index] or name.startswith(("#", "::")):
            continue
        attributes = nodes.attributes[index]
        pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
        values = {strings[key]: strings[value] for key, value in pairs.items()}
        if index in typed:
            values["value"] = strings[typed[index]]
        kept = [f"{key}={values[key]!r}" for key in _ATTRIBUTES if key in values]
        text = " ".join(texts.get(index, ()))
        if not kept and not text:
            continue
        element_id = number(str(nodes.backend_node_id[index]))
        tag = " ".join([name.lower(), *kept])
        line = f"[{element_id}] <{tag}> {text}".rstrip()
        lines.append("\t" * depth + line)
        backend_id = nodes.backend_node_id[index]
        elements[element_id] = Element(element_id, line, boxes[index], backend_id)
        depths[index] = depth + 1
    return Tree("\n".join(lines), elements)


def _own_texts(
    report: SnapshotReport, names: list[str], shown: list[bool]
) -> Mapping[int, list[str]]:
    """The texts right inside of elements, without the blanks around them."""
    nodes, strings = report.documents[0].nodes, report.strings
    texts: dict[int, list[str]] = {}
    for index, name in enumerate(names):
        if name == _TEXT and shown[index]:
            text = " ".join(strings[nodes.node_value[index]].split())
            if text:
                texts.setdefault(nodes.parent_index[index], []).append(text)
    return texts
