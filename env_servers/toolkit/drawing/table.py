"""A table that can be shown as HTML and on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from env_servers.toolkit.drawing.markup import Markup, element

__all__ = ["Table"]

_MAX_CELL_CHARS: Final = 1_000
_MAX_COLUMN_CHARS: Final = 60
"""On a terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values below a head; None is shown as nothing."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    max_rows: int = 200
    """Of those that are shown; how many more there are is said."""

    @property
    def _hidden(self) -> str:
        hidden = len(self.rows) - self.max_rows
        return f"{hidden:,} more rows" if hidden > 0 else ""

    def html(self) -> Markup:
        """Return the table as markup."""
        parts = [element("caption", self.caption)] if self.caption else []
        if self.head:
            cells = (element("th", name) for name in self.head)
            parts.append(element("thead", element("tr", *cells)))
        rows = [element("tr", *map(_cell, row)) for row in self.rows[: self.max_rows]]
        if self._hidden:
            columns = max(1, len(self.head))
            rows.append(element("tr", element("td", self._hidden, colspan=columns, class_="muted")))
        return element("table", *parts, element("tbody", *rows))

    def text(self) -> str:
        """Return the table as lines of equally wide columns."""
        rows = [[_line(value) for value in row] for row in self.rows[: self.max_rows]]
        head = [list(map(_line, self.head))] if self.head else []
        count = max((len(row) for row in head + rows), default=0)
        widths = [
            max((len(row[column]) for row in head + rows if column < len(row)), default=0)
            for column in range(count)
        ]
        lines = [self.caption] if self.caption else []
        for row in head:
            lines += [_padded(row, widths), "  ".join("-" * width for width in widths)]
        lines += [_padded(row, widths) for row in rows]
        if self._hidden:
            lines.append(f"({self._hidden})")
        return "\n".join(lines)


def _cell(value: object) -> Markup:
    if isinstance(value, Markup):
        return element("td", value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return element("td", _shown(value), class_="number" if number else None)


def _shown(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[:_MAX_CELL_CHARS]}…"


def _line(value: object) -> str:
    text = " ".join(_shown(value).split())
    return text if len(text) <= _MAX_COLUMN_CHARS else f"{text[: _MAX_COLUMN_CHARS - 1]}…"


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
