"""The window as a picture for people: what was acted on is marked, the tree stands beside it."""

from __future__ import annotations

import base64
from typing import Final

from env_servers.environments.webarena.browsing import Picture, Seen
from env_servers.environments.webarena.observation.rectangles import (
    WINDOW_HEIGHT,
    WINDOW_WIDTH,
    Rectangle,
)
from env_servers.environments.webarena.observation.tree import Element
from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing import Markup, document, element, text_view

__all__ = ["draw"]

_STYLE: Final = Markup(
    ".both{display:flex;gap:12px;align-items:flex-start}.both pre{flex:1;min-width:0;margin:0;"
    "font-size:12px;tab-size:2}svg{width:60%;flex:none;border:1px solid var(--line)}"
)
_ACTED: Final = "#cf222e"
_MARK: Final = "#0969da"
_ACTIVE: Final = frozenset(
    (
        *("button", "checkbox", "combobox", "gridcell", "link", "listbox", "menuitem", "option"),
        *("radio", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"),
    )
)
"""Roles of what is clicked on or typed into."""


def draw(picture: Picture, seen: Seen, acted: Element | None) -> list[View]:
    """Draw what the window shows.

    Args:
        picture: The window, and where its elements are.
        seen: The last observation.
        acted: The element of the last action, as it was before; None = it had none.
    """
    image = base64.b64encode(picture.png).decode("ascii")
    marked = () if acted is None else _acted(picture, acted)
    beside = element("pre", seen.content)
    both = element("div", _sheet(image, *marked), beside, class_="both")
    boxes = [
        _box(number, box, _MARK, thick=1)
        for number, box in picture.marks.items()
        if seen.tree.elements[number].line.split(" ", 2)[1] in _ACTIVE
    ]
    return [
        document("window", "Window and tree", element("style", _STYLE), both),
        View("screenshot", "Window", MediaType.PNG, picture.png),
        document("marks", "Window with the numbers of its elements", _sheet(image, *boxes)),
        text_view("text", "Tree as text", f"{seen.content}\n"),
    ]


def _acted(picture: Picture, acted: Element) -> list[Markup]:
    """A box where the element is now, or a broken one where it was."""
    now = picture.marks.get(acted.element_id)
    box = now or acted.rectangle
    return [] if box is None else [_box(acted.element_id, box, _ACTED, thick=3, gone=now is None)]


def _sheet(image: str, *boxes: Markup) -> Markup:
    shown = Markup(
        f'<image width="{WINDOW_WIDTH}" height="{WINDOW_HEIGHT}" '
        f'href="data:image/png;base64,{image}"></image>'
    )
    return element("svg", shown, *boxes, viewBox=f"0 0 {WINDOW_WIDTH} {WINDOW_HEIGHT}")


def _box(number: str, box: Rectangle, colour: str, *, thick: int, gone: bool = False) -> Markup:
    outline = element(
        "rect",
        x=f"{box.x:.1f}",
        y=f"{box.y:.1f}",
        width=f"{box.width:.1f}",
        height=f"{box.height:.1f}",
        fill="none",
        stroke=colour,
        stroke_width=thick,
        stroke_dasharray="8 6" if gone else None,
    )
    left, top = max(0.0, box.x), max(0.0, box.y - 14)
    paper = element(
        "rect", x=f"{left:.1f}", y=f"{top:.1f}", width=8 * len(number) + 4, height=14, fill=colour
    )
    label = element(
        "text",
        number,
        x=f"{left + 2:.1f}",
        y=f"{top + 11:.1f}",
        fill="#fff",
        font_size=12,
        font_family="monospace",
    )
    return element("g", outline, paper, label)
