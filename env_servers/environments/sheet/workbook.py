"""Workbooks in memory: sheets of cells with merges, notes, frozen rows and live formulas.

A base workbook never changes; an episode's workbook copies a sheet when it is first written to, and
a copy shares all rows and cells that stay as they are, so a thousand episodes of one workbook cost
little more than one. Every operation either does the whole thing or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from env_servers.environments.sheet.cells import (
    EMPTY,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TEXT,
    Address,
    Cell,
    CellError,
    Formula,
    Value,
    calculate,
    render,
)

__all__ = ["Area", "Sheet", "Workbook", "WorksheetNotFound"]

MAX_SHEET_TEXT: Final = 200_000
"""Characters in all cells and notes of a sheet together."""
MAX_FORMULA_CELLS: Final = 20_000
"""Cells that all formulas of a sheet refer to together."""
MAX_CHAIN: Final = 100
"""Formulas that depend on each other in a row; longer chains show an error."""

Row = tuple[Cell, ...]


class WorksheetNotFound(LookupError):
    """The workbook has no sheet of this name; named as in the original's client library."""


class Area(NamedTuple):
    """A rectangle of cells, both corners included, counted from 0."""

    top: int
    left: int
    bottom: int
    right: int

    @classmethod
    def between(cls, start: Address, end: Address) -> Area:
        """Return the rectangle between two corners, in whatever order they are named."""
        return cls(
            min(start.row, end.row),
            min(start.column, end.column),
            max(start.row, end.row),
            max(start.column, end.column),
        )

    @property
    def height(self) -> int:
        return self.bottom - self.top + 1

    @property
    def width(self) -> int:
        return self.right - self.left + 1

    def meets(self, other: Area) -> bool:
        """Return whether the two have a cell in common."""
        return (
            self.top <= other.bottom
            and other.top <= self.bottom
            and self.left <= other.right
            and other.left <= self.right
        )

    def addresses(self) -> tuple[Address, ...]:
        """Return every cell, row by row."""
        return tuple(
            Address(row, column)
            for row in range(self.top, self.bottom + 1)
            for column in range(self.left, self.right + 1)
        )


