"""Trees as Chromium 112 had them, by translation: published transcripts are of that version.

Pure. What only another layout or another browser could tell is not translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from env_servers.environments.webarena.observation.rectangles import Layout, Rectangle
from env_servers.environments.webarena.observation.reports import Label, Node, Property, Value

__all__ = ["place_separators", "translate_nodes"]

_ROLES: Final[Mapping[str, str]] = {
    "image": "img",
    "cell": "gridcell",
    "DisclosureTriangleGrouped": "DisclosureTriangle",
    "sectionheader": "HeaderAsNonLandmark",
    "sectionfooter": "FooterAsNonLandmark",
}
_NAMELESS_LEVELS: Final = frozenset(
    {"form", "rowgroup", "group", "emphasis", "code", "Video", "Audio"}
)
"""Without a name these were no lines."""
_NEW_PROPERTIES: Final = frozenset({"url", "errormessage"})
_NEW_VALUES: Final = frozenset({"slider", "spinbutton"})
_DATE_ROLES: Final = frozenset({"Date", "DateTime", "InputTime"})
_STATED_ROLES: Final = frozenset({"directory", "group"})
"""With a role of their own in the page these were lines, named or not."""
_BY_TAG: Final[Mapping[str, str]] = {
    "DT": "DescriptionListTerm",
    "DD": "DescriptionListDetail",
    "DFN": "generic",
    "DETAILS": "Details",
}


def translate_nodes(nodes: Sequence[Node], layout: Layout) -> list[Node]:
    """Return the nodes as the old version would have reported them."""
    translation = _Translation(nodes, layout)
    return [translation.translate(node) for node in nodes]


def place_separators(
    nodes: Sequence[Node], rectangles: Mapping[int, Rectangle]
) -> dict[int, Rectangle]:
    """Return where the signs between the parts of dates were shown: they are nowhere today."""
    by_id = {node.node_id: node for node in nodes}
    placed: dict[int, Rectangle] = {}
    for node in nodes:
        field = rectangles.get(node.backend_id)
        if field is None or node.role_name not in _DATE_ROLES:
            continue
        waiting = [node.node_id]
        while waiting:
            each = by_id.get(waiting.pop())
            if each is None:
                continue
            known = rectangles.get(each.backend_id)
            if each.role_name == "StaticText" and not (known and known.in_view):
                placed[each.backend_id] = field
            waiting.extend(each.child_ids)
    return placed


class _Translation:
    def __init__(self, nodes: Sequence[Node], layout: Layout) -> None:
        self._by_id = {node.node_id: node for node in nodes}
        self._layout = layout
        self._parents = {child: node for node in nodes for child in node.child_ids}
        self._merged = dict(self._merged_texts(nodes))

    def translate(self, node: Node) -> Node:
        if node.name is None:
            return node
        role, name = node.role_name, node.name.value or ""
        attributes = self._layout.attributes.get(node.backend_id, {})
        properties = [
            self._property(role, each, attributes)
            for each in node.properties
            if each.name not in _NEW_PROPERTIES
        ]
        new_role = self._role(node, role, name)
        if (stated := attributes.get("role")) in _STATED_ROLES:
            new_role = stated
        if new_role == "gridcell" and role == "cell":
            properties.append(Property("required", Value(False)))
        self._add_references(attributes, properties)
        if role == "paragraph" and not name:
            name = attributes.get("title", "")
        if role == "figure" and self._has_caption(node):
            properties.append(Property("details", Value("")))
        return structs.replace(
            node,
            role=Label(new_role),
            name=Label(self._name(node, new_role, role, name)),
            properties=tuple(properties),
        )

    def _add_references(self, attributes: Mapping[str, str], properties: list[Property]) -> None:
        """What is not there, or closed, was named as controlled all the same."""
        controlled = attributes.get("aria-controls")
        if controlled and all(each.name != "controls" for each in properties):
            properties.append(Property("controls", Value(controlled)))

    def _has_caption(self, node: Node) -> bool:
        children = (self._by_id.get(child) for child in node.child_ids)
        return any(child is not None and self._tag(child) == "FIGCAPTION" for child in children)

    def _role(self, node: Node, role: str, name: str) -> str:
        tag = self._tag(node)
        if tag in _BY_TAG and role in ("term", "definition", "group"):
            return _BY_TAG[tag]
        if role in _NAMELESS_LEVELS and not name.strip():
            return "generic"
        return _ROLES.get(role, role)

    def _property(self, role: str, each: Property, attributes: Mapping[str, str]) -> Property:
        if each.name == "valuetext" and role in _NEW_VALUES:
            return Property("valuetext", Value(attributes.get("aria-valuetext", "")))
        if each.name == "valuemax" and role == "meter":
            return Property("valuemax", Value(0))
        return each

    def _name(self, node: Node, new_role: str, role: str, name: str) -> str:
        if node.node_id in self._merged:
            return self._merged[node.node_id]
        if new_role.startswith("DescriptionList") or role == "term":
            return ""
        half = len(name) // 2
        if half and name[:half] == name[half + 1 :] and self._within(node, _DATE_ROLES):
            return name[:half]
        return self._label(node, name)

    def _within(self, node: Node, roles: frozenset[str]) -> bool:
        parent = self._parents.get(node.node_id)
        while parent is not None:
            if parent.role_name in roles:
                return True
            parent = self._parents.get(parent.node_id)
        return False

    def _label(self, node: Node, name: str) -> str:
        """Names from labels around a control kept their blanks."""
        parent = self._parents.get(node.node_id)
        while name and parent is not None:
            if self._tag(parent) == "LABEL":
                words = "".join(self._texts(parent, node.node_id))
                return words if words.strip() == name else name
            parent = self._parents.get(parent.node_id)
        return name

    def _tag(self, node: Node) -> str:
        return self._layout.tags.get(node.backend_id, "")

    def _texts(self, node: Node, without: str) -> Iterator[str]:
        waiting = [node.node_id]
        while waiting:
            each = self._by_id.get(waiting.pop())
            if each is None or each.node_id == without:
                continue
            yield self._layout.texts.get(each.backend_id, "")
            waiting.extend(reversed(each.child_ids))

    def _merged_texts(self, nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
        """The rows of a text area were one text."""
        for node in nodes:
            value = node.value and node.value.value
            if self._tag(node) == "TEXTAREA" and isinstance(value, str):
                rows = list(self._rows(node))
                for number, row in enumerate(rows):
                    yield row, "" if number else value

    def _rows(self, node: Node) -> Iterator[str]:
        waiting = list(node.child_ids)
        while waiting:
            each = self._by_id.get(waiting.pop(0))
            if each is None:
                continue
            if each.role_name == "StaticText":
                yield each.node_id
            else:
                waiting[:0] = each.child_ids
