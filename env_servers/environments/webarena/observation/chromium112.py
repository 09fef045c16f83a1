"""Trees as Chromium 112 had them, by translation: published transcripts are of that version.

Pure. What only another layout or another browser could tell is not translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from env_servers.environments.webarena.observation.rectangles import Layout, Rectangle
from env_servers.environments.webarena.observation.tree import Node

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
    by_id = {node["nodeId"]: node for node in nodes}
    placed: dict[int, Rectangle] = {}
    for node in nodes:
        field = rectangles.get(node.get("backendDOMNodeId", 0))
        if field is None or node.get("role", {}).get("value") not in _DATE_ROLES:
            continue
        waiting = [node["nodeId"]]
        while waiting:
            each = by_id.get(waiting.pop())
            if each is None:
                continue
            backend_id = each.get("backendDOMNodeId", 0)
            known = rectangles.get(backend_id)
            if each.get("role", {}).get("value") == "StaticText" and not (known and known.in_view):
                placed[backend_id] = field
            waiting.extend(each.get("childIds", ()))
    return placed


class _Translation:
    def __init__(self, nodes: Sequence[Node], layout: Layout) -> None:
        self._by_id = {node["nodeId"]: node for node in nodes}
        self._layout = layout
        self._parents = {child: node for node in nodes for child in node.get("childIds", ())}
        self._merged = dict(self._merged_texts(nodes))

    def translate(self, node: Node) -> Node:
        if "name" not in node:
            return node
        role: str = node["role"]["value"]
        name: str = node["name"].get("value", "")
        attributes = self._layout.attributes.get(node.get("backendDOMNodeId", 0), {})
        properties = [
            self._property(role, each, attributes)
            for each in node.get("properties", ())
            if each["name"] not in _NEW_PROPERTIES
        ]
        new_role = self._role(node, role, name)
        if (stated := attributes.get("role")) in _STATED_ROLES:
            new_role = stated
        if new_role == "gridcell" and role == "cell":
            properties.append({"name": "required", "value": {"value": False}})
        self._add_references(attributes, properties)
        if role == "paragraph" and not name:
            name = attributes.get("title", "")
        if role == "figure" and self._has_caption(node):
            properties.append({"name": "details", "value": {"value": ""}})
        return {
            **node,
            "role": {"value": new_role},
            "name": {"value": self._name(node, new_role, role, name)},
            "properties": properties,
        }

    def _add_references(
        self, attributes: Mapping[str, str], properties: list[Mapping[str, Any]]
    ) -> None:
        """What is not there, or closed, was named as controlled all the same."""
        controlled = attributes.get("aria-controls")
        if controlled and all(each["name"] != "controls" for each in properties):
            properties.append({"name": "controls", "value": {"value": controlled}})

    def _has_caption(self, node: Node) -> bool:
        children = (self._by_id.get(child) for child in node.get("childIds", ()))
        return any(child is not None and self._tag(child) == "FIGCAPTION" for child in children)

    def _role(self, node: Node, role: str, name: str) -> str:
        tag = self._tag(node)
        if tag in _BY_TAG and role in ("term", "definition", "group"):
            return _BY_TAG[tag]
        if role in _NAMELESS_LEVELS and not name.strip():
            return "generic"
        return _ROLES.get(role, role)

    def _property(
        self, role: str, each: Mapping[str, Any], attributes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        if each["name"] == "valuetext" and role in _NEW_VALUES:
            said = attributes.get("aria-valuetext", "")
            return {"name": "valuetext", "value": {"value": said}}
        if each["name"] == "valuemax" and role == "meter":
            return {"name": "valuemax", "value": {"value": 0}}
        return each

    def _name(self, node: Node, new_role: str, role: str, name: str) -> str:
        if node["nodeId"] in self._merged:
            return self._merged[node["nodeId"]]
        if new_role.startswith("DescriptionList") or role == "term":
            return ""
        half = len(name) // 2
        if half and name[:half] == name[half + 1 :] and self._within(node, _DATE_ROLES):
            return name[:half]
        return self._label(node, name)

    def _within(self, node: Node, roles: frozenset[str]) -> bool:
        parent = self._parents.get(node["nodeId"])
        while parent is not None:
            if parent.get("role", {}).get("value") in roles:
                return True
            parent = self._parents.get(parent["nodeId"])
        return False

    def _label(self, node: Node, name: str) -> str:
        """Names from labels around a control kept their blanks."""
        parent = self._parents.get(node["nodeId"])
        while name and parent is not None:
            if self._tag(parent) == "LABEL":
                words = "".join(self._texts(parent, node["nodeId"]))
                return words if words.strip() == name else name
            parent = self._parents.get(parent["nodeId"])
        return name

    def _tag(self, node: Node) -> str:
        return self._layout.tags.get(node.get("backendDOMNodeId", 0), "")

    def _texts(self, node: Node, without: str) -> Iterator[str]:
        waiting = [node["nodeId"]]
        while waiting:
            each = self._by_id.get(waiting.pop())
            if each is None or each["nodeId"] == without:
                continue
            yield self._layout.texts.get(each.get("backendDOMNodeId", 0), "")
            waiting.extend(reversed(each.get("childIds", ())))

    def _merged_texts(self, nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
        """The rows of a text area were one text."""
        for node in nodes:
            value = node.get("value", {}).get("value")
            if self._tag(node) == "TEXTAREA" and isinstance(value, str):
                rows = list(self._rows(node))
                for number, row in enumerate(rows):
                    yield row, "" if number else value

    def _rows(self, node: Node) -> Iterator[str]:
        waiting = list(node.get("childIds", ()))
        while waiting:
            each = self._by_id.get(waiting.pop(0))
            if each is None:
                continue
            if each.get("role", {}).get("value") == "StaticText":
                yield each["nodeId"]
            else:
                waiting[:0] = each.get("childIds", ())
