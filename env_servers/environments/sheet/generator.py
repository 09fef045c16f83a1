"""Embedded sheet tasks: a drawn table and work to be done on it.

A task is one to three pieces of work; its calls are carried out on the real workbook engine, and
the grid that they leave is what is asked for. Draws are made anew until neither the untouched sheet
nor any state before the last call is worth everything. Train and eval tables have different topics.
An index is a task for ever: changing the order of draws changes tasks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from env_servers.environments.sheet.assignments import Assignment
from env_servers.environments.sheet.cells import EMPTY, Address, Cell, column_label, render
from env_servers.environments.sheet.memory import MemorySpreadsheet
from env_servers.environments.sheet.scoring import Grid, overlap_share
from env_servers.environments.sheet.tables import EVAL_TOPICS, TRAIN_TOPICS, Topic, draw_rows
from env_servers.environments.sheet.tools import SheetTools
from env_servers.environments.sheet.workbook import Sheet, Workbook
from env_servers.toolkit.tool_calls import PlannedCall, call_key

__all__ = ["CHAINS", "KINDS", "make_assignment", "task_kind"]

CHAINS: Final = range(1, 7)
"""Calls of a task between `open_sheet` and `finish`."""
_RECORDS: Final = (6, 14)
TOTAL: Final = "Total"
"""Label of an empty last row, in tables whose task fills it."""
RESULT: Final = "Result"
"""Title of an empty last column, likewise."""


class _Unsuitable(Exception):
    """The drawn table does not allow this piece of work."""


@dataclass(slots=True)
class Draft:
    """A task under construction: the sheet as it is now, and what was done so far."""

    rng: random.Random
    topic: Topic
    tools: SheetTools
    sentences: list[str] = field(default_factory=list[str])
    calls: list[PlannedCall] = field(default_factory=list[PlannedCall])
    states: list[Grid] = field(default_factory=list[Grid])
    """The grid before the first call and after each."""
    frozen: bool = False

    @property
    def grid(self) -> list[list[str]]:
        """Displayed values now."""
        return self.tools.book.values()

    def call(self, tool: str, arguments: Mapping[str, Any], *why: str) -> Any:
        """Do a call; raises _Unsuitable where it repeats one or fails."""
        if any(c.tool == tool and c.arguments == arguments for c in self.calls):
            raise _Unsuitable("repeats a call")
        method: Callable[..., Any] = getattr(self.tools, tool)
        value = method(**arguments)
        if isinstance(value, str) and ("Error" in value or "cannot" in value):
            raise _Unsuitable(value)
        self.calls.append(PlannedCall(tool, arguments, why))
        self.states.append([list(row) for row in self.grid])
        return value

    def say(self, *wordings: str) -> None:
        """What the user asks for."""
        self.sentences.append(self.rng.choice(wordings))

    @property
    def records(self) -> list[list[str]]:
        """The rows between the titles and the row of totals, if there is one."""
        return [row for row in self.grid[1:] if row[0] != TOTAL]

    def number_columns(self) -> list[int]:
        """Columns below whose title all cells are different numbers."""
        columns_found: list[int] = []
        for column in range(2, len(self.grid[0])):
            texts = [row[column] for row in self.records]
            if all(_is_number(text) for text in texts) and len(set(texts)) == len(texts):
                columns_found.append(column)
        if not columns_found:
            raise _Unsuitable("no column of numbers")
        return columns_found

    def record(self) -> int:
        """Return a record's row, counted from 0."""
        return self.rng.randrange(1, len(self.records) + 1)

    def new_number(self, column: int) -> str:
        """Return a number for a column, as its cells show it, that no cell there has."""
        title = self.grid[0][column]
        source = next((c for c in self.topic.numbers if c.title == title), None)
        if source is None:
            raise _Unsuitable("not a column of the topic")
        number = source.draw(self.rng, 1)[0]
        text = render(number, source.look)
        if "," in text or any(row[column] == text for row in self.grid):
            raise _Unsuitable("the number is there already")
        return text


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _value(text: str) -> float:
    return float(text.replace(",", ""))


