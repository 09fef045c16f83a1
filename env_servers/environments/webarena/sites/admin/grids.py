"""Grids: the tables of the administration, which are filtered, searched, sorted and paged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Generic, TypeVar

from starlette.responses import Response

from env_servers.environments.webarena.sites.fields import Fields
from env_servers.environments.webarena.sites.formats import minute, money
from env_servers.environments.webarena.sites.paging import cut
from env_servers.environments.webarena.sites.visit import Visit

__all__ = ["Column", "Grid"]

Row = TypeVar("Row")
LIMITS: Final = ("20", "30", "50", "100", "200")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a grid. Its kind says how it is filtered: texts contain what is asked for."""

    name: str
    label: str
    value: Callable[[Row], Any]
    kind: str = "text"
    """`text`, `number`, `money` (cents), `day` or `choice`."""
    choices: Mapping[str, str] | None = None
    """Of a choice: labels by value."""

    def shown(self, row: Row) -> str:
        """Return what a cell shows."""
        value = self.value(row)
        if self.choices is not None:
            return self.choices.get(value, str(value))
        if self.kind == "money":
            return money(value)
        return minute(value) if isinstance(value, datetime) else str(value)

    def keeps(self, row: Row, query: Fields) -> bool:
        """Whether a row passes this column's filter."""
        value = self.value(row)
        if self.kind in ("text", "choice"):
            wanted = query.text(self.name).lower()
            if self.kind == "choice":
                return wanted in ("", str(value))
            return wanted in str(value).lower()
        low, high = self._bounds(query)
        if isinstance(value, datetime):
            value = value.date()
        return (low is None or value >= low) and (high is None or value <= high)

    def _bounds(self, query: Fields) -> tuple[Any, Any]:
        names = (f"{self.name}[from]", f"{self.name}[to]")
        if self.kind == "day":
            return query.day(names[0]), query.day(names[1])
        low, high = query.cents(names[0]), query.cents(names[1])
        if self.kind == "number":
            return (None if low is None else low / 100, None if high is None else high / 100)
        return low, high

    def filters(self, query: Fields) -> list[str]:
        """Return the filters of this column that are active, as they are shown."""
        if self.kind in ("text", "choice"):
            text = query.text(self.name)
            label = (self.choices or {}).get(text, text)
            return [f"{self.label}: {label}"] if text else []
        low, high = query.text(f"{self.name}[from]"), query.text(f"{self.name}[to]")
        return [f"{self.label}: {low or '...'} - {high or '...'}"] if low or high else []


@dataclass(frozen=True, slots=True)
class Grid(Generic[Row]):
    """What a grid shows and what can be done with its rows."""

    title: str
    section: str
    """Part of the administration that it belongs to."""
    columns: Sequence[Column[Row]]
    link: Callable[[Row], str] | None = None
    """Address of a row's own page."""
    link_label: str = "View"
    new: tuple[str, str] | None = None
    """Address and label of the button that adds a row."""
    mass: str = ""
    """Address of the form that does something with the chosen rows."""
    actions: Sequence[tuple[str, str]] = ()
    """Value and label of what it can do."""
    order: str = "id"
    """Column that sorts while none is chosen; the greatest comes first."""
    falls: bool = True

    def show(self, visit: Visit, rows: Iterable[Row]) -> Response:
        """Answer with one page of the rows that pass the filters."""
        query = visit.query
        active = [column for column in self.columns if column.filters(query)]
        found = [row for row in rows if all(column.keeps(row, query) for column in active)]
        word = query.text("search").lower()
        if word:
            found = [row for row in found if self._has(row, word)]
        sorter = {column.name: column for column in self.columns}
        name = query.choice("sort", sorter, self.order)
        falls = query.choice("dir", ("asc", "desc"), "desc" if self.falls else "asc") == "desc"
        found.sort(key=lambda row: _sortable(sorter[name].value(row)), reverse=falls)
        limit = query.choice("limit", LIMITS, "20")
        page = cut(found, query.number("p", 1), int(limit))
        filters = [text for column in self.columns for text in column.filters(query)]
        return visit.render(
            "grid.html",
            grid=self,
            page=page,
            sort=name,
            falls=falls,
            limit=limit,
            limits=[(text, text) for text in LIMITS],
            filters=filters,
        )

    def _has(self, row: Row, word: str) -> bool:
        # Orders and their papers show a number with leading zeros in place of their key.
        number = str(getattr(row, "number", ""))
        return word in number or any(word in it.shown(row).lower() for it in self.columns)


def _sortable(value: Any) -> tuple[bool, Any]:
    # Where a date is missing there is an empty text, which comes before all dates.
    is_ordered = isinstance(value, (datetime, date, int, float))
    return is_ordered, value if is_ordered else str(value).lower()
