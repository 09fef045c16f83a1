"""HTML as a tree: what is put into it as text stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias
from xml.etree import ElementTree

from orchestrator.terminal import visible

__all__ = ["Content", "element", "render", "table"]

Content: TypeAlias = "ElementTree.Element | str"


def element(tag: str, *content: Content, **attributes: str) -> ElementTree.Element:
    """Return an element; `class_` is the attribute class, and `_` in names is `-`.

    Control characters, and marks that turn the direction of text, are shown by their codes.
    """
    made = ElementTree.Element(
        tag, {name.strip("_").replace("_", "-"): _clean(it) for name, it in attributes.items()}
    )
    last: ElementTree.Element | None = None
    for piece in content:
        if not isinstance(piece, str):
            made.append(piece)
            last = piece
        elif last is None:
            made.text = (made.text or "") + _clean(piece)
        else:
            last.tail = (last.tail or "") + _clean(piece)
    return made


def _clean(text: str) -> str:
    # A manifest is JSON, whose escapes can spell halves of characters that no file can hold.
    return visible(text).encode("utf-8", "backslashreplace").decode()


def table(
    headings: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: int = 0
) -> ElementTree.Element:
    """Return a table; the last `numbers` columns are aligned to the right."""
    texts = len(headings) - numbers
    kinds = ["text"] * texts + ["number"] * numbers
    head = element(
        "tr",
        *(
            element("th", heading, scope="col", class_=kind)
            for heading, kind in zip(headings, kinds, strict=True)
        ),
    )
    body = [
        element(
            "tr",
            *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
        )
        for row in rows
    ]
    inner = element("table", element("thead", head), element("tbody", *body))
    # Wider than a phone: it scrolls, and can be reached by keyboard to do so.
    return element("div", inner, class_="scrolled", tabindex="0", role="region", aria_label="Table")


def render(tree: ElementTree.Element) -> str:
    """Return a tree as HTML."""
    return ElementTree.tostring(tree, encoding="unicode", method="html")
