"""Text of strangers on a terminal: shown, and never obeyed.

What agents, environments, model servers and other people's run folders say may hold sequences that
move the cursor, rename the window or rewrite what was printed before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

__all__ = ["TerminalConsole", "visible"]

_CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""C0 and C1 without tab and newline, and the marks that turn the direction of text."""


def visible(text: str) -> str:
    """Return the text with control characters shown by their codes, harmless on a terminal."""
    return _CONTROL.sub(
        lambda control: f"\\x{ord(control.group()):02x}", text.replace("\r\n", "\n")
    )


class TerminalConsole(Console):
    """A console that shows control characters by their codes and takes no text for markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render to segments; those that rich itself makes to control the terminal stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)