class Sheet:
    """One sheet of an episode, or of a base workbook that nobody writes to."""

    __slots__ = ("_shown", "_turned", "frozen_columns", "frozen_rows", "merges", "rows")

    def __init__(self, rows: Iterable[Row] = (), merges: Iterable[Area] = ()) -> None:
        """Rows may differ in length; they are filled up with empty cells."""
        row_list = list(rows)
        width = max(map(len, row_list), default=0)
        self.rows: list[Row] = [row + (EMPTY,) * (width - len(row)) for row in row_list]
        self.merges: tuple[Area, ...] = tuple(merges)
        self.frozen_rows = 0
        self.frozen_columns = 0
        self._shown: list[list[str]] | None = None
        self._turned = False
        """Rows stand for columns, for a moment: see `_transposed`."""

    def copy(self) -> Sheet:
        """Return an independent sheet that shares all rows."""
        twin = Sheet.__new__(Sheet)
        twin.rows = list(self.rows)
        twin.merges = self.merges
        twin.frozen_rows = self.frozen_rows
        twin.frozen_columns = self.frozen_columns
        twin._shown = self._shown
        twin._turned = self._turned
        return twin

    @property
    def width(self) -> int:
        """Columns of the grid."""
        return len(self.rows[0]) if self.rows else 0

    # -- looking ------------------------------------------------------------------------------

    def values(self) -> list[list[str]]:
        """All displayed values up to the last row and column in use; merged areas are filled.

        The list is shared: whoever changes it must copy it.
        """
        if self._shown is None:
            self._shown = self._display()
        return self._shown

    def shown(self, address: Address) -> str:
        """Return one displayed value; empty outside of the used part."""
        grid = self.values()
        if address.row < len(grid) and address.column < len(grid[address.row]):
            return grid[address.row][address.column]
        return ""

    def cell(self, address: Address) -> Cell:
        """Return a cell; outside of the grid an empty one."""
        if address.row < len(self.rows) and address.column < self.width:
            return self.rows[address.row][address.column]
        return EMPTY

    def result(self, operator: str, references: Sequence[Address]) -> str:
        """Return what a formula would show, in the format of the first number that it refers to."""
        if len(references) > MAX_CELLS:
            raise CellError("the range is too large")
        formula = Formula(operator, tuple(references))
        value = self._evaluate(formula, {}, 0)
        return value if isinstance(value, str) else render(value, self._look(formula))

    def _look(self, formula: Formula) -> str:
        """The format of a result whose own cell has none: that of the first number it is made of.

        Counts and products have none: the official answers show them plain.
        """
        if formula.operator in ("COUNT", "PRODUCT"):
            return "General"
        cells = (self.cell(address) for address in formula.references if address is not None)
        return next((c.format for c in cells if isinstance(c.value, float)), "General")

    def _display(self) -> list[list[str]]:
        results: dict[Formula, float | str] = {}
        grid = [[self._text(cell, results) for cell in row] for row in self.rows]
        for area in self.merges:
            for address in area.addresses():
                grid[address.row][address.column] = grid[area.top][area.left]
        while grid and not any(grid[-1]):
            grid.pop()
        used = max((k + 1 for row in grid for k, text in enumerate(row) if text), default=0)
        return [row[:used] for row in grid]

    def _text(self, cell: Cell, results: dict[Formula, float | str]) -> str:
        value, look = cell.value, cell.format
        if isinstance(value, Formula):
            look = self._look(value) if look == "General" else look
            value = self._evaluate(value, results, 0)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        return value if isinstance(value, str) else render(value, look)

    def _evaluate(
        self, formula: Formula, results: dict[Formula, float | str], depth: int
    ) -> float | str:
        """Return a formula's result; a reference to itself, however indirect, is `#REF!`."""
        if formula in results:
            return results[formula]
        if depth > MAX_CHAIN:
            return "#ERROR!"
        results[formula] = "#REF!"
        numbers: list[float] = []
        for address in formula.references:
            value: Value = "#REF!" if address is None else self.cell(address).value
            if isinstance(value, Formula):
                value = self._evaluate(value, results, depth + 1)
            if isinstance(value, float):
                numbers.append(value)
            elif isinstance(value, str) and value.startswith("#") and value.endswith(("!", "A")):
                results[formula] = value
                return value
        results[formula] = calculate(formula.operator, numbers)
        return results[formula]

    # -- writing ------------------------------------------------------------------------------

    def write(self, changes: Mapping[Address, Value]) -> None:
        """Replace values; formats and notes stay. The grid grows where it must."""
        height = max((address.row + 1 for address in changes), default=0)
        width = max((address.column + 1 for address in changes), default=0)
        rows = self._grown(max(height, len(self.rows)), max(width, self.width))
        by_row: dict[int, dict[int, Value]] = {}
        for address, value in changes.items():
            by_row.setdefault(address.row, {})[address.column] = value
        for number, columns in by_row.items():
            cells = list(rows[number])
            for column, value in columns.items():
                cells[column] = cells[column]._replace(value=None if value == "" else value)
            rows[number] = tuple(cells)
        self._accept(rows, self.merges)

    def write_note(self, address: Address, content: str) -> None:
        """Put a note on a cell; empty text removes it."""
        if len(content) > MAX_TEXT:
            raise CellError(f"a note cannot hold more than {MAX_TEXT} characters")
        rows = self._grown(
            max(address.row + 1, len(self.rows)), max(address.column + 1, self.width)
        )
        cells = list(rows[address.row])
        cells[address.column] = cells[address.column]._replace(note=content)
        rows[address.row] = tuple(cells)
        self._accept(rows, self.merges)

    def insert_rows(self, index: int, values: Sequence[Sequence[Value]]) -> None:
        """Insert rows before row `at`; they take the formats of the row that was there."""
        rows = self._grown(max(index, len(self.rows)), max(self.width, *map(len, values)))
        likeness = rows[index] if index < len(rows) else rows[-1] if rows else ()
        new_rows = [_dressed(row, likeness) for row in values]
        count = len(new_rows)

        def where(address: Address) -> Address:
            return address if address.row < index else Address(address.row + count, address.column)

        moved = [_mapped(row, where) for row in rows]
        merges = [_stretched_rows(area, index, count) for area in self.merges]
        self._accept(moved[:index] + new_rows + moved[index:], merges)

    def insert_columns(self, index: int, values: Sequence[Sequence[Value]]) -> None:
        """Insert columns before column `at`."""
        self._transposed(lambda sheet: sheet.insert_rows(index, values))

    def delete_rows(self, indexes: Iterable[int]) -> None:
        """Remove rows; empty ones below the used part, too. Raises CellError beyond the limits."""
        named = set(indexes)
        for index in named:
            if not 0 <= index < MAX_ROWS:
                raise CellError(f"there is no row {index + 1}")
        gone = {index for index in named if index < len(self.rows)}
        remaining = [number for number in range(len(self.rows)) if number not in gone]
        position = {old: new for new, old in enumerate(remaining)}

        def where(address: Address) -> Address | None:
            if address.row >= len(self.rows):
                return Address(address.row - len(gone), address.column)
            new = position.get(address.row)
            return None if new is None else Address(new, address.column)

        merges: list[Area] = []
        for area in self.merges:
            left = [position[row] for row in range(area.top, area.bottom + 1) if row in position]
            if left and (len(left) > 1 or area.width > 1):
                merges.append(area._replace(top=left[0], bottom=left[-1]))
        if any(area.top in gone for area in self.merges):
            self._unmerge_into(remaining, gone)
        self._accept([_mapped(self.rows[number], where) for number in remaining], merges)

    def delete_columns(self, indexes: Iterable[int]) -> None:
        """Remove columns; empty ones beside the used part, too."""
        gone = set(indexes)
        for index in gone:
            if not 0 <= index < MAX_COLUMNS:
                raise CellError(f"there is no column {index + 1}")
        self._transposed(lambda sheet: sheet.delete_rows(gone))

    def sort(self, column: int, *, descending: bool) -> None:
        """Sort the rows below the frozen ones, stably: numbers, then text, empty cells last.

        Descending puts text before numbers; empty cells stay last.
        """
        if not 0 <= column < self.width:
            raise CellError(f"there is no column {column + 1}")
        first, last = self.frozen_rows, self._used_height()
        if any(area.height > 1 and area.bottom >= first for area in self.merges):
            raise CellError("a range with vertically merged cells cannot be sorted")
        results: dict[Formula, float | str] = {}
        numbered = list(enumerate(self.rows))[first:last]

        def key(row: tuple[int, Row]) -> tuple[int, float, str]:
            value = row[1][column].value
            if isinstance(value, Formula):
                value = self._evaluate(value, results, 0)
            if isinstance(value, str):
                return (1, 0.0, value.casefold())
            return (0, float(value or 0.0), "")

        filled = [row for row in numbered if row[1][column].value is not None]
        blank = [row for row in numbered if row[1][column].value is None]
        ordered = sorted(filled, key=key, reverse=descending) + blank
        moved = [_shifted(row, first + new - old) for new, (old, row) in enumerate(ordered)]
        by_row = {old: first + new for new, (old, _) in enumerate(ordered)}
        merges = [
            area
            if area.bottom < first or area.top not in by_row
            else area._replace(top=by_row[area.top], bottom=by_row[area.top])
            for area in self.merges
        ]
        self._accept(self.rows[:first] + moved + self.rows[last:], merges)

    def merge(self, area: Area) -> None:
        """Make one cell of an area; only its first value stays."""
        swallowed = [other for other in self.merges if other.meets(area)]
        if any(not _inside(other, area) for other in swallowed):
            raise CellError("the range overlaps other merged cells only partly")
        rows = self._grown(max(area.bottom + 1, len(self.rows)), max(area.right + 1, self.width))
        for number in range(area.top, area.bottom + 1):
            cells = list(rows[number])
            for column in range(area.left, area.right + 1):
                if (number, column) != (area.top, area.left):
                    cells[column] = cells[column]._replace(value=None)
            rows[number] = tuple(cells)
        others = [other for other in self.merges if other not in swallowed]
        new_areas = [area] if area.height > 1 or area.width > 1 else []
        self._accept(rows, [*others, *new_areas])

    # -- inside -------------------------------------------------------------------------------

    def _used_height(self) -> int:
        height = len(self.rows)
        while height and all(cell.value is None for cell in self.rows[height - 1]):
            height -= 1
        return max(height, self.frozen_rows)

    def _grown(self, height: int, width: int) -> list[Row]:
        """Return the rows, filled up to a size; raises CellError beyond the limits."""
        self._check_size(height, width)
        extra = (EMPTY,) * (width - self.width)
        rows = [row + extra for row in self.rows] if extra else list(self.rows)
        rows.extend([(EMPTY,) * width] * (height - len(rows)))
        return rows

    def _check_size(self, height: int, width: int) -> None:
        if self._turned:
            height, width = width, height
        if height > MAX_ROWS or width > MAX_COLUMNS or height * width > MAX_CELLS:
            raise CellError(f"{height} x {width} cells exceed the grid limits")

    def _accept(self, rows: Sequence[Row], merges: Iterable[Area]) -> None:
        """Take over a new state if it keeps the limits."""
        self._check_size(len(rows), len(rows[0]) if rows else 0)
        text = formula_cells = 0
        for row in rows:
            for value, _, note in row:
                text += len(note)
                if type(value) is str:
                    text += len(value)
                elif type(value) is Formula:
                    formula_cells += len(value.references)
        if text > MAX_SHEET_TEXT:
            raise CellError(f"a sheet cannot hold more than {MAX_SHEET_TEXT} characters")
        if formula_cells > MAX_FORMULA_CELLS:
            raise CellError(f"formulas cannot refer to more than {MAX_FORMULA_CELLS} cells")
        self.rows = list(rows)
        self.merges = tuple(merges)
        self._shown = None

    def _unmerge_into(self, remaining: Sequence[int], gone: set[int]) -> None:
        """Where a merged area loses its first row, its value moves to the first that stays."""
        for area in self.merges:
            heir = next((row for row in remaining if area.top <= row <= area.bottom), None)
            if area.top in gone and heir is not None:
                cells = list(self.rows[heir])
                value = self.rows[area.top][area.left].value
                cells[area.left] = cells[area.left]._replace(value=value)
                self.rows[heir] = tuple(cells)

    def _transposed(self, act: Callable[[Sheet], None]) -> None:
        """Do to columns what `act` does to rows."""
        turned = Sheet([_turned_cells(row) for row in zip(*self.rows, strict=True)])
        turned.merges = tuple(map(_turned_area, self.merges))
        turned._turned = True
        act(turned)
        rows = [_turned_cells(row) for row in zip(*turned.rows, strict=True)]
        self._accept(rows, map(_turned_area, turned.merges))


