"""The sheet as a grid, with what is not yet as it was asked for, and the notes on its cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from env_servers.environments.sheet.assignments import Assignment
from env_servers.environments.sheet.cells import Address, column_label
from env_servers.environments.sheet.memory import MemorySpreadsheet
from env_servers.environments.sheet.scoring import Grid
from env_servers.environments.sheet.workbook import Sheet
from env_servers.sdk import View
from env_servers.toolkit.drawing import Table, document, element, facts, join, text_view

__all__ = ["draw"]

_MAX_ROWS: Final = 100
_MAX_COLUMNS: Final = 26
_MAX_NOTES: Final = 30
_MAX_CHARS: Final = 100
"""Of a cell: agents may write what they like, and a view has its limit."""


def draw(spreadsheet: MemorySpreadsheet, assignment: Assignment) -> list[View]:
    """Draw the sheet that counts; it is only read."""
    names = spreadsheet.book.names()
    sheet = spreadsheet.book.sheet(assignment.sheet) if assignment.sheet in names else Sheet()
    grid, target = sheet.values(), assignment.target
    known = {
        "goal": assignment.goal,
        "sheet": assignment.sheet if assignment.sheet in names else f"{assignment.sheet} (deleted)",
        "opened": spreadsheet.opened or "none",
        "sheets": ", ".join(names),
        "cells to change": sum(1 for _ in _wrong_cells(grid, target)),
    }
    notes = [
        [Address(row, column).label, cell.note]
        for row, cells in enumerate(sheet.rows)
        for column, cell in enumerate(cells)
        if cell.note
    ]
    noted = Table(["cell", "note"], notes, "Notes", _MAX_NOTES)
    shown = _shown_grid(grid, target)
    parts = [facts(known), shown.html(), *([noted.html()] if notes else [])]
    lines = [f"{name}: {value}" for name, value in known.items()]
    lines += ["", _grid_as_text(grid, target).text(), *(["", noted.text()] if notes else [])]
    return [
        document("grid", "Sheet", *parts),
        text_view("grid_text", "Sheet as text", "\n".join(lines)),
    ]


def _size(grid: Grid, target: Grid) -> tuple[int, int]:
    """Rows and columns that either has."""
    width = max((len(row) for rows in (grid, target) for row in rows), default=0)
    return max(len(grid), len(target)), width


def _at(grid: Grid, row: int, column: int) -> str:
    return grid[row][column] if row < len(grid) and column < len(grid[row]) else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"


def _wrong_cells(grid: Grid, target: Grid) -> Iterator[Address]:
    height, width = _size(grid, target)
    for row in range(height):
        for column in range(width):
            if _at(grid, row, column) != _at(target, row, column):
                yield Address(row, column)


def _head(width: int) -> list[str]:
    return ["", *map(column_label, range(min(width, _MAX_COLUMNS)))]


def _shown_grid(grid: Grid, target: Grid) -> Table:
    height, width = _size(grid, target)
    rows = [
        [str(row + 1), *(_cell(grid, target, row, column) for column in range(width))]
        for row in range(height)
    ]
    caption = "Struck out: not as it was asked for; what was asked for stands beside it"
    return Table(_head(width), [row[: _MAX_COLUMNS + 1] for row in rows], caption, _MAX_ROWS)


def _cell(grid: Grid, target: Grid, row: int, column: int) -> object:
    text, wanted = _at(grid, row, column), _at(target, row, column)
    if text == wanted:
        return _cut(text)
    there, missing = element("s", _cut(text), class_="bad"), element("b", wanted, class_="good")
    return join((there, " ", missing))


def _grid_as_text(grid: Grid, target: Grid) -> Table:
    height, width = _size(grid, target)
    rows: list[list[str]] = []
    for row in range(height):
        cells = [str(row + 1)]
        for column in range(min(width, _MAX_COLUMNS)):
            text, wanted = _at(grid, row, column), _at(target, row, column)
            cells.append(text if text == wanted else f"{text}≠{wanted}")
        rows.append(cells)
    return Table(_head(width), rows, "≠: not as it was asked for", _MAX_ROWS)
