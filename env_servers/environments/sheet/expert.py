"""How the expert solves a sheet: by the reference actions of a task, else by writing its answer.

Generated tasks come with their calls, see `generator.py`; this is the way through official ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from env_servers.environments.sheet.cells import Address
from env_servers.environments.sheet.memory import MemorySpreadsheet
from env_servers.environments.sheet.scoring import strict_share
from env_servers.environments.sheet.tools import SheetTools
from env_servers.environments.sheet.workbook import Sheet, Workbook
from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls import PlannedCall

__all__ = ["MAX_ROUNDS", "planned", "solution"]

MAX_ROUNDS: Final = 15
_WHY: Final[Mapping[str, str]] = {
    "filter_cells": "I look for the cells that this is about.",
    "delete_batch_data": "These do not belong there, so I delete them in one call.",
    "sort_sheet_by_col": "Now I sort by column {col_num}.",
    "update_range": "I write the values of {start_position} to {end_position}.",
    "update_cell": "The cell {position} has to be changed.",
    "update_cell_by_formula": "A formula in {result_position} gives this value.",
    "get_value_by_formula": "I calculate this first, without changing anything.",
    "get_note": "The note on {position} says what has to be done.",
    "merge_cells": "I merge {start_position} to {end_position}.",
    "insert_rows": "The new records are inserted at row {row_idx}.",
    "insert_cols": "The new columns are inserted at column {col_idx}.",
    "freeze_data": "The titles have to stay where they are, so I freeze them.",
    "open_sheet": 'The task is about "{name}", so I open it.',
}


def planned(tool: str, arguments: Mapping[str, Any]) -> PlannedCall:
    """Return a call with the reason that fits its tool."""
    return PlannedCall(tool, arguments, (_WHY.get(tool, "This comes next.").format(**arguments),))


def solution(
    book: Mapping[str, Sheet],
    name: str,
    target: Sequence[Sequence[str]],
    reference: Sequence[PlannedCall],
    opening: PlannedCall,
) -> tuple[PlannedCall, ...]:
    """Return the first sequence of calls that leads to the answer.

    Tried are the file's own actions, then writing the answer: as many columns as possible as
    values, the others as new columns.

    Raises:
        EnvironmentUnavailable: No sequence leads there within the rounds.
    """
    width = len(target[0])
    candidates = [reference]
    candidates += [[opening, *_writing(book[name], target, c)] for c in range(width, 0, -1)]
    for calls in candidates:
        if len(calls) < MAX_ROUNDS and _leads_to(book, name, calls, target):
            return tuple(calls)
    raise EnvironmentUnavailable(f"the answer of {name} cannot be written into its sheet")


def _leads_to(
    book: Mapping[str, Sheet],
    name: str,
    calls: Sequence[PlannedCall],
    target: Sequence[Sequence[str]],
) -> bool:
    spreadsheet = MemorySpreadsheet(Workbook(book))
    tools = SheetTools(spreadsheet)
    for call in calls:
        try:
            getattr(tools, call.tool)(**call.arguments)
        except TypeError:  # arguments of another function
            return False
    return strict_share(spreadsheet.book.sheet(name).values(), target) == 1.0


def _writing(
    sheet: Sheet, target: Sequence[Sequence[str]], value_columns: int
) -> Iterator[PlannedCall]:
    """Calls that write an answer: the first `kept` columns as values, the others as new columns.

    New columns take the number format of their neighbour, which values do not.
    """
    grid = sheet.values()
    height, width = len(target), len(target[0])
    if len(grid) > height:
        rows = list(range(height + 1, len(grid) + 1))
        yield planned("delete_batch_data", {"dimension": "row", "index_list": rows})
    if len(grid[0]) > value_columns:
        columns = list(range(value_columns + 1, len(grid[0]) + 1))
        yield planned("delete_batch_data", {"dimension": "col", "index_list": columns})
    arguments = {
        "start_position": "A2",
        "end_position": Address(height - 1, value_columns - 1).label,
        "values_list": [list(row[:value_columns]) for row in target[1:]],
    }
    yield planned("update_range", arguments)
    if value_columns < width:
        columns = [[row[column] for row in target] for column in range(value_columns, width)]
        yield planned("insert_cols", {"values_list": columns, "col_idx": value_columns + 1})
