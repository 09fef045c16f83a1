"""A spreadsheet in memory: a workbook, and which of its sheets is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from env_servers.environments.sheet.cells import Address, CellError, Formula
from env_servers.environments.sheet.tools import Spreadsheet
from env_servers.environments.sheet.workbook import Area, Sheet, Workbook

__all__ = ["MemorySpreadsheet"]


class MemorySpreadsheet(Spreadsheet):
    """One episode's workbook."""

    def __init__(self, book: Workbook, opened: str | None = None) -> None:
        self.book = book
        self._opened = opened

    @property
    def opened(self) -> str | None:
        return self._opened

    def open(self, name: str) -> None:
        self.book.sheet(name)
        self._opened = name

    def delete(self, name: str) -> None:
        self.book.delete(name)
        if self._opened == name:
            self._opened = None

    def fork(self) -> MemorySpreadsheet:
        """Return an independent copy."""
        return MemorySpreadsheet(self.book.fork(), self._opened)

    def content(self) -> tuple[object, ...]:
        """Identifies the state beyond the base workbook."""
        return (self._opened, self.book.content())

    def _looked_at(self) -> Sheet:
        return self.book.sheet(self._opened or "")

    def _written(self) -> Sheet:
        return self.book.writable(self._opened or "")

    def values(self) -> list[list[str]]:
        return self._looked_at().values()

    def write(self, changes: Mapping[Address, float | str]) -> None:
        self._written().write(changes)

    def write_formula(self, address: Address, operator: str, references: Sequence[Address]) -> None:
        self._written().write({address: Formula(operator, tuple(references))})

    def result(self, operator: str, references: Sequence[Address]) -> str:
        return self._looked_at().result(operator, references)

    def insert(self, dimension: str, index: int, values: Sequence[Sequence[float | str]]) -> None:
        sheet = self._written()
        if index > (len(sheet.rows) if dimension == "row" else sheet.width):
            raise CellError(f"index {index + 1} exceeds the grid limits")
        (sheet.insert_rows if dimension == "row" else sheet.insert_columns)(index, values)

    def remove(self, dimension: str, indexes: Sequence[int]) -> None:
        sheet = self._written()
        (sheet.delete_rows if dimension == "row" else sheet.delete_columns)(indexes)

    def sort(self, column: int, *, descending: bool) -> None:
        self._written().sort(column, descending=descending)

    def freeze(self, dimension: str, count: int) -> None:
        sheet = self._written()
        if dimension == "rows":
            sheet.frozen_rows = count
        else:
            sheet.frozen_columns = count

    def merge(self, area: Area) -> None:
        self._written().merge(area)

    def note(self, address: Address) -> str:
        return self._looked_at().cell(address).note

    def write_note(self, address: Address, content: str) -> None:
        self._written().write_note(address, content)
