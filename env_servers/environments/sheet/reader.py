"""Opens .xlsx files as base workbooks.

A file is data from outside, so its size, the size that it unpacks to and the size of each sheet are
bounded, and nothing in it is ever executed or fetched. Needs openpyxl, which the extra `sheet`
brings.
"""

from __future__ import annotations

import datetime
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from env_servers.environments.sheet.cells import (
    EMPTY,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TEXT,
    Cell,
    Value,
)
from env_servers.environments.sheet.workbook import Area, Row, Sheet
from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

__all__ = ["read_workbook"]

MAX_FILE: Final = 16 * 2**20
"""Bytes of a file."""
MAX_UNPACKED: Final = 128 * 2**20
"""Bytes that its parts may unpack to."""
MAX_SHEETS: Final = 200
MAX_ELEMENTS: Final = 1_000_000
"""XML elements of all parts: openpyxl takes 15 µs and some hundred bytes for each."""
_CHUNK: Final = 2**16
_UNREADABLE: Final = (
    *(AttributeError, EOFError, IndexError, KeyError, RuntimeError, SyntaxError, TypeError),
    *(ValueError, zipfile.BadZipFile, zlib.error),
)
"""What openpyxl and the archive raise over files that are damaged, encrypted or no workbooks."""


def read_workbook(path: Path) -> dict[str, Sheet]:
    """Return the sheets of a file, by name, in order.

    Raises EnvironmentUnavailable where openpyxl is missing, ValueError naming the file where it
    is no workbook or too large. Cells beyond the limits of a sheet are refused, not cut off.
    """
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise EnvironmentUnavailable(
            f"reading {path.name} needs openpyxl: {install_command('sheet')}"
        ) from error
    _check_size(path)
    try:
        _check_parts(path)
        book = openpyxl.load_workbook(path, data_only=True, keep_links=False)
        names = book.sheetnames
        if len(names) > MAX_SHEETS:
            raise ValueError(f"more than {MAX_SHEETS} sheets")
        return {name: _sheet(book[name]) for name in names}
    except _UNREADABLE as error:
        raise ValueError(f"{path}: not a workbook that can be read: {error}") from error


def _check_size(path: Path) -> None:
    if path.stat().st_size > MAX_FILE:
        raise ValueError(f"{path}: larger than {MAX_FILE} bytes")
    try:
        with zipfile.ZipFile(path) as parts:
            unpacked = sum(part.file_size for part in parts.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not an .xlsx file") from error
    if unpacked > MAX_UNPACKED:
        raise ValueError(f"{path}: unpacks to more than {MAX_UNPACKED} bytes")


def _check_parts(path: Path) -> None:
    """Refuse what openpyxl would need hours or gigabytes for; raises ValueError."""
    elements = merged = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal elements, merged
        elements += 1
        if elements > MAX_ELEMENTS:
            raise ValueError(f"more than {MAX_ELEMENTS} XML elements")
        # openpyxl makes an object for every merged cell while it reads.
        if name.rpartition(":")[2] == "mergeCell":
            merged += _area(attributes.get("ref", ""))
            if merged > MAX_CELLS:
                raise ValueError(f"more than {MAX_CELLS} merged cells")

    with zipfile.ZipFile(path) as parts:
        for part in parts.infolist():
            parser = expat.ParserCreate()
            parser.StartElementHandler = start
            # A part that is no XML is an image, or openpyxl says what is wrong with it.
            with parts.open(part) as stream, suppress(expat.ExpatError):
                while chunk := stream.read(_CHUNK):
                    parser.Parse(chunk)


def _area(reference: str) -> int:
    """Return how many cells a merge has; whole rows and columns are more than a sheet may have."""
    from openpyxl.utils import range_boundaries

    left, top, right, bottom = range_boundaries(reference)
    if left is None or top is None or right is None or bottom is None:
        return MAX_CELLS + 1
    return (right - left + 1) * (bottom - top + 1)


def _sheet(source: Any) -> Sheet:
    """Return one worksheet of openpyxl's."""
    height, width = source.max_row or 0, source.max_column or 0
    if height > MAX_ROWS or width > MAX_COLUMNS or height * width > MAX_CELLS:
        raise ValueError(f"sheet {source.title} has {height} x {width} cells")
    rows = [tuple(map(_cell, row)) for row in source.iter_rows()]
    merges = [
        Area(area.min_row - 1, area.min_col - 1, area.max_row - 1, area.max_col - 1)
        for area in source.merged_cells.ranges
    ]
    return Sheet(_trimmed(rows), sorted(merges))


def _trimmed(rows: list[Row]) -> list[Row]:
    """Without the empty rows and columns at the end."""
    while rows and all(cell == EMPTY for cell in rows[-1]):
        rows.pop()
    used = max((k + 1 for row in rows for k, cell in enumerate(row) if cell != EMPTY), default=0)
    return [row[:used] for row in rows]


def _cell(source: Any) -> Cell:
    note = source.comment.text if getattr(source, "comment", None) else ""
    cell = Cell(_value(source.value), source.number_format or "General", note[:MAX_TEXT])
    return EMPTY if cell == EMPTY else cell


def _value(value: Any) -> Value:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)[:MAX_TEXT]
