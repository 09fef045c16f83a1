"""What a cell holds and how it looks: values, number formats, addresses and formulas.

Halves are rounded away from zero, as spreadsheets do. A cell never changes, so sheets share them
freely.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "EMPTY",
    "OPERATORS",
    "Address",
    "Cell",
    "CellError",
    "Formula",
    "IncorrectCellLabel",
    "Value",
    "calculate",
    "column_label",
    "parse_address",
    "parse_number",
    "render",
]

MAX_ROWS: Final = 1_000
MAX_COLUMNS: Final = 100
MAX_CELLS: Final = 20_000
"""A sheet never has more cells than this, nor more rows or columns than above."""
MAX_TEXT: Final = 2_000
"""Longest text of a cell or a note, in characters."""
_PLAIN_DIGITS: Final = 15
_LABEL: Final = re.compile(r"([A-Za-z]{1,3})([1-9][0-9]{0,6})", re.ASCII)
_NUMERIC: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_FORMAT: Final = re.compile(r"(#,##)?0(?:\.(0+))?(%)?")


class CellError(ValueError):
    """A value or an address that a sheet cannot hold."""


class IncorrectCellLabel(CellError):
    """Text that is no A1 address; named as in the original's client library."""


class Address(NamedTuple):
    """A cell's place, both counted from 0."""

    row: int
    column: int

    @property
    def label(self) -> str:
        """A1 notation."""
        return f"{column_label(self.column)}{self.row + 1}"


@lru_cache(maxsize=256)
def column_label(column: int) -> str:
    """0 is A, 26 is AA."""
    label = ""
    number = column + 1
    while number:
        number, rest = divmod(number - 1, 26)
        label = chr(65 + rest) + label
    return label


def parse_address(label: object) -> Address:
    """Return the place that A1 notation names; raises IncorrectCellLabel."""
    match = _LABEL.fullmatch(label.strip()) if isinstance(label, str) else None
    if match is None:
        raise IncorrectCellLabel(_shown(label))
    column = 0
    for char in match[1].upper():
        column = column * 26 + ord(char) - 64
    row = int(match[2])
    if row > MAX_ROWS or column > MAX_COLUMNS:
        raise CellError(f"{_shown(label)} exceeds the grid limits")
    return Address(row - 1, column - 1)


def _shown(value: object) -> str:
    return value[:50] if isinstance(value, str) else repr(value)[:50]


@dataclass(frozen=True, slots=True)
class Formula:
    """An operator over cells of the same sheet."""

    operator: str
    references: tuple[Address | None, ...]
    """None = the cell was deleted."""

    def moved(self, rows: int) -> Formula:
        """Return the same formula, written so many rows further down."""
        return Formula(
            self.operator,
            tuple(
                Address(address.row + rows, address.column)
                if address is not None and address.row + rows >= 0
                else None
                for address in self.references
            ),
        )

    def mapped(self, where: Callable[[Address], Address | None]) -> Formula:
        """Return the same formula after its cells went elsewhere."""
        return Formula(
            self.operator,
            tuple(None if address is None else where(address) for address in self.references),
        )


Value = float | str | bool | Formula | None
"""What a cell holds; None = nothing."""


class Cell(NamedTuple):
    """One cell: its value, how numbers look in it, and the note on it."""

    value: Value = None
    format: str = "General"
    note: str = ""


EMPTY: Final = Cell()


def parse_number(value: object) -> float | str:
    """Return a value as it is written: numeric text becomes a number.

    Raises CellError for anything but finite numbers and short text without a formula.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return _text_value(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CellError(f"a cell cannot hold a {type(value).__name__}")
    if isinstance(value, int) and value.bit_length() > 1000:
        raise CellError("a cell cannot hold so large a number")
    if not math.isfinite(value):
        raise CellError("a cell cannot hold a number that is not finite")
    return float(value)


def _text_value(text: str) -> float | str:
    if len(text) > MAX_TEXT:
        raise CellError(f"a cell cannot hold more than {MAX_TEXT} characters")
    stripped = text.strip()
    if _NUMERIC.fullmatch(stripped):
        number = float(stripped)
        if math.isfinite(number):
            return number
    if stripped.startswith(("=", "+", "@")):
        raise CellError("formulas are entered with update_cell_by_formula only")
    return text


@lru_cache(maxsize=65_536)
def render(value: float, number_format: str) -> str:
    """Return a number as its format shows it."""
    match = _FORMAT.fullmatch(number_format)
    if match is None:
        return _general(value)
    grouped, decimals, percent = match.groups()
    exact = Decimal(repr(value)) * (100 if percent else 1)
    rounded = exact.quantize(Decimal(1).scaleb(-len(decimals or "")), ROUND_HALF_UP)
    if rounded.is_zero():
        rounded = abs(rounded)
    return f"{rounded:{',' if grouped else ''}f}{percent or ''}"


def _general(value: float) -> str:
    if value == int(value) and abs(value) < 10**_PLAIN_DIGITS:
        return str(int(value))
    return f"{value:.10g}".upper()


def _sum(numbers: Sequence[float]) -> float:
    return math.fsum(numbers)


def _average(numbers: Sequence[float]) -> float | str:
    return math.fsum(numbers) / len(numbers) if numbers else "#DIV/0!"


def _product(numbers: Sequence[float]) -> float:
    return math.prod(numbers) if numbers else 0.0


def _minus(numbers: Sequence[float]) -> float | str:
    return numbers[0] - numbers[1] if len(numbers) == 2 else "#N/A"


OPERATORS: Final[dict[str, Callable[[Sequence[float]], float | str]]] = {
    "SUM": _sum,
    "AVERAGE": _average,
    "COUNT": lambda numbers: float(len(numbers)),
    "MAX": lambda numbers: max(numbers, default=0.0),
    "MIN": lambda numbers: min(numbers, default=0.0),
    "MINUS": _minus,
    "PRODUCT": _product,
}


def calculate(operator: str, numbers: Sequence[float]) -> float | str:
    """Return a formula's result, or a spreadsheet's error text such as `#DIV/0!`."""
    try:
        result = OPERATORS[operator](numbers)
    except OverflowError:
        return "#NUM!"
    return result if isinstance(result, str) or math.isfinite(result) else "#NUM!"
