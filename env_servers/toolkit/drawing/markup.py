"""Markup that escapes whatever is put into it: observations quote what models wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final

__all__ = ["STYLE", "Markup", "element", "join", "printable"]

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)

STYLE: Final = (
    ":root{color-scheme:light dark;--ink:#1f2328;--muted:#59636e;--paper:#fff;--panel:#f6f8fa;"
    "--line:#d1d9e0;--good:#1a7f37;--bad:#cf222e;--warn:#9a6700;--accent:#0969da}"
    "@media(prefers-color-scheme:dark){:root{--ink:#f0f6fc;--muted:#9198a1;--paper:#0d1117;"
    "--panel:#151b23;--line:#3d444d;--good:#3fb950;--bad:#f85149;--warn:#d29922;"
    "--accent:#4493f8}}"
)
"""The colours of all views, by name, in light and dark; text on `paper` has a contrast of 4.5."""


class Markup(str):
    """Text that is markup already, and safe."""

    __slots__ = ()


def printable(text: str) -> str:
    """Return a text without what drives terminals or turns the direction of what is around it."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _escaped(part: object) -> str:
    return part if isinstance(part, Markup) else escape(printable(str(part)))


def join(parts: Iterable[object]) -> Markup:
    """Return the parts in a row; all but Markup is escaped."""
    return Markup("".join(map(_escaped, parts)))


def element(tag: str, *parts: object, **attributes: object) -> Markup:
    """Return an element with its parts inside; text and attributes are escaped.

    An attribute's name may end with `_` (`class_`), and has `_` for `-`; one that is None is left
    out.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{join(parts)}</{tag}>")
