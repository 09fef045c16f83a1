"""The last statement with its result, the gold one, and the schema that both ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from env_servers.environments.bird.database import Outcome
from env_servers.environments.bird.puzzle import Puzzle
from env_servers.sdk import View
from env_servers.toolkit.drawing import Table, document, element, section, text_view

__all__ = ["GOLD", "Result", "draw", "keep"]

GOLD: Final = "Gold statement"
"""Title of what is right."""

_ROWS: Final = 20
_COLUMNS: Final = 12
_CELL_CHARS: Final = 80
_STATEMENT_CHARS: Final = 4_000


class Result(NamedTuple):
    """What a statement gave, as much of it as an episode keeps for its picture."""

    title: str
    statement: str
    table: Table | None
    """None where there is no result."""
    error: str


def keep(title: str, statement: str, outcome: Outcome) -> Result:
    """Return the beginning of an outcome."""
    statement = statement[:_STATEMENT_CHARS]
    if outcome.error is not None:
        return Result(title, statement, None, outcome.error[:_STATEMENT_CHARS])
    rows = [[_cell(value) for value in row[:_COLUMNS]] for row in outcome.rows[:_ROWS]]
    caption = f"rows: {outcome.count:,}, columns: {len(outcome.columns)}"
    if outcome.count > _ROWS or len(outcome.columns) > _COLUMNS:
        caption += f"; the first {_ROWS} and {_COLUMNS} at most are shown"
    head = [name[:_CELL_CHARS] for name in outcome.columns[:_COLUMNS]]
    return Result(title, statement, Table(head, rows, caption), "")


def draw(puzzle: Puzzle, results: Sequence[Result]) -> list[View]:
    """Draw what is asked, and the results that are kept."""
    question = [puzzle.question, *([f"Hint: {puzzle.evidence}"] if puzzle.evidence else [])]
    parts: list[object] = [section("Question", *(element("p", line) for line in question))]
    lines = list(question)
    for title, statement, table, error in results:
        shown = element("p", error, class_="bad") if table is None else table.html()
        parts.append(section(title, element("pre", statement), shown))
        lines += ["", f"# {title}", statement, error if table is None else table.text()]
    if not any(result.title == GOLD for result in results):
        parts.append(section(GOLD, element("pre", puzzle.sql)))
        lines += ["", f"# {GOLD}", puzzle.sql]
    schema = puzzle.base.lines
    parts.append(section(f"Database {puzzle.base.database.name}", element("pre", schema)))
    lines += ["", f"# Database {puzzle.base.database.name}", schema]
    return [
        document("result", "Statement and result", *parts),
        text_view("text", "Result as text", "\n".join(lines)),
    ]


def _cell(value: object) -> object:
    if value is None:
        return "NULL"
    return value if isinstance(value, int | float) else str(value)[:_CELL_CHARS]
