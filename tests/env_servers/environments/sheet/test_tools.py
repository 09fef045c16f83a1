"""The functions take arguments as agents write them, and refuse in the original's words."""

from __future__ import annotations

from typing import Any

import pytest

from env_servers.environments.sheet.cells import Cell
from env_servers.environments.sheet.memory import MemorySpreadsheet
from env_servers.environments.sheet.prompt import TOOLS
from env_servers.environments.sheet.tools import NOT_OPEN, SheetTools
from env_servers.environments.sheet.workbook import Sheet, Workbook

ROWS = [("Item", "Kind", "Price"), ("fig", "fruit", 3.5), ("leek", "veg", 1.0), ("oat", "", 2.0)]


@pytest.fixture
def tools() -> SheetTools:
    rows = [tuple(Cell(value or None) for value in row) for row in ROWS]
    made = SheetTools(MemorySpreadsheet(Workbook({"Stock": Sheet(rows), "Other": Sheet()})))
    assert made.open_sheet("Stock") == "Open sheet Stock successfully."
    return made


def first_column(grid: Any) -> list[str]:
    return [row[0] for row in grid]


def test_every_declared_tool_but_finish_is_a_function() -> None:
    for tool in TOOLS.tools:
        assert tool.name == "finish" or callable(getattr(SheetTools, tool.name))


def test_a_sheet_has_to_be_opened_first(tools: SheetTools) -> None:
    closed = SheetTools(MemorySpreadsheet(Workbook({"Stock": Sheet()})))
    assert closed.get_all_values() == NOT_OPEN
    assert closed.update_cell("A1", 1) == NOT_OPEN
    assert closed.open_sheet("../Stock") == "WorksheetNotFound('../Stock')"
    assert closed.open_sheet(["Stock"]) == "CellError('a list where a text is needed')"
    assert tools.del_sheet("Stock") == "Delete sheet Stock successfully."
    assert tools.get_all_values() == NOT_OPEN
    assert "last sheet" in tools.del_sheet("Other")


def test_positions_are_counted_from_1(tools: SheetTools) -> None:
    assert tools.get_A1_annotation(3, 28) == "AB3"
    assert "counted from 1" in tools.get_A1_annotation(0, 1)
    assert tools.get_cell_value("A2") == "fig"
    assert tools.get_cell_value("Z99") == ""
    assert tools.get_range_values("A2", "B3") == [["fig", "fruit"], ["leek", "veg"]]


def test_lists_and_numbers_may_be_written_as_text(tools: SheetTools) -> None:
    assert first_column(tools.delete_batch_data("row", "[2, 4]")) == ["Item", "leek"]
    assert first_column(tools.insert_rows("[['rye', 'grain', '2.5']]", "2"))[1] == "rye"
    assert tools.update_range("C2", "C3", "[[9], ['8']]")[1][2] == "9"
    assert "cannot be read" in tools.delete_batch_data("row", "[__import__('os')]")
    assert "too long" in tools.delete_batch_data("row", "[" + "1," * 60_000 + "]")


def test_deletions_go_from_the_highest_index_down(tools: SheetTools) -> None:
    assert first_column(tools.delete_batch_data("row", [2, 3])) == ["Item", "oat"]
    assert tools.delete_batch_data("col", [1])[0] == ["Kind", "Price"]


def test_a_whole_sheet_is_neither_updated_nor_deleted_at_once(tools: SheetTools) -> None:
    before = [list(row) for row in tools.get_all_values()]
    update = tools.update_range("A1", "C4", [["x"] * 3] * 4)
    assert update.startswith("Warning: You cannot update whole sheet at once")
    assert tools.delete_batch_data("row", [1, 2, 3, 4]).startswith("You cannot delete whole sheet")
    assert tools.delete_batch_data("col", [3, 2, 1]).startswith("You cannot delete whole sheet")
    assert tools.get_all_values() == before


def test_formulas_come_from_ranges_and_from_lists(tools: SheetTools) -> None:
    grid = tools.update_cell_by_formula("C2", "C4", None, "D1", "SUM")
    assert grid[0][3] == "6.5"
    assert tools.get_value_by_formula(position_list=["C2", "C3"], operator="MINUS") == "2.5"
    assert tools.get_value_by_formula("C2", "C4", operator="MAX") == "3.5"
    assert "A to Z only" in tools.get_value_by_formula("AA1", "AA2", operator="SUM")
    assert "must be one of SUM" in tools.get_value_by_formula("C2", "C4", operator="SYSTEM")


def test_searching_finds_whole_texts_and_expressions(tools: SheetTools) -> None:
    assert tools.filter_cells("fig") == ["A2"]
    assert tools.filter_cells("fi") == []
    assert tools.filter_cells("re.compile('^(fig|oat)$')") == ["A2", "A4"]
    assert tools.filter_cells(r're.compile(r"\d")', in_column=3) == ["C2", "C3", "C4"]
    assert tools.filter_cells("re.compile('e')", in_row=3) == ["A3", "B3"]
    assert tools.filter_cells("re.compile('(')").startswith("PatternError(")
    assert tools.filter_cells("re.compile(open('x'))").startswith("CellError(")


def test_sorting_leaves_frozen_rows(tools: SheetTools) -> None:
    assert first_column(tools.sort_sheet_by_col(3, "asc")) == ["leek", "oat", "fig", "Item"]
    assert first_column(tools.sort_sheet_by_col(3, "des")) == ["Item", "fig", "oat", "leek"]
    tools.freeze_data("rows", 1)
    assert first_column(tools.sort_sheet_by_col("3", "asc")) == ["Item", "leek", "oat", "fig"]
    assert "cannot be frozen" in tools.freeze_data("rows", 4)


def test_notes_are_texts_beside_the_values(tools: SheetTools) -> None:
    tools.update_note("A2", "ripe")
    assert tools.get_note("A2") == "ripe"
    assert tools.get_note("B2") == ""
    assert tools.update_note("A2", 5) == "CellError('a int where a text is needed')"
    tools.sort_sheet_by_col(3, "asc")
    assert tools.get_note("A3") == "ripe"


@pytest.mark.parametrize("value", ["=1+1", '=IMPORTXML("http://x/","//a")', "+A1", "@SUM(A1)"])
def test_formulas_cannot_be_smuggled_in_as_values(tools: SheetTools, value: str) -> None:
    before = [list(row) for row in tools.get_all_values()]
    for seen in (
        tools.update_cell("A2", value),
        tools.update_range("A2", "A2", [[value]]),
        tools.insert_rows([[value]], 2),
        tools.insert_cols([[value]], 2),
    ):
        assert seen == "CellError('formulas are entered with update_cell_by_formula only')"
    assert tools.get_all_values() == before
