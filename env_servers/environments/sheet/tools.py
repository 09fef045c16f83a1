"""What the agent's functions do to a workbook: one open sheet, arguments as agents write them.

Indexes are 1-based, guards and error texts are the original's. A function returns text, a grid of
texts or a list; what goes wrong is the Python representation of an error, as in the original. Any
`Spreadsheet` will do, in memory or remote.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, cast

from env_servers.environments.sheet.cells import (
    MAX_CELLS,
    OPERATORS,
    Address,
    CellError,
    parse_address,
    parse_number,
)
from env_servers.environments.sheet.pattern import PatternError, compile_pattern
from env_servers.environments.sheet.workbook import Area, WorksheetNotFound

__all__ = ["NOT_OPEN", "SheetTools", "Spreadsheet"]

NOT_OPEN: Final = "Please open a sheet before operating it"
WHOLE_UPDATE: Final = "Warning: You cannot update whole sheet at once"
WHOLE_DELETE: Final = "You cannot delete whole sheet at once"
MAX_LITERAL: Final = 100_000
"""Longest list that is given as text."""

MAX_SEARCH: Final = 50_000_000
"""Most operations of a search; RE2 needs up to 10 ns for one where it cannot build a table."""

_REGULAR: Final = re.compile(r"re\.compile\((.*)\)", re.DOTALL)
_P = ParamSpec("_P")
Grid = list[list[str]]


class Spreadsheet(ABC):
    """A workbook with at most one open sheet; indexes are counted from 0.

    Errors that an agent causes are CellError or WorksheetNotFound.
    """

    @abstractmethod
    def open(self, name: str) -> None:
        """Open a sheet."""

    @property
    @abstractmethod
    def opened(self) -> str | None:
        """Name of the open sheet."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a sheet; if it was open, none is."""

    @abstractmethod
    def values(self) -> Grid:
        """Displayed values of the open sheet; merged areas are filled."""

    @abstractmethod
    def write(self, changes: Mapping[Address, float | str]) -> None:
        """Replace values; "" empties a cell."""

    @abstractmethod
    def write_formula(self, address: Address, operator: str, references: Sequence[Address]) -> None:
        """Put a formula into a cell."""

    @abstractmethod
    def result(self, operator: str, references: Sequence[Address]) -> str:
        """Return what a formula would show."""

    @abstractmethod
    def insert(self, dimension: str, index: int, values: Sequence[Sequence[float | str]]) -> None:
        """Insert rows or columns (`row`, `col`) before an index."""

    @abstractmethod
    def remove(self, dimension: str, indexes: Sequence[int]) -> None:
        """Remove rows or columns (`row`, `col`)."""

    @abstractmethod
    def sort(self, column: int, *, descending: bool) -> None:
        """Sort the rows that are not frozen."""

    @abstractmethod
    def freeze(self, dimension: str, count: int) -> None:
        """Freeze the first rows or columns (`rows`, `columns`)."""

    @abstractmethod
    def merge(self, area: Area) -> None:
        """Make one cell of an area."""

    @abstractmethod
    def note(self, address: Address) -> str:
        """Return the note on a cell; empty = none."""

    @abstractmethod
    def write_note(self, address: Address, content: str) -> None:
        """Put a note on a cell."""