# -- pieces of work -------------------------------------------------------------------------


def _sort(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    order = draft.rng.choice(("asc", "des"))
    title = draft.grid[0][column]
    word = "ascending" if order == "asc" else "descending"
    draft.say(
        f'sort the records by "{title}" in {word} order',
        f'put the records into {word} order of "{title}"',
    )
    if not draft.frozen:
        draft.call(
            "freeze_data",
            {"dimension": "rows", "num": 1},
            "The titles must not be sorted with the records, so I freeze the first row.",
            "Before sorting I freeze the row of titles.",
        )
        draft.frozen = True
    draft.call(
        "sort_sheet_by_col",
        {"col_num": column + 1, "order": order},
        f'Now I sort by "{title}", which is column {column + 1}.',
        f'Column {column + 1} holds "{title}"; I sort by it in {word} order.',
    )


def _update_cell(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    row = draft.record()
    name, title = draft.grid[row][0], draft.grid[0][column]
    text = draft.new_number(column)
    draft.say(
        f'set "{title}" of {name} to {text}',
        f'change the "{title}" of {name} to {text}',
    )
    position = Address(row, column).label
    draft.call(
        "update_cell",
        {"position": position, "value": text},
        f'{name} stands in row {row + 1}, so its "{title}" is the cell {position}.',
        f"The cell to change is {position}.",
    )


def _update_column(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    title = draft.grid[0][column]
    count = draft.rng.randint(2, 4)
    values = list(dict.fromkeys(draft.new_number(column) for _ in range(count)))
    if len(values) != count:
        raise _Unsuitable("equal numbers")
    listed = ", ".join(values)
    draft.say(
        f'replace "{title}" of the first {count} records, from top to bottom, by {listed}',
        f'write {listed} into "{title}" of the first {count} records, from top to bottom',
    )
    start, end = Address(1, column).label, Address(count, column).label
    draft.call(
        "update_range",
        {"start_position": start, "end_position": end, "values_list": [[v] for v in values]},
        f"The values go from {start} to {end}, so one update of the range is enough.",
        f'"{title}" of these records is the range from {start} to {end}.',
    )


def _new_record(draft: Draft) -> tuple[str, list[str]]:
    """Return a name that is not there, and its record."""
    names = [name for name in draft.topic.labels if all(name != row[0] for row in draft.grid)]
    if not names:
        raise _Unsuitable("all names are there")
    values = [draft.rng.choice(names), draft.rng.choice(draft.topic.groups)]
    values += [draft.new_number(column) for column in range(2, len(draft.grid[0]))]
    return values[0], values


def _insert_record(draft: Draft) -> None:
    _, values = _new_record(draft)
    row = draft.record()
    after = draft.grid[row][0]
    listed = ", ".join(values)
    draft.say(
        f"insert the record ({listed}) right below {after}",
        f"add a row with {listed} directly after the one of {after}",
    )
    draft.call(
        "insert_rows",
        {"values_list": [values], "row_idx": row + 2},
        f"{after} is in row {row + 1}, so the new record becomes row {row + 2}.",
        f"The new row goes before what is row {row + 2} now.",
    )


def _insert_two(draft: Draft) -> None:
    first, one = _new_record(draft)
    second, two = _new_record(draft)
    if first == second or len(draft.grid[0]) != len(one):
        raise _Unsuitable("one name twice")
    draft.say(
        f"insert the records ({', '.join(one)}) and ({', '.join(two)}) in this order at the top, "
        "right below the titles"
    )
    draft.call(
        "insert_rows",
        {"values_list": [one, two], "row_idx": 2},
        "The titles are row 1, so both records are inserted at row 2.",
        "One call inserts both rows before the present row 2.",
    )


def _delete_group(draft: Draft) -> None:
    counts = Counter(row[1] for row in draft.records)
    group = draft.rng.choice(sorted(counts))
    if counts[group] > len(draft.records) - 3:
        raise _Unsuitable("too little would stay")
    title = draft.grid[0][1]
    draft.say(
        f'delete all records whose "{title}" is {group}',
        f'remove every record with {group} as its "{title}"',
    )
    labels = draft.call(
        "filter_cells",
        {"query": group, "in_column": 2},
        f'I search column 2, "{title}", for {group}.',
        f"Which rows have {group} in column 2?",
    )
    _delete_found(draft, labels)


def _delete_found(draft: Draft, labels: Sequence[str]) -> None:
    rows = [int(label.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) for label in labels]
    if not rows or len(rows) > len(draft.records) - 3:
        raise _Unsuitable("nothing or too much to delete")
    draft.call(
        "delete_batch_data",
        {"dimension": "row", "index_list": rows},
        f"The rows {rows} have to go.",
        f"I delete these rows in one call: {rows}.",
    )


def _delete_best(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    title, letter = draft.grid[0][column], column_label(column)
    operator = draft.rng.choice(("MAX", "MIN"))
    word = "highest" if operator == "MAX" else "lowest"
    draft.say(f'delete the record with the {word} "{title}"')
    value = draft.call(
        "get_value_by_formula",
        {
            "start_position": f"{letter}2",
            "end_position": f"{letter}{len(draft.records) + 1}",
            "operator": operator,
        },
        f'First I look for the {word} value of "{title}".',
        f"{operator} over column {letter} tells which value it is.",
    )
    labels = draft.call(
        "filter_cells",
        {"query": value, "in_column": column + 1},
        f"Now I look in which row {value} stands.",
        f"The value is {value}; I search its row.",
    )
    _delete_found(draft, labels)


def _delete_above(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    title, letter = draft.grid[0][column], column_label(column)
    values = sorted(_value(row[column]) for row in draft.records)
    limit = values[draft.rng.randrange(len(values) // 2, len(values) - 1)]
    rows = [n for n, row in enumerate(draft.records, start=2) if _value(row[column]) > limit]
    draft.say(
        f'delete all records with more than {limit:.10g} in "{title}"',
        f'remove the records whose "{title}" is greater than {limit:.10g}',
    )
    start, end = f"{letter}2", f"{letter}{len(draft.records) + 1}"
    draft.call(
        "get_range_values",
        {"start_position": start, "end_position": end},
        f'I read "{title}" to compare it with {limit:.10g}.',
        f"The values to compare are in {start} to {end}.",
    )
    _delete_found(draft, [f"A{row}" for row in rows])


def _delete_column(draft: Draft) -> None:
    if len(draft.grid[0]) < 4:
        raise _Unsuitable("too few columns")
    column = draft.rng.choice(draft.number_columns())
    title = draft.grid[0][column]
    draft.say(f'remove the column "{title}"', f'delete the whole column "{title}"')
    draft.call(
        "delete_batch_data",
        {"dimension": "col", "index_list": [column + 1]},
        f'"{title}" is column {column + 1}.',
        f'I delete column {column + 1}, which holds "{title}".',
    )


def _number_rows(draft: Draft) -> None:
    if "No." in draft.grid[0]:
        raise _Unsuitable("numbered already")
    count = len(draft.records)
    draft.say(
        'insert a new first column "No." that numbers the records from 1, from top to bottom',
    )
    draft.call(
        "insert_cols",
        {"values_list": [["No.", *range(1, count + 1)]], "col_idx": 1},
        f"There are {count} records, so the new column holds its title and 1 to {count}.",
        f"I insert a column before column 1, with numbers up to {count}.",
    )


def _total_row(draft: Draft) -> None:
    column = draft.rng.choice(draft.number_columns())
    operator = draft.rng.choice(("SUM", "AVERAGE", "MAX", "MIN", "COUNT"))
    word = {
        "SUM": "sum",
        "AVERAGE": "average",
        "MAX": "maximum",
        "MIN": "minimum",
        "COUNT": "count",
    }[operator]
    title, letter = draft.grid[0][column], column_label(column)
    last = len(draft.records) + 1
    result = f"{letter}{last + 1}"
    draft.say(
        f'in the row "{TOTAL}", in the column "{title}", put a formula for the {word} of all '
        f'values of "{title}"',
        f'enter the {word} of "{title}" as a formula into its cell in the row "{TOTAL}"',
    )
    draft.call(
        "update_cell_by_formula",
        {
            "start_position": f"{letter}2",
            "end_position": f"{letter}{last}",
            "result_position": result,
            "operator": operator,
        },
        f"The values are in {letter}2 to {letter}{last}, and the result belongs into {result}.",
        f"A {operator} formula in {result} does that.",
    )


def _combine(draft: Draft) -> None:
    columns = draft.number_columns()
    if len(columns) < 2:
        raise _Unsuitable("needs two columns")
    one, two = sorted(draft.rng.sample(columns, 2))
    operator, word = draft.rng.choice((("SUM", "sum"), ("PRODUCT", "product"), ("MINUS", "")))
    first, second = draft.grid[0][one], draft.grid[0][two]
    result_name = (
        f'the {word} of "{first}" and "{second}"' if word else f'"{first}" minus "{second}"'
    )
    rows = draft.rng.sample(range(1, len(draft.grid)), draft.rng.randint(1, 3))
    names = ", ".join(draft.grid[row][0] for row in rows)
    last = draft.grid[0].index(RESULT)
    draft.say(
        f'in the column "{RESULT}", put a formula for {result_name} into the rows of: {names}',
        f'fill "{RESULT}" for these records only, with a formula for {result_name}: {names}',
    )
    for row in rows:
        cells = [Address(row, one).label, Address(row, two).label]
        result = Address(row, last).label
        draft.call(
            "update_cell_by_formula",
            {"position_list": cells, "result_position": result, "operator": operator},
            f"For {draft.grid[row][0]} the formula over {cells} goes into {result}.",
            f"{operator} of {cells[0]} and {cells[1]} belongs into {result}.",
        )


def _merge_titles(draft: Draft) -> None:
    first, second = draft.grid[0][0], draft.grid[0][1]
    draft.say(f'merge the titles "{first}" and "{second}" into one cell')
    draft.call(
        "merge_cells",
        {"start_position": "A1", "end_position": "B1"},
        "The two titles stand in A1 and B1.",
        "I merge A1 and B1.",
    )


def _follow_note(draft: Draft) -> None:
    """The table comes with notes, see `_with_note`; this reads one and does what it says."""
    book = draft.tools.book
    noted = [
        (row, book.note(Address(row, 0)))
        for row in range(1, len(draft.grid))
        if book.note(Address(row, 0))
    ]
    if not noted:
        raise _Unsuitable("no notes")
    row, note = draft.rng.choice(noted)
    name = draft.grid[row][0]
    title, _, text = note.partition(" is now ")
    if title not in draft.grid[0] or draft.grid[row][draft.grid[0].index(title)] == text:
        raise _Unsuitable("the note is outdated")
    draft.say(
        f"do what the note on the cell of {name} says",
        f"update {name} according to the note on its cell",
    )
    draft.call(
        "get_note",
        {"position": f"A{row + 1}"},
        f"{name} is in A{row + 1}; I read the note there.",
        f"The note on A{row + 1} says what to do.",
    )
    position = Address(row, draft.grid[0].index(title)).label
    draft.call(
        "update_cell",
        {"position": position, "value": text},
        f'The note says "{note}", and that is the cell {position}.',
        f"According to the note, {position} becomes {text}.",
    )


PIECES: Final[dict[str, Callable[[Draft], None]]] = {
    "sort": _sort,
    "update cell": _update_cell,
    "update range": _update_column,
    "insert record": _insert_record,
    "insert records": _insert_two,
    "delete group": _delete_group,
    "delete extreme": _delete_best,
    "delete above": _delete_above,
    "delete column": _delete_column,
    "number rows": _number_rows,
    "total row": _total_row,
    "combine columns": _combine,
    "merge titles": _merge_titles,
    "follow note": _follow_note,
}
"""Pieces of work by name."""

KINDS: Final[tuple[tuple[str, ...], ...]] = (
    *((name,) for name in PIECES),
    ("sort", "merge titles"),
    ("update cell", "sort"),
    ("follow note", "sort"),
    ("insert record", "sort"),
    ("insert records", "sort"),
    ("update range", "sort"),
    ("delete group", "sort"),
    ("delete above", "sort"),
    ("delete extreme", "sort"),
    ("sort", "number rows"),
    ("delete column", "sort"),
    ("delete group", "total row"),
    ("update cell", "total row"),
    ("sort", "combine columns"),
    ("update cell", "delete group", "sort"),
    ("follow note", "delete above", "sort"),
    ("insert record", "delete extreme", "sort"),
    ("update range", "sort", "merge titles"),
    ("delete extreme", "sort", "number rows"),
    ("follow note", "follow note", "sort"),
    ("delete group", "delete extreme", "merge titles"),
    ("insert records", "delete column", "sort"),
)
"""Combinations of pieces; an index takes them in turn."""


def task_kind(index: int) -> str:
    """Sort of work of a task, by its index."""
    return " + ".join(KINDS[index % len(KINDS)])


def make_assignment(index: int, *, held_out: bool) -> Assignment:
    """Return the task of an index."""
    pieces = KINDS[index % len(KINDS)]
    attempt = 0
    while True:
        rng = random.Random(f"sheet:{held_out}:{index}:{attempt}")
        try:
            return _assignment(rng, EVAL_TOPICS if held_out else TRAIN_TOPICS, pieces)
        except _Unsuitable:
            attempt += 1


def _assignment(rng: random.Random, topics: Sequence[Topic], pieces: Sequence[str]) -> Assignment:
    topic = rng.choice(topics)
    book = _book(rng, topic, topics, pieces)
    spreadsheet = MemorySpreadsheet(Workbook(book))
    draft = Draft(rng, topic, SheetTools(spreadsheet))
    draft.call(
        "open_sheet",
        {"name": topic.sheet},
        f'The task is about "{topic.sheet}", so I open it first.',
        f'I have to open "{topic.sheet}" before I can work on it.',
    )
    for piece in pieces:
        PIECES[piece](draft)
    target = draft.states[-1]
    _check(draft, target)
    done = draft.sentences
    steps = done[0] if len(done) == 1 else ", then ".join(done)
    goal = f'In the sheet "{topic.sheet}", {steps}.'
    return Assignment(
        book,
        topic.sheet,
        goal,
        tuple(map(tuple, target)),
        tuple(draft.calls),
        " + ".join(pieces),
    )


def _check(draft: Draft, target: Grid) -> None:
    """Only the last call may complete the sheet, and the plan has to have a fitting length."""
    if len(draft.calls) - 1 not in CHAINS:
        raise _Unsuitable("too many calls")
    if any(overlap_share(state, target) >= 1.0 for state in draft.states[:-1]):
        raise _Unsuitable("complete too early")
    keys = [call_key(call.tool, dict(call.arguments)) for call in draft.calls]
    if None in keys or len(set(keys)) != len(keys):
        raise _Unsuitable("repeats a call")


def _book(
    rng: random.Random, topic: Topic, topics: Sequence[Topic], pieces: Sequence[str]
) -> dict[str, Sheet]:
    """Return the sheet of the task, and another one that is none of its business."""
    rows = draw_rows(rng, topic, rng.randint(*_RECORDS))
    if "total row" in pieces:
        rows.append((Cell(TOTAL), *(cell._replace(value=None) for cell in rows[-1][1:])))
    if "combine columns" in pieces:
        rows = [(*rows[0], Cell(RESULT)), *((*row, EMPTY) for row in rows[1:])]
    if "follow note" in pieces:
        for number in rng.sample(range(1, len(rows)), 3):
            column = rng.randrange(2, len(rows[0]))
            source = topic.numbers[column - 2]
            text = render(source.draw(rng, 1)[0], source.look).replace(",", "")
            note = f"{source.title} is now {text}"
            rows[number] = (rows[number][0]._replace(note=note), *rows[number][1:])
    book = {topic.sheet: Sheet(rows)}
    other = rng.choice([candidate for candidate in topics if candidate is not topic])
    book[other.sheet] = Sheet(draw_rows(rng, other, 6))
    for sheet in book.values():
        sheet.values()
    return book
