"""Pictures of an episode's state, for people who read episodes.

What any view must be, so that it can be sent and shown: whole by itself, bounded in size, without
script. An environment makes its own; `env_servers.toolkit.drawing` has pens for SVG and HTML.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from html.parser import HTMLParser
from typing import Final, NamedTuple

__all__ = [
    "MAX_VIEWS",
    "MAX_VIEWS_BYTES",
    "MAX_VIEW_BYTES",
    "MediaType",
    "UnfitView",
    "View",
    "content_flaws",
    "require_fit",
]

MAX_VIEW_BYTES: Final = 4 * 1024 * 1024
"""Of one view's content."""
MAX_VIEWS_BYTES: Final = 8 * 1024 * 1024
"""Of all views of a state together."""
MAX_VIEWS: Final = 16
"""Of one state."""
_MAX_TITLE_CHARS: Final = 200
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CONTROLS: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


class MediaType(StrEnum):
    """What the content of a view is."""

    PNG = "image/png"
    """A bitmap."""
    SVG = "image/svg+xml"
    """A drawing; it stands alone in a file."""
    HTML = "text/html"
    """A whole document."""
    TEXT = "text/plain"
    """Lines of equally wide characters, for terminals, too."""
    JSON = "application/json"
    """The state as data."""


class View(NamedTuple):
    """One picture of a state, or a text that describes it."""

    name: str
    """Tells the views of a state apart, the same from state to state: `[a-z][a-z0-9_]*`."""
    title: str
    """For people, one line."""
    media_type: MediaType
    content: bytes
    """UTF-8 where it is text."""


class UnfitView(Exception):
    """Raised for views that cannot be sent; says which and why."""


def require_fit(views: Sequence[View]) -> None:
    """Raise UnfitView for what no answer could carry: too much, or without a usable name."""
    if len(views) > MAX_VIEWS:
        raise UnfitView(f"{len(views)} views of a state; at most {MAX_VIEWS}")
    if len({view.name for view in views}) != len(views):
        raise UnfitView("two views of a state have the same name")
    for name, title, media_type, content in views:
        if not _NAME.fullmatch(name):
            raise UnfitView(f"a view is called {name[:100]!r}: it must be [a-z][a-z0-9_]*")
        if not title or len(title) > _MAX_TITLE_CHARS or not title.isprintable():
            raise UnfitView(f"the title of the view {name} is no short line: {title[:100]!r}")
        if media_type not in list(MediaType):
            raise UnfitView(f"the view {name} is {media_type!r}; valid: {', '.join(MediaType)}")
        if len(content) > MAX_VIEW_BYTES:
            raise UnfitView(
                f"the view {name} has {len(content):,} bytes; at most {MAX_VIEW_BYTES:,}"
            )
    size = sum(len(view.content) for view in views)
    if size > MAX_VIEWS_BYTES:
        raise UnfitView(f"the views have {size:,} bytes together; at most {MAX_VIEWS_BYTES:,}")


def content_flaws(view: View) -> Iterator[str]:
    """What keeps a view from being shown as what it says it is, one sentence each.

    SVG and HTML must be well-formed, have no script and ask for nothing outside themselves. This
    finds the mistakes of an author; who shows a stranger's views needs walls, too.
    """
    if view.media_type is MediaType.PNG:
        if not view.content.startswith(_PNG_SIGNATURE):
            yield "it is no PNG"
        return
    try:
        text = view.content.decode()
    except UnicodeDecodeError as error:
        yield f"it is no UTF-8: {error.reason}"
        return
    if view.media_type is MediaType.TEXT and _CONTROLS.search(text):
        yield "it has control characters, which drive terminals"
    if view.media_type is MediaType.JSON:
        yield from _json_flaws(text)
    if view.media_type in (MediaType.SVG, MediaType.HTML):
        scanner = _MarkupScanner(view.media_type)
        scanner.feed(text)
        scanner.close()
        yield from scanner.flaws
    if view.media_type is MediaType.SVG:
        yield from _svg_flaws(text)


def _json_flaws(text: str) -> Iterator[str]:
    try:
        json.loads(text)
    except ValueError as error:
        yield f"it is no JSON: {error}"


def _svg_flaws(text: str) -> Iterator[str]:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        yield f"it is no XML: {error}"
        return
    if root.tag != "{http://www.w3.org/2000/svg}svg":
        yield f"its root is {root.tag}, not svg in SVG's namespace"
    if "viewBox" not in root.attrib:
        yield "its root has no viewBox"


_VOID: Final = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track")
)
"""Elements of HTML that are never closed."""
_FORBIDDEN: Final = frozenset(
    (
        "applet",
        "audio",
        "base",
        "embed",
        "foreignobject",
        "form",
        "frame",
        "frameset",
        "iframe",
        "link",
        "object",
        "portal",
        "script",
        "video",
    )
)
"""Elements that run, load or send something."""
_ADDRESSES: Final = frozenset(
    (
        "action",
        "background",
        "cite",
        "data",
        "formaction",
        "href",
        "longdesc",
        "manifest",
        "ping",
        "poster",
        "src",
        "srcset",
        "xlink:href",
    )
)
_LOADS: Final = re.compile(r"@import|expression\(|url\((?!\s*['\"]?#)", re.IGNORECASE)
"""In a style: what brings something from elsewhere."""
_HARMLESS_ADDRESS: Final = re.compile(r"#|data:image/png;base64,")


class _MarkupScanner(HTMLParser):
    """Reads SVG or HTML and notes what must not be in it."""

    def __init__(self, media_type: MediaType) -> None:
        super().__init__(convert_charrefs=True)
        self.flaws: list[str] = []
        self._void: frozenset[str] = _VOID if media_type is MediaType.HTML else frozenset()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._examine(tag, dict(attrs))
        if tag not in self._void:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._examine(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            inside = self._open[-1] if self._open else "nothing"
            self.flaws.append(f"</{tag}> closes {inside}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style" and _LOADS.search(data):
            self.flaws.append("its style loads something")

    def handle_pi(self, data: str) -> None:
        if not data.startswith("xml "):
            self.flaws.append(f"it has a processing instruction: {data[:50]!r}")

    def close(self) -> None:
        """Read what is left, and note what was never closed."""
        super().close()
        if self._open:
            self.flaws.append(f"never closed: {', '.join(self._open[-5:])}")

    def _examine(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        if tag in _FORBIDDEN:
            self.flaws.append(f"it has <{tag}>")
        if tag == "meta" and "http-equiv" in attributes:
            self.flaws.append("it has <meta http-equiv>")
        for name, value in attributes.items():
            if name.startswith("on"):
                self.flaws.append(f"<{tag}> has the event handler {name}")
            elif name in _ADDRESSES and not _HARMLESS_ADDRESS.match(value or ""):
                self.flaws.append(f"<{tag} {name}> points outside: {(value or '')[:50]!r}")
            elif _LOADS.search(value or ""):
                self.flaws.append(f"<{tag} {name}> loads something")
