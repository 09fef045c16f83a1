"""A result of any shape as Markdown tables: what is too long or too deep is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

__all__ = ["circumstances", "tables"]

_SAID: Final = ("manifest", "packages", "config", "settings", "options", "schema", "layout")
"""By the command and the circumstances."""
_SKIPPED: Final = frozenset(
    (*_SAID, "benchmark", "cells", "contenders", "tasks", "items_that_differ")
)
"""Besides raw rounds, and lists of items."""
_MOST_CELLS: Final = 8
"""Values of a list that are shown; of a longer one their number is."""
_MOST_COLUMNS: Final = 20
_MOST_ROWS: Final = 60
_DEEPEST: Final = 3


def circumstances(result: Any) -> str:
    """Return when, where and how a result was measured, as far as it says; a line."""
    manifest = _manifest(result)
    if manifest is None:
        return ""
    said = [f"`{manifest['command']}`" if manifest.get("command") else ""]
    said.append(str(manifest.get("date", ""))[:10])
    said.append(f"commit {commit[:9]}" if (commit := str(manifest.get("git_commit", ""))) else "")
    if "cpu" in manifest:
        said.append(f"{manifest['cpu']}, {manifest.get('cores')} cores")
    if "load_average" in manifest:
        said.append(f"load average {manifest['load_average']} before")
    return ", ".join(it for it in said if it)


def _manifest(result: Any) -> Mapping[str, Any] | None:
    """The first manifest of a result, which may have one for each of its parts."""
    if not _is_mapping(result):
        return None
    found = result.get("manifest")
    if _is_mapping(found):
        return found
    return next((it for value in result.values() if (it := _manifest(value)) is not None), None)


def tables(result: Any, heading: str = "", depth: int = 0) -> Iterator[str]:
    """Yield blocks of Markdown: a table of the single values, then one of each group of values."""
    if not _is_mapping(result):
        return
    kept = {key: value for key, value in result.items() if key not in _SKIPPED}
    single = {key: shown for key, value in kept.items() if (shown := _cell(value)) is not None}
    if single:
        if heading:
            yield f"**{_escaped(heading)}**"
        yield _table(("", "value"), [(_words(key), text) for key, text in single.items()])
    for key, value in kept.items():
        if key in single:
            continue
        name = f"{heading}: {_words(key)}" if heading else _words(key)
        rows = _rows(value)
        if rows is not None:
            yield f"**{_escaped(name)}**"
            yield _matrix(rows)
        elif depth < _DEEPEST:
            yield from tables(_named(value), name, depth + 1)


def _rows(value: Any) -> Mapping[str, Mapping[str, str | None]] | None:
    """Rows of a table, where a group is one: every member has the same kind of single values."""
    members = _named(value)
    if not members or not all(_is_mapping(it) for it in members.values()):
        return None
    rows = {name: dict(_flat(cast("Mapping[str, Any]", it))) for name, it in members.items()}
    columns = {column for row in rows.values() for column in row}
    if not 0 < len(columns) <= _MOST_COLUMNS or any(None in row.values() for row in rows.values()):
        return None
    return rows


def _flat(member: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield a member's values, those of its groups by both names; None is no single value."""
    for key, value in member.items():
        if key in _SKIPPED:
            continue
        if _is_mapping(value) and value:
            for inner, text in _flat(value):
                yield f"{_words(key)} {inner}", text
        else:
            yield _words(key), _cell(value)


def _matrix(rows: Mapping[str, Mapping[str, str | None]]) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    shown = [(name, *(row.get(it) or "" for it in columns)) for name, row in rows.items()]
    text = _table(("", *columns), shown[:_MOST_ROWS])
    hidden = len(shown) - _MOST_ROWS
    return f"{text}\n\n{hidden} more rows are in the file." if hidden > 0 else text


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _named(value: Any) -> Mapping[str, Any]:
    """Members by name; those of a list by what they say they are, or by their place."""
    if _is_mapping(value):
        return value
    if not isinstance(value, list):
        return {}
    named: dict[str, Any] = {}
    for place, member in enumerate(cast("list[Any]", value)):
        name = str(place + 1)
        if _is_mapping(member):
            key = next((key for key, it in member.items() if isinstance(it, str)), "")
            if key and member[key] not in named:
                name = str(member[key])
                member = {it: value for it, value in member.items() if it != key}
        named[name] = member
    return named


def _cell(value: Any) -> str | None:
    """Return a single value as text; None for what is more than one."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        members = cast("list[Any]", value)
        cells = [_cell(it) for it in members]
        if any(isinstance(it, list) for it in members) or None in cells:
            return None
        if not cells:
            return "none"
        if len(cells) > _MOST_CELLS:
            return f"{len(cells):,} values"
        return ", ".join(str(it) for it in cells)
    return None if value else "none"


def _words(key: str) -> str:
    return key.replace("_", " ")


def _escaped(text: str) -> str:
    for mark in "\\|<>*_[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)
