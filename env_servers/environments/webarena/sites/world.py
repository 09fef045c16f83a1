"""A world: the sites as one episode sees them, the base with what the episode changed.

A world holds the rows that were added or changed, and the keys of those that were removed; the base
below it never changes. So making a world costs nothing, forking it is a copy of that overlay, and
its digest says what differs from an untouched one. Its clock stands, but for one second a change:
nothing here depends on the time of day or on chance.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Generic

from env_servers.environments.webarena.sites.tables import Base, Content, Key, Order, Row, Table
from env_servers.toolkit.retrieval.analysis import terms

__all__ = ["START", "Records", "World"]

START: Final = datetime(2025, 6, 30, 9, 0)
"""When every episode begins. Generated content covers the two years before."""


class World:
    """The databases of all sites, as one episode has changed them."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.changes = 0
        """Rows put or removed so far."""
        self._overlays: dict[str, dict[Key, Any]] = {}
        self._records: dict[str, Records[Any]] = {}
        self._digest: tuple[int, str] | None = None

    def __getitem__(self, table: Table[Row]) -> Records[Row]:
        """Return a table as this world has it."""
        records = self._records.get(table.name)
        if records is None:
            overlay = self._overlays.setdefault(table.name, {})
            records = Records(self, self.base.content(table), overlay)
            self._records[table.name] = records
        return records

    @property
    def now(self) -> datetime:
        """The time on this world's clock: one second later after each change."""
        return START + timedelta(seconds=self.changes)

    def fork(self) -> World:
        """Return a world in the same state that from now on goes its own way."""
        fork = World(self.base)
        fork.changes = self.changes
        fork._overlays = {name: dict(overlay) for name, overlay in self._overlays.items()}
        return fork

    def digest(self) -> str:
        """Return a hash of everything that this world changed, and of its clock."""
        if self._digest is None or self._digest[0] != self.changes:
            digest = hashlib.blake2b(str(self.changes).encode(), digest_size=16)
            for name, overlay in sorted(self._overlays.items()):
                for key in sorted(overlay, key=lambda key: (str(type(key)), key)):
                    digest.update(f"{name}\n{key!r}\n{overlay[key]!r}\n".encode())
            self._digest = (self.changes, digest.hexdigest())
        return self._digest[1]


class Records(Generic[Row]):
    """One table of a world. Rows are immutable: what is read stays as it was read."""

    def __init__(self, world: World, content: Content[Row], overlay: dict[Key, Row | None]) -> None:
        """`overlay` has the rows that differ from the base; None stands for a removed one."""
        self._world = world
        self._content = content
        self._overlay = overlay

    def __len__(self) -> int:
        base = self._content.rows
        gone = sum(row is None and key in base for key, row in self._overlay.items())
        new = sum(row is not None and key not in base for key, row in self._overlay.items())
        return len(base) - gone + new

    def __iter__(self) -> Iterator[Row]:
        """All rows: those of the base in their order, then the new ones in theirs."""
        overlay, base = self._overlay, self._content.rows
        if not overlay:
            yield from base.values()
            return
        for key, row in base.items():
            row = overlay.get(key, row)
            if row is not None:
                yield row
        yield from [row for key, row in overlay.items() if row is not None and key not in base]

    def get(self, key: Key) -> Row | None:
        """Return the row of a key."""
        if key in self._overlay:
            return self._overlay[key]
        return self._content.rows.get(key)

    def where(self, **values: object) -> list[Row]:
        """Return the rows whose fields have these values; the first field is best an indexed one.

        The order is that of `__iter__`.
        """
        (first, value), *rest = values.items()
        overlay = self._overlay
        if first in self._content.table.indexed:
            base = self._content.rows
            found: list[Row] = [
                base[key] for key in self._content.having(first, value) if key not in overlay
            ]
            changed = [
                row for row in overlay.values() if row is not None and getattr(row, first) == value
            ]
            if changed:
                found = self._in_order(found + changed)
        else:
            found = [row for row in self if getattr(row, first) == value]
        for field, wanted in rest:
            found = [row for row in found if getattr(row, field) == wanted]
        return found

    def ordered(self, order: Order[Row]) -> list[Row]:
        """Return all rows in an order; the base is sorted once per process."""
        rows = self._content.ordered(order)
        if not self._overlay:
            return list(rows)
        overlay, key_of = self._overlay, self._content.table.key_of
        kept = [row for row in rows if key_of(row) not in overlay]
        for row in overlay.values():
            if row is not None:
                order.insert(kept, row)
        return kept

    def search(self, query: str) -> list[Row]:
        """Return the rows that have a word of a query, best first, and new ones last."""
        content, overlay = self._content, self._overlay
        found: list[Row] = []
        wanted: set[str] = set(terms(query)) if overlay else set()
        seen: set[Key] = set()
        for key in content.search(query):
            row = overlay.get(key) if key in overlay else content.rows[key]
            if row is not None and (key not in overlay or self._has_any(row, wanted)):
                found.append(row)
                seen.add(key)
        for key, row in overlay.items():
            if row is not None and key not in seen and self._has_any(row, wanted):
                found.append(row)
        return found

    def _has_any(self, row: Row, wanted: set[str]) -> bool:
        text = self._content.table.text
        assert text is not None
        return not wanted.isdisjoint(terms(text(row)))

    def _in_order(self, rows: list[Row]) -> list[Row]:
        key_of, base = self._content.table.key_of, self._content.rows
        places = {key: place for place, key in enumerate(self._overlay)}

        def place(row: Row) -> tuple[Any, ...]:
            key = key_of(row)
            return (0, key) if key in base else (1, places[key])

        return sorted(rows, key=place)

    @property
    def next_id(self) -> int:
        """The number that a new row gets; those of removed rows are not given again."""
        newest = max((key for key in self._overlay if isinstance(key, int)), default=0)
        return max(self._content.last_id, newest) + 1

    def put(self, row: Row) -> Row:
        """Add a row, or replace the one of its key."""
        self._overlay[self._content.table.key_of(row)] = row
        self._world.changes += 1
        return row

    def change(self, key: Key, **values: object) -> Row:
        """Give fields of a row other values; returns the changed row.

        Raises:
            KeyError: There is no such row.
        """
        row: Any = self.get(key)
        if row is None:
            raise KeyError(key)
        return self.put(dataclasses.replace(row, **values))

    def remove(self, key: Key) -> None:
        """Remove a row, if it is there."""
        if self.get(key) is not None:
            self._overlay[key] = None
            self._world.changes += 1
