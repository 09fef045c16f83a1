"""The workbook engine does what a spreadsheet does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.sheet.cells import (
    EMPTY,
    Address,
    Cell,
    CellError,
    Formula,
    IncorrectCellLabel,
    column_label,
    parse_address,
    parse_number,
    render,
)
from env_servers.environments.sheet.workbook import Area, Sheet, Workbook, WorksheetNotFound


def sheet_of(*rows: tuple[object, ...]) -> Sheet:
    return Sheet([tuple(Cell(value) for value in row) for row in rows])  # type: ignore[arg-type]


def at(label: str) -> Address:
    return parse_address(label)


def formula(operator: str, *labels: str) -> Formula:
    return Formula(operator, tuple(map(at, labels)))


@pytest.mark.parametrize(
    ("value", "look", "shown"),
    [
        (5.0, "General", "5"),
        (0.1 + 0.2, "General", "0.3"),
        (1 / 3, "General", "0.3333333333"),
        (1e15, "General", "1E+15"),
        (-0.0, "General", "0"),
        (5.0, "0.0", "5.0"),
        (0.125, "0.00", "0.13"),
        (-0.125, "0.00", "-0.13"),
        (-0.001, "0.00", "0.00"),
        (1234567.891, "#,##0.00", "1,234,567.89"),
        (1234.5, "#,##0", "1,235"),
        (0.256, "0.0%", "25.6%"),
        (3.0, "@", "3"),
        (3.0, "yyyy-mm-dd", "3"),
    ],
)
def test_numbers_are_shown_by_their_format(value: float, look: str, shown: str) -> None:
    assert render(value, look) == shown


def test_addresses_are_read_and_written_in_a1_notation() -> None:
    assert at("A1") == (0, 0)
    assert at("aa10") == (9, 26)
    assert [column_label(n) for n in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    for bad in ("", "1A", "A0", "A:B", "Sheet1!A1", "A1.5", None, 3, "Ä1", "A\u0661"):
        with pytest.raises(IncorrectCellLabel):
            parse_address(bad)
    with pytest.raises(CellError):
        parse_address("ZZZ1")


def test_written_text_of_digits_is_a_number_and_formulas_are_refused() -> None:
    assert parse_number("45") == 45.0
    assert parse_number(" -1.5e2 ") == -150.0
    assert parse_number("4 5") == "4 5"
    assert parse_number(None) == ""
    for bad in ("=1+1", " =A1", "+A1", "@SUM(A1)", float("nan"), 10**400, True, [1], "x" * 2001):
        with pytest.raises(CellError):
            parse_number(bad)


def test_the_displayed_grid_ends_with_the_last_used_row_and_column() -> None:
    sheet = sheet_of(("a", None, None), (None, 2.0, None), (None, None, None))
    assert sheet.values() == [["a", ""], ["", "2"]]
    assert Sheet().values() == []


def test_merged_cells_show_their_first_value_everywhere() -> None:
    sheet = sheet_of(("a", "b"), ("c", "d"))
    sheet.merge(Area(0, 0, 0, 1))
    assert sheet.values() == [["a", "a"], ["c", "d"]]
    with pytest.raises(CellError, match="only partly"):
        sheet.merge(Area(0, 1, 1, 1))
    sheet.merge(Area(0, 0, 1, 1))
    assert sheet.values() == [["a", "a"], ["a", "a"]]


@pytest.mark.parametrize(
    ("operator", "shown"),
    [
        ("SUM", "6"),
        ("AVERAGE", "2"),
        ("COUNT", "3"),
        ("MAX", "3"),
        ("MIN", "1"),
        ("PRODUCT", "6"),
        ("MINUS", "#N/A"),
    ],
)
def test_operators_look_at_numbers_only(operator: str, shown: str) -> None:
    sheet = sheet_of((1.0, 2.0, 3.0, "x", None))
    assert sheet.result(operator, [Address(0, column) for column in range(5)]) == shown


def test_formulas_are_live() -> None:
    sheet = sheet_of((1.0, 2.0, None))
    sheet.write({at("C1"): formula("SUM", "A1", "B1"), at("D1"): formula("MINUS", "C1", "A1")})
    assert sheet.values() == [["1", "2", "3", "2"]]
    sheet.write({at("A1"): 5.0})
    assert sheet.values() == [["5", "2", "7", "2"]]


def test_formulas_take_the_format_of_what_they_are_made_of() -> None:
    sheet = Sheet([(Cell(1.0, "0.0"), Cell(2.0, "0.0"), EMPTY)])
    sheet.write({at("C1"): formula("SUM", "A1", "B1"), at("D1"): formula("PRODUCT", "A1", "B1")})
    assert sheet.values() == [["1.0", "2.0", "3.0", "2"]]


def test_circular_and_long_chains_of_formulas_show_errors() -> None:
    sheet = sheet_of((None, None))
    sheet.write({at("A1"): formula("SUM", "B1"), at("B1"): formula("SUM", "A1")})
    assert sheet.values() == [["#REF!", "#REF!"]]
    chain = {Address(row, 0): formula("SUM", f"A{row + 2}") for row in range(500)}
    sheet = sheet_of()
    sheet.write({**chain, Address(500, 0): 1.0})
    assert sheet.values()[0] == ["#ERROR!"]
    assert sheet.values()[499] == ["1"]


def test_inserted_rows_move_formulas_merges_and_notes() -> None:
    sheet = sheet_of((1.0, "a"), (2.0, "b"))
    sheet.write({at("C1"): formula("SUM", "A1", "A2")})
    sheet.write_note(at("B2"), "look")
    sheet.merge(Area(0, 1, 1, 1))
    sheet.insert_rows(1, [[7.0, "new"]])
    assert [row[0] for row in sheet.values()] == ["1", "7", "2"]
    assert sheet.values()[0][2] == "3"
    assert sheet.merges == (Area(0, 1, 2, 1),)
    assert sheet.cell(at("B3")).note == "look"


def test_inserted_rows_and_columns_take_the_format_of_what_was_there() -> None:
    sheet = Sheet([(Cell("t"), Cell("u")), (Cell(1.0, "0.0"), Cell(2.0, "0.00"))])
    sheet.insert_rows(1, [[3.0, 4.0]])
    assert sheet.values() == [["t", "u"], ["3.0", "4.00"], ["1.0", "2.00"]]
    sheet.insert_columns(2, [["v", 5.0, 6.0]])
    assert [row[2] for row in sheet.values()] == ["v", "5.00", "6.00"]


def test_columns_of_tall_sheets_are_inserted_and_deleted() -> None:
    sheet = sheet_of(*((float(row), "x") for row in range(500)))
    sheet.insert_columns(1, [["new"] * 500])
    assert sheet.values()[499] == ["499", "new", "x"]
    sheet.delete_columns([1])
    assert sheet.values()[499] == ["499", "x"]
    with pytest.raises(CellError, match="500 x 102 cells"):
        sheet.insert_columns(1, [["y"]] * 100)


def test_deleting_cells_of_a_formula_is_an_error_in_it() -> None:
    sheet = sheet_of((1.0, 2.0), (3.0, 4.0), (None, None))
    sheet.write({at("A3"): formula("SUM", "A1", "A2"), at("B3"): formula("SUM", "B2")})
    sheet.delete_rows([0])
    assert sheet.values() == [["3", "4"], ["#REF!", "4"]]


def test_deleting_the_first_row_of_a_merged_area_keeps_its_value() -> None:
    sheet = sheet_of(("a", 1.0), ("b", 2.0), ("c", 3.0))
    sheet.merge(Area(0, 0, 1, 0))
    sheet.delete_rows([0])
    assert sheet.values() == [["a", "2"], ["c", "3"]]
    assert sheet.merges == ()


def test_sorting_is_stable_and_leaves_frozen_rows_and_empty_cells() -> None:
    sheet = sheet_of(("t", "k"), ("a", 2.0), ("b", None), ("c", "x"), ("d", 1.0), ("e", 2.0))
    sheet.frozen_rows = 1
    sheet.sort(1, descending=False)
    assert "".join(row[0] for row in sheet.values()) == "tdaecb"
    sheet.sort(1, descending=True)
    assert "".join(row[0] for row in sheet.values()) == "tcaedb"
    with pytest.raises(CellError):
        sheet.sort(7, descending=True)


def test_sorted_rows_take_their_formulas_along() -> None:
    sheet = sheet_of((1.0, 10.0, None), (2.0, 20.0, None))
    for row in (1, 2):
        sheet.write({at(f"C{row}"): formula("SUM", f"A{row}", f"B{row}")})
    sheet.sort(2, descending=True)
    assert sheet.values() == [["2", "20", "22"], ["1", "10", "11"]]


def test_what_breaks_a_limit_changes_nothing() -> None:
    sheet = sheet_of(("a",))
    before = sheet.values()
    for act in (
        lambda: sheet.write({Address(999, 99): 1.0}),
        lambda: sheet.insert_rows(1, [["x"]] * 1001),
        lambda: sheet.insert_columns(1, [["x"]] * 101),
        lambda: sheet.write({Address(row, 0): "x" * 2000 for row in range(101)}),
        lambda: sheet.write_note(Address(0, 0), "x" * 2001),
        lambda: sheet.merge(Area(0, 0, 999, 99)),
        lambda: sheet.delete_rows([5000]),
    ):
        with pytest.raises(CellError):
            act()
        assert sheet.values() == before


_CELL = st.tuples(st.integers(0, 6), st.integers(0, 4)).map(lambda found: Address(*found))
_STEP = st.one_of(
    st.tuples(st.just("write"), _CELL, st.sampled_from([1.0, 2.5, "x", ""])),
    st.tuples(st.just("formula"), _CELL, _CELL),
    st.tuples(st.just("insert rows"), st.integers(0, 6), st.integers(1, 2)),
    st.tuples(st.just("insert columns"), st.integers(0, 4), st.integers(1, 2)),
    st.tuples(st.just("delete rows"), st.sets(st.integers(0, 5)), st.none()),
    st.tuples(st.just("delete columns"), st.sets(st.integers(0, 4)), st.none()),
    st.tuples(st.just("sort"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("merge"), _CELL, _CELL),
)


def _do(sheet: Sheet, kind: str, one: Any, two: Any) -> None:
    if kind == "write":
        sheet.write({one: two})
    elif kind == "formula":
        sheet.write({one: Formula("SUM", (two,))})
    elif kind == "insert rows":
        sheet.insert_rows(min(one, len(sheet.rows)), [[3.0]] * two)
    elif kind == "insert columns":
        sheet.insert_columns(min(one, sheet.width), [[4.0]] * two)
    elif kind == "delete rows":
        sheet.delete_rows(one)
    elif kind == "delete columns":
        sheet.delete_columns(one)
    elif kind == "sort":
        sheet.sort(one, descending=two)
    else:
        sheet.merge(Area.between(one, two))


@settings(max_examples=200, deadline=None)
@given(st.lists(_STEP, max_size=12))
def test_no_sequence_of_changes_breaks_a_sheet_or_its_base(steps: list[Any]) -> None:
    base = sheet_of(("a", 1.0, 2.0), ("b", 3.0, None), ("c", None, 4.0))
    before = base.values()
    sheet, twin = base.copy(), base.copy()
    for kind, one, two in steps:
        rows, merges, shown = list(sheet.rows), sheet.merges, sheet.values()
        try:
            _do(sheet, kind, one, two)
        except CellError:
            assert (sheet.rows, sheet.merges, sheet.values()) == (rows, merges, shown)
            continue
        _do(twin, kind, one, two)
        assert len({len(row) for row in sheet.rows}) <= 1
        assert len({len(row) for row in sheet.values()}) <= 1
        for area in sheet.merges:
            assert 0 <= area.top <= area.bottom < len(sheet.rows)
            assert 0 <= area.left <= area.right < sheet.width
    assert twin.values() == sheet.values()
    assert Sheet(base.rows).values() == before


def test_a_workbook_copies_a_sheet_only_when_it_is_written_to() -> None:
    base = {"One": sheet_of(("a", "b"), ("c", "d")), "Two": sheet_of(("x",))}
    book = Workbook(base)
    assert book.sheet("One") is base["One"]
    own = book.writable("One")
    own.write({Address(0, 0): "changed"})
    assert own.rows[1] is base["One"].rows[1]
    assert base["One"].values() == [["a", "b"], ["c", "d"]]
    copy = book.fork()
    copy.writable("One").write({Address(0, 0): "again"})
    assert book.sheet("One").values()[0] == ["changed", "b"]
    copy.delete("Two")
    assert (copy.names(), book.names()) == (["One"], ["One", "Two"])
    with pytest.raises(WorksheetNotFound):
        copy.sheet("Two")
    with pytest.raises(CellError, match="last"):
        copy.delete("One")
