"""One page of a longer list, and the numbers that lead to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Page", "cut"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some of a list's items, with where they stand in it."""

    items: Sequence[Item]
    number: int
    """From 1."""
    size: int
    total: int
    """Items on all pages."""

    @property
    def count(self) -> int:
        """Number of pages; an empty list has one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """Place of the first item in the list, from 1; 0 for an empty list."""
        return min((self.number - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """Place of the last item on this page."""
        return min(self.number * self.size, self.total)

    @property
    def previous(self) -> int | None:
        """Number of the page before."""
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        """Number of the page after."""
        return self.number + 1 if self.number < self.count else None

    def around(self, width: int = 5) -> range:
        """The numbers of at most `width` pages around this one."""
        first = max(1, min(self.number - width // 2, self.count - width + 1))
        return range(first, min(self.count, first + width - 1) + 1)


def cut(items: Sequence[Item], number: int, size: int) -> Page[Item]:
    """Return a page of a list; a number beyond the last page gives the last."""
    last = max(1, -(-len(items) // size))
    number = min(max(number, 1), last)
    return Page(items[(number - 1) * size : number * size], number, size, len(items))
