"""How results are shown: as the original did, or as a table for people who work in rounds.

Contains cutting and layout. Whatever a database holds, a text is short.
"""

from __future__ import annotations

from typing import Any, Final

from env_servers.environments.bird.database import Outcome
from env_servers.environments.bird.puzzle import DescribedDatabase

__all__ = ["as_table", "described", "shortened"]

_ORIGINAL_CHARS: Final = 100
_ROWS: Final = 20
_CELL_CHARS: Final = 60
_COLUMNS: Final = 30
_SAMPLE_ROWS: Final = 3


def shortened(outcome: Outcome) -> str:
    """The original's text: the rows as Python writes a list, or the error, 100 characters of it."""
    text = outcome.error if outcome.error is not None else str(list(outcome.rows))
    return f"{text[:_ORIGINAL_CHARS]}..." if len(text) > _ORIGINAL_CHARS else text


def as_table(outcome: Outcome, rows: int = _ROWS) -> str:
    """Column names and the first rows, one a line, and how many there are."""
    if outcome.error is not None:
        return f"Error: {outcome.error[:1000]}"
    if not outcome.columns:
        return "There is no result."
    lines = [" | ".join(_cell(name) for name in outcome.columns[:_COLUMNS])]
    lines += [" | ".join(_cell(value) for value in row[:_COLUMNS]) for row in outcome.rows[:rows]]
    more = f", of which the first {rows} are shown" if outcome.count > rows else ""
    lines.append(f"({outcome.count} {'row' if outcome.count == 1 else 'rows'}{more})")
    return "\n".join(lines)


def described(base: DescribedDatabase, table: str) -> str | None:
    """Return a table's columns and its first rows; None where there is no such table."""
    schema = base.declared
    names = {name.lower(): name for name in schema.tables}
    name = names.get(table.lower())
    if name is None:
        return None
    line = next(
        line
        for line, owner in zip(schema.lines().splitlines(), schema.tables, strict=True)
        if owner == name
    )
    quoted = '"' + name.replace('"', '""') + '"'
    sample = base.database.ask(f"SELECT * FROM {quoted} LIMIT {_SAMPLE_ROWS}")
    return f"{line}\n{as_table(sample)}"


def _cell(value: Any) -> str:
    """Return a value in one line; NULL for None."""
    text = "NULL" if value is None else str(value)
    text = " ".join(text.split("\n"))
    return f"{text[:_CELL_CHARS]}..." if len(text) > _CELL_CHARS else text