def _dressed(values: Sequence[Value], likeness: Row) -> Row:
    """New cells in the formats of existing ones."""
    width = max(len(values), len(likeness))
    cells: list[Cell] = []
    for column in range(width):
        value = values[column] if column < len(values) else None
        look = likeness[column].format if column < len(likeness) else "General"
        cells.append(Cell(None if value == "" else value, look))
    return tuple(cells)


def _mapped(row: Row, where: Callable[[Address], Address | None]) -> Row:
    """Return the row with its formulas adjusted; the row itself where it has none."""
    if not any(type(cell.value) is Formula for cell in row):
        return row
    return tuple(
        cell._replace(value=cell.value.mapped(where)) if isinstance(cell.value, Formula) else cell
        for cell in row
    )


def _shifted(row: Row, by: int) -> Row:
    """The row, moved so many rows down: its formulas look at the rows beside their new place."""
    if not by or not any(type(cell.value) is Formula for cell in row):
        return row
    return tuple(
        cell._replace(value=cell.value.moved(by)) if isinstance(cell.value, Formula) else cell
        for cell in row
    )


def _turned_cells(cells: Sequence[Cell]) -> Row:
    return tuple(
        cell._replace(value=cell.value.mapped(lambda address: Address(address.column, address.row)))
        if isinstance(cell.value, Formula)
        else cell
        for cell in cells
    )


