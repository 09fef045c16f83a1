"""What an episode of a tool environment knows: its goal, and the tables that its calls returned."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from env_servers.sdk import View
from env_servers.toolkit.drawing import Table, document, facts, section, text_view
from env_servers.toolkit.tool_calls.episode import ToolEpisode

__all__ = ["draw_calls", "tables_of"]

_MAX_CALLS: Final = 20
_MAX_TABLES: Final = 6
"""Of one value."""
_MAX_ROWS: Final = 40
_MAX_COLUMNS: Final = 12
_MAX_DEPTH: Final = 3
_MAX_CHARS: Final = 500_000
"""Of all calls as markup; earlier calls are left out beyond."""

_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 300
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxtuple = 20


def draw_calls(episode: ToolEpisode) -> list[View]:
    """Draw what is asked, and what each call returned, the last call first."""
    expected = ", ".join(map(_SHORT.repr, episode.task.subgoals))
    known = {
        "goal": episode.task.goal,
        "expected": expected or "a state",
        "steps": episode.steps,
        "reward": f"{episode.reported_reward():g}",
    }
    calls = list(episode.outputs.items())[::-1]
    parts, lines, chars = [facts(known)], [f"{name}: {value}" for name, value in known.items()], 0
    for number, (call, value) in enumerate(calls):
        tables = list(itertools.islice(tables_of(value), _MAX_TABLES)) if value is not None else []
        part = section(call, *(table.html() for table in tables))
        chars += len(part)
        if number == _MAX_CALLS or chars > _MAX_CHARS:
            lines.append(f"({len(calls) - number:,} earlier calls)")
            parts.append(facts({"earlier calls": f"{len(calls) - number:,}"}))
            break
        parts.append(part)
        lines += ["", f"> {call}", *(table.text() for table in tables)]
    return [
        document("calls", "Goal and calls", *parts),
        text_view("text", "Calls as text", "\n".join(lines)),
    ]


def tables_of(value: Any, caption: str = "", depth: int = 0) -> Iterator[Table]:
    """Return a value as tables: records as rows, equally long lists as columns, else names."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        yield from _tables_of_fields(cast("Mapping[Any, Any]", value), caption, depth)
    elif isinstance(value, list | tuple) and depth < _MAX_DEPTH:
        yield _table_of_items(list(cast("Sequence[Any]", value)), caption)
    else:
        yield Table((), [[_cell(value)]], caption)


def _tables_of_fields(fields: Mapping[Any, Any], caption: str, depth: int) -> Iterator[Table]:
    columns = list(fields.values())[:_MAX_COLUMNS]
    lengths = {len(column) if _is_column(column) else -1 for column in columns}
    if len(lengths) == 1 and min(lengths) > 1:
        rows = [list(map(_cell, row)) for row in zip(*columns, strict=True)]
        yield Table([str(name) for name in fields][:_MAX_COLUMNS], rows, caption, _MAX_ROWS)
        return
    flat = {name: one for name, one in fields.items() if not isinstance(one, dict | list)}
    if flat:
        rows = [[str(name), _cell(one)] for name, one in flat.items()]
        yield Table((), rows, caption, _MAX_ROWS)
    for name, one in fields.items():
        if name not in flat:
            yield from tables_of(one, str(name), depth + 1)


def _table_of_items(items: list[Any], caption: str) -> Table:
    records = [cast("Mapping[Any, Any]", item) for item in items if isinstance(item, dict)]
    if not records or len(records) != len(items):
        return Table((), [[_cell(item)] for item in items], caption, _MAX_ROWS)
    names = list(dict.fromkeys(name for record in records for name in record))[:_MAX_COLUMNS]
    rows = [[_cell(record.get(name)) for name in names] for record in records]
    return Table([str(name) for name in names], rows, caption, _MAX_ROWS)


def _is_column(value: object) -> bool:
    return isinstance(value, list) and not any(
        isinstance(one, dict | list) for one in cast("list[Any]", value)
    )


def _cell(value: object) -> object:
    plain = value is None or isinstance(value, str | int | float)
    return value if plain else _SHORT.repr(value)
