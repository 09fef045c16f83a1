"""What the browser reports of a page, as far as observations need it; the rest is skipped unread.

Contains the types that its JSON is decoded into. Whatever is left out here is most of the text: a
page of 3,000 nodes is reported in a million characters.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["AccessibilityReport", "Label", "Node", "Property", "SnapshotReport", "Value"]


class Label(msgspec.Struct, frozen=True, gc=False):
    """A role or a name."""

    value: str | None = None


class Value(msgspec.Struct, frozen=True, gc=False):
    """A value of any type; UNSET where the browser only refers to other nodes."""

    value: Any = msgspec.UNSET


class Property(msgspec.Struct, frozen=True, gc=False):
    """A property of a node."""

    name: str
    value: Value


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """One node of the accessibility tree."""

    node_id: str
    backend_id: int = msgspec.field(default=0, name="backendDOMNodeId")
    """0 = it stands for no node of the document."""
    role: Label | None = None
    name: Label | None = None
    """None = the node is ignored."""
    value: Value | None = None
    properties: tuple[Property, ...] = ()
    child_ids: tuple[str, ...] = ()

    @property
    def role_name(self) -> str:
        """The role; nothing where there is none."""
        return (self.role and self.role.value) or ""


class AccessibilityReport(msgspec.Struct, frozen=True, gc=False):
    """The answer to `Accessibility.getFullAXTree`."""

    nodes: list[Node]


class Marked(msgspec.Struct, frozen=True, gc=False):
    """The nodes that have some feature, by their places in the list of nodes."""

    index: tuple[int, ...] = ()


class Filled(msgspec.Struct, frozen=True, gc=False):
    """Texts that some nodes have, by their places in the list of nodes."""

    index: tuple[int, ...] = ()
    value: tuple[int, ...] = ()


class SnapshotNodes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The nodes of a document; lists are parallel. Numbers below 0 are no strings."""

    backend_node_id: list[int]
    node_name: list[int] = msgspec.field(default_factory=list[int])
    attributes: list[list[int]] = msgspec.field(default_factory=list[list[int]])
    pseudo_type: Marked = Marked()
    parent_index: list[int] = msgspec.field(default_factory=list[int])
    node_value: list[int] = msgspec.field(default_factory=list[int])
    input_value: Filled = Filled()


class SnapshotLayout(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The boxes of a document; lists are parallel."""

    node_index: list[int]
    bounds: list[tuple[float, float, float, float]]
    """Left, top, width, height in the coordinates of the document."""
    text: list[int] | None = None


class SnapshotDocument(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A document and its layout."""

    title: int
    document_url: int = msgspec.field(name="documentURL")
    scroll_offset_x: float = 0.0
    scroll_offset_y: float = 0.0
    nodes: SnapshotNodes
    layout: SnapshotLayout


class SnapshotReport(msgspec.Struct, frozen=True, gc=False):
    """The answer to `DOMSnapshot.captureSnapshot`."""

    documents: list[SnapshotDocument]
    """The main document is the first one."""
    strings: list[str]
