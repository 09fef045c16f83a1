"""Worlds over one base: what one changes no other sees, and a query is as if there were no base."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.environments.webarena.sites.tables import Base, Content, Order, Table
from env_servers.environments.webarena.sites.world import START, World


@dataclass(frozen=True, slots=True)
class Book:
    id: int
    title: str
    shelf: str
    price: int


BOOKS = Table("library.books", Book, indexed=("shelf",), text=lambda book: book.title)
BY_PRICE: Order[Book] = Order("price", lambda book: (book.price, book.id))
DEAREST: Order[Book] = Order("dearest", lambda book: (book.price, book.id), reverse=True)


def library() -> list[Content[Book]]:
    shelves = ("maps", "novels", "poems")
    books = (
        Book(n, f"{('red', 'green')[n % 2]} book {n}", shelves[n % 3], n * 7 % 11)
        for n in range(1, 21)
    )
    return [Content(BOOKS, books)]


@pytest.fixture(scope="module")
def base() -> Base:
    return Base({"library": library})


def test_a_database_is_built_when_it_is_first_asked_for() -> None:
    built: list[str] = []

    def build() -> list[Content[Book]]:
        built.append("library")
        return library()

    world = World(Base({"library": build}))
    assert built == []
    assert len(world[BOOKS]) == 20 and len(World(world.base)[BOOKS]) == 20
    assert built == ["library"]


def test_two_rows_with_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match=r"library\.books"):
        Content(BOOKS, [Book(1, "a", "maps", 1), Book(1, "b", "maps", 1)])


def test_what_one_world_changes_another_does_not_see(base: Base) -> None:
    one, other = World(base), World(base)
    one[BOOKS].change(3, price=99)
    one[BOOKS].remove(4)
    one[BOOKS].put(Book(one[BOOKS].next_id, "blue book", "maps", 5))
    assert [book.price for book in other[BOOKS].where(id=3)] == [10]
    assert other[BOOKS].get(4) is not None and len(other[BOOKS]) == 20
    assert other.digest() == World(base).digest() != one.digest()


def test_a_fork_starts_equal_and_goes_its_own_way(base: Base) -> None:
    world = World(base)
    world[BOOKS].change(3, price=99)
    fork = world.fork()
    assert fork.digest() == world.digest() and fork.now == world.now
    fork[BOOKS].change(3, price=1)
    assert [w[BOOKS].where(id=3)[0].price for w in (world, fork)] == [99, 1]
    assert fork.digest() != world.digest()


def test_the_clock_stands_but_for_a_second_a_change(base: Base) -> None:
    world = World(base)
    assert world.now == START
    world[BOOKS].change(3, price=99)
    assert (world.now - START).total_seconds() == 1


def test_numbers_of_removed_rows_are_not_given_again(base: Base) -> None:
    books = World(base)[BOOKS]
    books.put(Book(books.next_id, "blue book", "maps", 5))
    books.remove(21)
    assert books.next_id == 22


def test_a_search_finds_what_was_added_and_changed_and_not_what_is_gone(base: Base) -> None:
    books = World(base)[BOOKS]
    assert {book.id for book in books.search("green")} == set(range(1, 21, 2))
    books.change(1, title="blue book")
    books.remove(3)
    books.put(Book(21, "a green one", "maps", 5))
    assert {book.id for book in books.search("GREEN")} == {*range(5, 21, 2), 21}
    assert [book.id for book in books.search("blue")] == [1]
    assert books.search("nothing of this") == []


Change = st.tuples(st.sampled_from(["put", "remove"]), st.integers(1, 24), st.integers(0, 9))


@settings(max_examples=60, deadline=None)
@given(st.lists(Change, max_size=12))
def test_queries_over_base_and_overlay_equal_those_over_one_list(
    changes: list[tuple[str, int, int]],
) -> None:
    world = World(Base({"library": library}))
    books = world[BOOKS]
    plain = {book.id: book for book in library()[0].rows.values()}
    for kind, number, price in changes:
        if kind == "put":
            # A new row has the next number.
            number = number if number <= 20 else books.next_id
            plain[number] = books.put(Book(number, f"book {number}", "maps", price))
        else:
            books.remove(number)
            plain.pop(number, None)
    expected = sorted(plain.values(), key=lambda book: book.id)
    assert len(books) == len(expected)
    assert sorted(books, key=lambda book: book.id) == expected
    assert books.ordered(BY_PRICE) == BY_PRICE.sort(expected)
    assert books.ordered(DEAREST) == DEAREST.sort(expected)
    assert books.where(shelf="maps") == [book for book in expected if book.shelf == "maps"]
    assert [books.get(number) for number in range(1, 26)] == [
        plain.get(number) for number in range(1, 26)
    ]
