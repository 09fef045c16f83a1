"""What a database looks like, and how an agent is told.

Contains two descriptions: the original's sentences, with their quirks, and a faithful one with the
real names. A schema comes from an entry of BIRD's or Spider's tables file, or from the database
itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

__all__ = ["Schema", "read_entry", "read_schema", "read_schema_file", "schema_of_ddl"]


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables and columns as a tables file numbers them: column 0 is `*` of no table."""

    name: str
    tables: tuple[str, ...]
    columns: tuple[tuple[int, str], ...]
    """(table's number, name); the first is (-1, "*")."""
    primary_keys: tuple[int | tuple[int, ...], ...]
    """Numbers of columns; a key of several columns is a tuple."""
    foreign_keys: tuple[tuple[int, int], ...]
    """(referring, referred) numbers of columns."""
    types: tuple[str, ...] = ()
    """Declared types of the columns, where they are known."""

    def sentences(self) -> str:
        """Return the original's description.

        Its foreign keys name the right tables, but of each column the one that follows in the
        list; keys of several columns are left out. Names are put into lower case.
        """
        tables = [table.lower() for table in self.tables]
        names = [name.lower() for _, name in self.columns[1:]]
        parts = [f"{self.name} contains tables such as {', '.join(tables)}."]
        for number, table in enumerate(tables):
            own = [column for column, (owner, _) in enumerate(self.columns) if owner == number]
            columns = ", ".join(names[column - 1] for column in own)
            keys = ", ".join(names[column - 1] for column in own if column in self.primary_keys)
            parts.append(f"Table {table} has columns such as {columns}.")
            parts.append(f"{keys} is the primary key.")
        for pair in self.foreign_keys:
            # After the last column the original counts on from the first one.
            one, other = (
                f"{names[column % len(names)]} of {tables[self.columns[column][0]]}"
                for column in pair
            )
            parts.append(f"The {one} is the foreign key of {other}.")
        return " ".join(parts)

    def lines(self) -> str:
        """Return every table with its real columns, types and keys, one a line."""
        primary = {
            column
            for key in self.primary_keys
            for column in ((key,) if isinstance(key, int) else key)
        }
        referred = dict(self.foreign_keys)
        shown: list[str] = []
        for number, table in enumerate(self.tables):
            columns: list[str] = []
            for column, (owner, name) in enumerate(self.columns):
                if owner != number:
                    continue
                words = [_quoted(name), self.types[column] if self.types else ""]
                words.append("PRIMARY KEY" if column in primary else "")
                if column in referred:
                    owner_of_other, other = self.columns[referred[column]]
                    words.append(f"-> {_quoted(self.tables[owner_of_other])}.{_quoted(other)}")
                columns.append(" ".join(word for word in words if word))
            shown.append(f"{_quoted(table)}({', '.join(columns)})")
        return "\n".join(shown)


def read_entry(entry: Mapping[str, Any]) -> Schema:
    """The schema of a tables file's entry, with the normalised names that the original shows.

    Raises KeyError, TypeError or ValueError for an entry of another form.
    """
    return Schema(
        name=entry["db_id"],
        tables=tuple(entry["table_names"]),
        columns=tuple((owner, name) for owner, name in entry["column_names"]),
        primary_keys=tuple(
            tuple(key) if isinstance(key, list) else key for key in entry["primary_keys"]
        ),
        foreign_keys=tuple((one, other) for one, other in entry["foreign_keys"]),
    )


def schema_of_ddl(name: str, ddl: str) -> Schema:
    """Return the schema that CREATE statements make."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(ddl)
        return read_schema(name, connection)
    finally:
        connection.close()


def read_schema_file(name: str, path: Path) -> Schema:
    """Return the schema of a database file; raises sqlite3.Error."""
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
    try:
        return read_schema(name, connection)
    finally:
        connection.close()


def read_schema(name: str, connection: sqlite3.Connection) -> Schema:
    """Return the schema as the database itself declares it."""
    tables = [
        table
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            " ORDER BY rowid"
        )
    ]
    columns: list[tuple[int, str]] = [(-1, "*")]
    types = [""]
    primary: list[int | tuple[int, ...]] = []
    for number, table in enumerate(tables):
        keys: list[tuple[int, int]] = []
        for _, column, kind, _, _, key in connection.execute(
            f"PRAGMA table_info({_quoted(table)})"
        ):
            if key:
                keys.append((key, len(columns)))
            columns.append((number, column))
            types.append(kind)
        places = [place for _, place in sorted(keys)]
        if places:
            primary.append(places[0] if len(places) == 1 else tuple(places))
    foreign = _foreign_keys(connection, tables, columns, primary)
    return Schema(name, tuple(tables), tuple(columns), tuple(primary), foreign, tuple(types))


def _foreign_keys(
    connection: sqlite3.Connection,
    tables: Sequence[str],
    columns: Sequence[tuple[int, str]],
    primary: Sequence[int | tuple[int, ...]],
) -> tuple[tuple[int, int], ...]:
    """Pairs of columns; a reference without columns is to the primary key."""
    numbers = {table.lower(): number for number, table in enumerate(tables)}
    places = {(owner, name.lower()): index for index, (owner, name) in enumerate(columns)}
    key_of = {columns[key][0]: key for key in primary if isinstance(key, int)}
    pairs_found: list[tuple[int, int]] = []
    for number, table in enumerate(tables):
        rows = connection.execute(f"PRAGMA foreign_key_list({_quoted(table)})").fetchall()
        for _, _, other, own_column, other_column, *_ in sorted(rows):
            owner = numbers.get(other.lower(), -1)
            one = places.get((number, own_column.lower()))
            two = places.get((owner, other_column.lower())) if other_column else key_of.get(owner)
            if one is not None and two is not None:
                pairs_found.append((one, two))
    return tuple(pairs_found)


def _quoted(name: str) -> str:
    """Return the name as SQL reads it; quoted only where it has to be."""
    if name.isidentifier() and name.isascii():
        return name
    return '"' + name.replace('"', '""') + '"'