def _answered(
    function: Callable[Concatenate[SheetTools, _P], Any],
) -> Callable[Concatenate[SheetTools, _P], Any]:
    """Agents' mistakes come back as the representation of the error."""

    @wraps(function)
    def call(self: SheetTools, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        try:
            return function(self, *args, **kwargs)
        except (CellError, WorksheetNotFound, PatternError) as error:
            return repr(error)

    return call


def _on_open_sheet(
    function: Callable[Concatenate[SheetTools, _P], Any],
) -> Callable[Concatenate[SheetTools, _P], Any]:
    """Like `_answered`, for what needs an open sheet."""
    answered = _answered(function)

    @wraps(function)
    def call(self: SheetTools, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        if self.book.opened is None:
            return NOT_OPEN
        return answered(self, *args, **kwargs)

    return call


class SheetTools:
    """The functions, on one spreadsheet."""

    def __init__(self, book: Spreadsheet) -> None:
        self.book = book

    # -- sheets -------------------------------------------------------------------------------

    @_answered
    def open_sheet(self, name: object) -> str:
        self.book.open(_text(name))
        return f"Open sheet {name} successfully."

    @_answered
    def del_sheet(self, name: object) -> str:
        self.book.delete(_text(name))
        return f"Delete sheet {name} successfully."

    @_on_open_sheet
    def freeze_data(self, dimension: object, num: object) -> Grid:
        axis = _require_one_of(dimension, ("rows", "columns"))
        count = _integer(num)
        grid = self.book.values()
        size = len(grid) if axis == "rows" else _width(grid)
        if not 0 <= count < max(size, 1):
            raise CellError(f"{count} {axis} cannot be frozen")
        self.book.freeze(axis, count)
        return self.book.values()

    @_answered
    def get_A1_annotation(self, row: object, col: object) -> str:  # noqa: N802
        address = Address(_integer(row) - 1, _integer(col) - 1)
        if min(address) < 0 or address.column >= 18_278:
            raise CellError("rows and columns are counted from 1")
        return address.label

    # -- writing ------------------------------------------------------------------------------

    @_on_open_sheet
    def insert_cols(self, values_list: object, col_idx: object) -> Grid:
        return self._insert("col", values_list, col_idx)

    @_on_open_sheet
    def insert_rows(self, values_list: object, row_idx: object) -> Grid:
        return self._insert("row", values_list, row_idx)

    def _insert(self, dimension: str, values_list: object, position: object) -> Grid:
        values = [list(map(parse_number, line)) for line in _lines(values_list)]
        index = _integer(position)
        if index < 1 or not values:
            raise CellError("rows and columns are counted from 1, and one must be given")
        self.book.insert(dimension, index - 1, values)
        return self.book.values()

    @_on_open_sheet
    def delete_batch_data(self, dimension: object, index_list: object) -> Grid | str:
        axis = _require_one_of(dimension, ("row", "col"))
        indexes = sorted({_integer(index) - 1 for index in _list(index_list)}, reverse=True)
        grid = self.book.values()
        size = len(grid) if axis == "row" else _width(grid)
        if size and set(range(size)) <= set(indexes):
            return WHOLE_DELETE
        self.book.remove(axis, indexes)
        return self.book.values()

    @_on_open_sheet
    def update_cell(self, position: object, value: object) -> Grid:
        self.book.write({parse_address(position): parse_number(value)})
        return self.book.values()

    @_on_open_sheet
    def update_cell_by_formula(
        self,
        start_position: object = None,
        end_position: object = None,
        position_list: object = None,
        result_position: object = None,
        operator: object = None,
    ) -> Grid:
        name, references = _formula(start_position, end_position, position_list, operator)
        self.book.write_formula(parse_address(result_position), name, references)
        return self.book.values()

    @_on_open_sheet
    def update_range(
        self, start_position: object, end_position: object, values_list: object
    ) -> Grid | str:
        area = _area(start_position, end_position)
        lines = [list(map(parse_number, line)) for line in _lines(values_list)]
        grid = self.book.values()
        if grid and area.top == area.left == 0 and _covers(area, grid):
            return WHOLE_UPDATE
        if len(lines) != area.height or any(len(line) != area.width for line in lines):
            raise CellError(f"values_list must have {area.height} rows of {area.width} values")
        self.book.write(
            {
                Address(area.top + row, area.left + column): value
                for row, line in enumerate(lines)
                for column, value in enumerate(line)
            }
        )
        return self.book.values()

    @_on_open_sheet
    def sort_sheet_by_col(self, col_num: object, order: object) -> Grid:
        direction = _require_one_of(order, ("asc", "des"))
        self.book.sort(_integer(col_num) - 1, descending=direction == "des")
        return self.book.values()

    @_on_open_sheet
    def merge_cells(self, start_position: object, end_position: object) -> Grid:
        self.book.merge(_area(start_position, end_position))
        return self.book.values()

    @_on_open_sheet
    def update_note(self, position: object, content: object) -> Grid:
        self.book.write_note(parse_address(position), _text(content))
        return self.book.values()

    # -- looking ------------------------------------------------------------------------------

    @_on_open_sheet
    def get_all_values(self) -> Grid:
        return self.book.values()

    @_on_open_sheet
    def get_range_values(self, start_position: object, end_position: object) -> Grid:
        area = _area(start_position, end_position)
        grid = self.book.values()
        return [row[area.left : area.right + 1] for row in grid[area.top : area.bottom + 1]]

    @_on_open_sheet
    def get_cell_value(self, position: object) -> str:
        return _at(self.book.values(), parse_address(position))

    @_on_open_sheet
    def get_value_by_formula(
        self,
        start_position: object = None,
        end_position: object = None,
        position_list: object = None,
        operator: object = None,
    ) -> str:
        name, references = _formula(start_position, end_position, position_list, operator)
        return self.book.result(name, references)

    @_on_open_sheet
    def filter_cells(
        self, query: object, in_row: object = None, in_column: object = None
    ) -> list[str]:
        row = None if in_row is None else _integer(in_row) - 1
        column = None if in_column is None else _integer(in_column) - 1
        grid = self.book.values()
        fits = _condition(query, sum(len(text) for line in grid for text in line))
        return [
            Address(r, c).label
            for r, line in enumerate(grid)
            if row is None or r == row
            for c, text in enumerate(line)
            if (column is None or c == column) and fits(text)
        ]

    @_on_open_sheet
    def get_note(self, position: object) -> str:
        return self.book.note(parse_address(position))


def _at(grid: Grid, address: Address) -> str:
    if address.row < len(grid) and address.column < len(grid[address.row]):
        return grid[address.row][address.column]
    return ""


def _width(grid: Grid) -> int:
    return max(map(len, grid), default=0)


def _covers(area: Area, grid: Grid) -> bool:
    return area.height >= len(grid) and area.width >= _width(grid)


def _area(start: object, end: object) -> Area:
    area = Area.between(parse_address(start), parse_address(end))
    if area.height * area.width > MAX_CELLS:
        raise CellError("the range is too large")
    return area


def _formula(
    start: object, end: object, positions: object, operator: object
) -> tuple[str, tuple[Address, ...]]:
    """Return an operator and the cells that it works on: a range, or a list of positions."""
    name = _require_one_of(operator, tuple(OPERATORS))
    if positions is not None:
        references = tuple(parse_address(position) for position in _list(positions))
    else:
        references = _area(start, end).addresses()
    if any(address.column >= 26 for address in references):
        raise CellError("formulas accept the columns A to Z only")
    return name, references


def _condition(query: object, characters: int) -> Callable[[str], bool]:
    """Whether a displayed value is what the query asks for, in a sheet of so many characters."""
    if isinstance(query, bool) or not isinstance(query, str | int | float):
        raise CellError("the query must be a text")
    text = str(query)
    match = _REGULAR.fullmatch(text.strip())
    if match is None:
        return text.__eq__
    pattern = _literal(match[1].strip())
    if not isinstance(pattern, str):
        raise PatternError("re.compile takes a text")
    compiled = compile_pattern(pattern)
    if compiled.size * characters > MAX_SEARCH:
        raise PatternError("the pattern is too complex for so large a sheet")
    return compiled.occurs_in


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise CellError(f"{_kind(value)} where a text is needed")
    return value


def _require_one_of(value: object, valid: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in valid:
        return value
    raise CellError(f"must be one of {', '.join(valid)}")


def _integer(value: object) -> int:
    """Return an integer, also written as text."""
    if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit():
        value = int(value) if len(value) < 10 else 10**9
    if isinstance(value, bool) or not isinstance(value, int):
        raise CellError(f"{_kind(value)} where an integer is needed")
    return max(min(value, 10**9), -(10**9))


def _list(value: object) -> list[Any]:
    """Return a list, also written as text."""
    if isinstance(value, str):
        value = _literal(value)
    if not isinstance(value, list | tuple):
        raise CellError(f"{_kind(value)} where a list is needed")
    items = cast("Sequence[Any]", value)
    if len(items) > MAX_CELLS:
        raise CellError("the list is too long")
    return list(items)


def _lines(value: object) -> list[list[Any]]:
    """Return a list of lists; a single list of plain values is one line."""
    lines = _list(value)
    if lines and not any(isinstance(line, list | tuple | str) for line in lines):
        return [lines]
    if lines and all(isinstance(line, str) for line in lines):
        return [lines]
    return [_list(line) for line in lines]


def _literal(text: str) -> object:
    """Return a Python or JSON list that was written as text; nothing in it is evaluated."""
    if len(text) > MAX_LITERAL:
        raise CellError("the list is too long")
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise CellError("the list cannot be read") from error


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
