"""The tools of Sheet as agents are told of them, in this project's own words.

Names and parameters are the original's.
"""

from __future__ import annotations

from typing import Final

from env_servers.environments.sheet.cells import OPERATORS
from env_servers.sdk import Parameter
from env_servers.toolkit.tool_calls import Tool, ToolSet

__all__ = ["TOOLS"]

_GRID: Final = "All values of the sheet afterwards, as a list of rows of texts."
_NAME: Final = Parameter("name", "string", "Name of the sheet.")
_START: Final = Parameter("start_position", "string", "First corner in A1 notation.")
_END: Final = Parameter("end_position", "string", "Last corner in A1 notation.")
_FROM: Final = Parameter(
    "start_position", "string", "First cell of a range, in A1 notation.", required=False
)
_TO: Final = Parameter(
    "end_position", "string", "Last cell of that range, in A1 notation.", required=False
)
_CELLS: Final = Parameter(
    "position_list", "any", "Instead of a range: a list of cells in A1 notation.", required=False
)
_OPERATOR: Final = Parameter("operator", "string", "What to calculate.", enum=tuple(OPERATORS))
_POSITION: Final = Parameter("position", "string", "The cell in A1 notation.")
_LINES: Final = "A list of lists of values, one for each {}."

TOOLS: Final = ToolSet(
    (
        Tool("open_sheet", "Open a sheet; it stays open.", "Whether it worked.", (_NAME,)),
        Tool("del_sheet", "Delete a whole sheet.", "Whether it worked.", (_NAME,)),
        Tool(
            "freeze_data",
            "Freeze the first rows or columns, so that sorting leaves them where they are.",
            _GRID,
            (
                Parameter("dimension", "string", "What to freeze.", enum=("rows", "columns")),
                Parameter("num", "integer", "How many of them."),
            ),
        ),
        Tool(
            "get_A1_annotation",
            "Write the place of a cell in A1 notation.",
            "For example B3.",
            (
                Parameter("row", "integer", "Number of the row, from 1."),
                Parameter("col", "integer", "Number of the column, from 1."),
            ),
        ),
        Tool(
            "insert_cols",
            "Insert columns.",
            _GRID,
            (
                Parameter("values_list", "array", _LINES.format("column")),
                Parameter("col_idx", "integer", "Column before which they go, from 1."),
            ),
        ),
        Tool(
            "insert_rows",
            "Insert rows.",
            _GRID,
            (
                Parameter("values_list", "array", _LINES.format("row")),
                Parameter("row_idx", "integer", "Row before which they go, from 1."),
            ),
        ),
        Tool(
            "delete_batch_data",
            "Delete several rows or columns at once.",
            _GRID,
            (
                Parameter("dimension", "string", "What to delete.", enum=("row", "col")),
                Parameter("index_list", "array", "Their numbers, from 1."),
            ),
        ),
        Tool(
            "update_cell",
            "Write one value.",
            _GRID,
            (_POSITION, Parameter("value", "any", "The value; a text of digits is a number.")),
        ),
        Tool(
            "update_cell_by_formula",
            "Write a formula over a range, or over a list of cells, into a cell.",
            _GRID,
            (
                _FROM,
                _TO,
                _CELLS,
                Parameter("result_position", "string", "Cell of the result, in A1 notation."),
                _OPERATOR,
            ),
        ),
        Tool(
            "update_range",
            "Write all values of a range.",
            _GRID,
            (_START, _END, Parameter("values_list", "array", _LINES.format("row"))),
        ),
        Tool(
            "sort_sheet_by_col",
            "Sort all rows that are not frozen by one column.",
            _GRID,
            (
                Parameter("col_num", "integer", "Number of the column, from 1."),
                Parameter("order", "string", "Ascending or descending.", enum=("asc", "des")),
            ),
        ),
        Tool("merge_cells", "Make one cell of a range.", _GRID, (_START, _END)),
        Tool(
            "update_note",
            "Put a note on a cell.",
            _GRID,
            (_POSITION, Parameter("content", "string", "Text of the note.")),
        ),
        Tool("get_all_values", "Read the whole sheet.", "A list of rows of texts."),
        Tool("get_range_values", "Read a range.", "A list of rows of texts.", (_START, _END)),
        Tool("get_cell_value", "Read one cell.", "Its text.", (_POSITION,)),
        Tool(
            "get_value_by_formula",
            "Calculate over a range, or over a list of cells, without writing anything.",
            "The result as a text.",
            (_FROM, _TO, _CELLS, _OPERATOR),
        ),
        Tool(
            "filter_cells",
            "Find the cells whose whole text is the query, or in which a regular expression, "
            "written as re.compile('...'), occurs.",
            "The cells in A1 notation.",
            (
                Parameter("query", "string", "Text or regular expression."),
                Parameter("in_row", "integer", "Only in this row, from 1.", required=False),
                Parameter("in_column", "integer", "Only in this column, from 1.", required=False),
            ),
        ),
        Tool("get_note", "Read the note on a cell.", "Its text, empty without one.", (_POSITION,)),
        Tool("finish", "End the task, once the sheet is as it has to be.", "done"),
    ),
    hints=(
        "Open a sheet before anything else. Rows and columns are counted from 1, and the first "
        "row usually holds the titles: freeze it before you sort.",
        "Positions are in A1 notation, that is, the letter of the column and the number of the "
        "row. Formulas accept the columns A to Z.",
    ),
    example=("The task is about this sheet, so I open it.", "open_sheet", {"name": "Budget"}),
)
