"""Tables and the base: generated rows that all worlds of a process share.

A base is built once per process, database by database on first use, and never changes. Everything
that makes queries fast (indexes, orders, the search index) is built here, lazily, and shared, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from env_servers.toolkit.retrieval.bm25 import Index, IndexWriter

__all__ = ["Base", "Builder", "Content", "Key", "Order", "Row", "Table"]

Row = TypeVar("Row")
Key = int | str


@dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A kind of row: frozen, slotted dataclasses that hold numbers, texts, times, tuples, enums."""

    name: str
    """`<database>.<table>`, for example `shop.products`."""
    row: type[Row]
    key: str = "id"
    """The field that names a row. Keys that are numbers are given by `Records.next_id`."""
    indexed: tuple[str, ...] = ()
    """Fields that `Records.where` looks up without reading all rows."""
    text: Callable[[Row], str] | None = None
    """What a search reads of a row; None: the table cannot be searched."""

    @property
    def database(self) -> str:
        """The database that the table belongs to."""
        return self.name.partition(".")[0]

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return getattr(row, self.key)


@dataclass(frozen=True, slots=True)
class Order(Generic[Row]):
    """A way to sort a table. Its keys had better differ: end them in the row's own key."""

    name: str
    """Unique within the table."""
    key: Callable[[Row], Any]
    reverse: bool = False

    def sort(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows, which come in the order of their keys, sorted."""
        return sorted(rows, key=self.key, reverse=self.reverse)

    def insert(self, rows: list[Row], row: Row) -> None:
        """Put a row where it belongs among sorted ones, looking at few of them."""
        key, low, high = self.key(row), 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            other = self.key(rows[middle])
            if (other > key) if self.reverse else (other <= key):
                low = middle + 1
            else:
                high = middle
        rows.insert(low, row)


class Content(Generic[Row]):
    """The rows of one table in the base, with what finds them."""

    def __init__(self, table: Table[Row], rows: Iterable[Row]) -> None:
        """`rows` in the order of their keys.

        Raises:
            ValueError: Two rows have one key.
        """
        self.table = table
        rows = tuple(rows)
        self.rows: dict[Key, Row] = {table.key_of(row): row for row in rows}
        if len(self.rows) != len(rows):
            raise ValueError(f"two rows of {table.name} have one key")
        self.last_id = max((key for key in self.rows if isinstance(key, int)), default=0)
        self._indexes: dict[str, dict[Any, list[Key]]] = {}
        self._orders: dict[str, tuple[Row, ...]] = {}
        self._search: Index | None = None

    def having(self, field: str, value: object) -> Sequence[Key]:
        """Return the keys of the rows whose indexed field has a value, in their order."""
        index = self._indexes.get(field)
        if index is None:
            index = {}
            for key, row in self.rows.items():
                index.setdefault(getattr(row, field), []).append(key)
            self._indexes[field] = index
        return index.get(value, ())

    def ordered(self, order: Order[Row]) -> tuple[Row, ...]:
        """Return all rows in an order."""
        known = self._orders.get(order.name)
        if known is None:
            known = self._orders[order.name] = tuple(order.sort(self.rows.values()))
        return known

    def search(self, query: str) -> list[Key]:
        """Return the keys of the rows that have a word of a query, best first."""
        if self._search is None:
            self._search = self._search_index()
        index, keys = self._search, tuple(self.rows)
        return [keys[number] for number in index.search(query, max(1, len(index)))]

    def _search_index(self) -> Index:
        text = self.table.text
        if text is None:
            raise TypeError(f"table {self.table.name} names no text to search")
        writer = IndexWriter()
        for number, row in enumerate(self.rows.values()):
            # Equal scores are ordered by these ids.
            writer.add(f"{number:08d}", text(row))
        return writer.finish()

    def digest(self) -> str:
        """Return a hash of all rows."""
        digest = hashlib.blake2b(digest_size=16)
        for row in self.rows.values():
            digest.update(repr(row).encode())
        return digest.hexdigest()


Builder = Callable[[], Sequence[Content[Any]]]
"""Builds all tables of one database."""


class Base:
    """The databases of all sites, each built when it is first asked for."""

    def __init__(self, builders: Mapping[str, Builder]) -> None:
        """What builds each database, by its name."""
        self._builders = builders
        self._contents: dict[str, Content[Any]] = {}

    @property
    def databases(self) -> tuple[str, ...]:
        """The names of the databases."""
        return tuple(self._builders)

    def content(self, table: Table[Row]) -> Content[Row]:
        """Return a table's rows; a table that its database does not have is empty at first."""
        content = self._contents.get(table.name)
        if content is None:
            self.build(table.database)
            content = self._contents.setdefault(table.name, Content(table, ()))
        return cast("Content[Row]", content)

    def build(self, database: str) -> None:
        """Build a database now, unless it is there."""
        builder = self._builders.get(database)
        if builder is not None and not any(
            name.startswith(f"{database}.") for name in self._contents
        ):
            self._contents.update({content.table.name: content for content in builder()})

    def digest(self, database: str) -> str:
        """Return a hash of all rows of a database."""
        self.build(database)
        digest = hashlib.blake2b(digest_size=16)
        for name, content in sorted(self._contents.items()):
            if content.table.database == database and content.rows:
                digest.update(f"{name} {content.digest()}\n".encode())
        return digest.hexdigest()