def _turned_area(area: Area) -> Area:
    return Area(area.left, area.top, area.right, area.bottom)


def _stretched_rows(area: Area, index: int, count: int) -> Area:
    """Return a merged area after rows were inserted: moved, or stretched if they came inside."""
    if index <= area.top:
        return area._replace(top=area.top + count, bottom=area.bottom + count)
    return area._replace(bottom=area.bottom + count) if index <= area.bottom else area


def _inside(inner: Area, outer: Area) -> bool:
    return (
        outer.top <= inner.top
        and inner.bottom <= outer.bottom
        and outer.left <= inner.left
        and inner.right <= outer.right
    )


class Workbook:
    """The sheets of one episode: those of the base until they are written to."""

    __slots__ = ("_base", "_deleted", "_own")

    def __init__(self, base: Mapping[str, Sheet]) -> None:
        """`base` is shared and never changed."""
        self._base = base
        self._own: dict[str, Sheet] = {}
        self._deleted: frozenset[str] = frozenset()

    def names(self) -> list[str]:
        """Names of the sheets, in order."""
        return [name for name in self._base if name not in self._deleted]

    def sheet(self, name: str) -> Sheet:
        """Return a sheet to look at; raises WorksheetNotFound."""
        if name not in self._base or name in self._deleted:
            raise WorksheetNotFound(name[:100])
        return self._own.get(name) or self._base[name]

    def writable(self, name: str) -> Sheet:
        """Return a sheet to write to; raises WorksheetNotFound."""
        sheet = self.sheet(name)
        if name not in self._own:
            self._own[name] = sheet.copy()
        return self._own[name]

    def delete(self, name: str) -> None:
        """Remove a sheet; raises WorksheetNotFound, CellError for the last one."""
        self.sheet(name)
        if len(self.names()) == 1:
            raise CellError("the last sheet cannot be deleted")
        self._own.pop(name, None)
        self._deleted |= {name}

    def fork(self) -> Workbook:
        """Return an independent copy."""
        twin = Workbook(self._base)
        twin._own = {name: sheet.copy() for name, sheet in self._own.items()}
        twin._deleted = self._deleted
        return twin

    def content(self) -> tuple[object, ...]:
        """Identifies the state beyond the base."""
        own = tuple(
            (name, tuple(s.rows), s.merges, s.frozen_rows, s.frozen_columns)
            for name, s in sorted(self._own.items())
        )
        return own, tuple(sorted(self._deleted))
