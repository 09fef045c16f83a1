"""Where the nodes of a page are, from one snapshot of its layout.

Pure. A rectangle is in the coordinates of the window, as `getBoundingClientRect` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from env_servers.environments.webarena.observation.reports import SnapshotReport

__all__ = ["WINDOW_HEIGHT", "WINDOW_WIDTH", "Layout", "Rectangle", "read_layout"]

WINDOW_WIDTH: Final = 1280
WINDOW_HEIGHT: Final = 720
_LEAST_SCORE: Final = 0.6


class Rectangle(msgspec.Struct, frozen=True, gc=False):
    """A part of the window, or outside of it; a struct, because every box of a page is one."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def in_view(self) -> bool:
        """Whether the original takes it for visible.

        Its score is overlap / width * height in this order, so a pixel of most things suffices.
        """
        if self.width == 0 or self.height == 0:
            return False
        across = max(0.0, min(self.x + self.width, WINDOW_WIDTH) - max(self.x, 0))
        down = max(0.0, min(self.y + self.height, WINDOW_HEIGHT) - max(self.y, 0))
        return across * down / self.width * self.height >= _LEAST_SCORE

    def union(self, other: Rectangle) -> Rectangle:
        """Return the smallest rectangle around both."""
        left, top = min(self.x, other.x), min(self.y, other.y)
        right = max(self.x + self.width, other.x + other.width)
        bottom = max(self.y + self.height, other.y + other.height)
        return Rectangle(left, top, right - left, bottom - top)


@dataclass(frozen=True, slots=True)
class Layout:
    """The rectangles of a document's nodes, by backend node ids."""

    rectangles: Mapping[int, Rectangle]
    known: frozenset[int]
    """All nodes of the snapshot; what is known and has no rectangle is not shown."""
    tags: Mapping[int, str]
    """Names of the elements."""
    attributes: Mapping[int, Mapping[str, str]]
    texts: Mapping[int, str]
    """Of text nodes, as they are laid out."""
    markers: Mapping[int, Rectangle]
    """Of what style sheets add, such as the bullets of lists."""
    scroll: tuple[float, float]
    title: str
    url: str

    def unknown(self, nodes: Iterable[int]) -> list[int]:
        """Return the nodes that only the page can tell of: those inside of form controls."""
        return [node for node in nodes if node not in self.known]


def read_layout(snapshot: SnapshotReport) -> Layout:
    """Return the layout of the main document of `DOMSnapshot.captureSnapshot`."""
    document, strings = snapshot.documents[0], snapshot.strings
    nodes, layout = document.nodes, document.layout
    left, top = document.scroll_offset_x, document.scroll_offset_y
    backend_ids = nodes.backend_node_id
    pseudo = set(nodes.pseudo_type.index)
    rectangles: dict[int, Rectangle] = {}
    markers: dict[int, Rectangle] = {}
    all_texts = layout.text or [-1] * len(layout.node_index)
    texts: dict[int, str] = {}
    for index, bounds, text in zip(layout.node_index, layout.bounds, all_texts, strict=True):
        node = backend_ids[index]
        x, y, width, height = bounds
        found = Rectangle(x - left, y - top, width, height)
        if text >= 0:
            texts[node] = texts.get(node, "") + strings[text]
        kind = markers if index in pseudo else rectangles
        known = kind.get(node)
        kind[node] = found if known is None else known.union(found)
    return Layout(
        rectangles,
        frozenset(backend_ids),
        {node: strings[name] for node, name in zip(backend_ids, nodes.node_name, strict=False)},
        _Attributes(strings, backend_ids, nodes.attributes),
        texts,
        markers,
        (left, top),
        _string(strings, document.title),
        _string(strings, document.document_url),
    )


class _Attributes(Mapping[int, Mapping[str, str]]):
    """The attributes of elements, read when they are asked for."""

    def __init__(self, strings: list[str], nodes: list[int], attributes: list[list[int]]) -> None:
        self._strings = strings
        self._indices = dict(zip(nodes, attributes, strict=False))

    def __getitem__(self, node: int) -> Mapping[str, str]:
        pairs = [self._strings[each] for each in self._indices[node]]
        return dict(zip(pairs[::2], pairs[1::2], strict=True))

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


def _string(strings: list[str], index: int) -> str:
    return strings[index] if index >= 0 else ""
