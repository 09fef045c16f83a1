"""Views of plain text, for terminals."""

from __future__ import annotations

from env_servers.sdk import MediaType, View
from env_servers.toolkit.drawing.markup import printable

__all__ = ["text_view"]


def text_view(name: str, title: str, text: str) -> View:
    """Return a view of lines, without control characters."""
    lines = printable("\n".join(text.splitlines()).expandtabs())
    return View(name, title, MediaType.TEXT, lines.encode())
