"""The database of a city's public libraries: books, copies, members and loans.

Dirty on purpose: the languages of books are written as codes and as words, a year of publication
may be 0 for unknown, fines are texts with a comma for the decimals.
"""

from __future__ import annotations

import random
from typing import Any, Final

from env_servers.environments.bird.domains.retail import FIRST, LAST
from env_servers.environments.bird.domains.template import (
    Domain,
    Level,
    Pool,
    Rows,
    Template,
    days,
    pick,
    pool,
)

__all__ = ["LIBRARY"]

_DDL: Final = """
CREATE TABLE branch (
  branch_id INTEGER PRIMARY KEY, branch_name TEXT NOT NULL, district TEXT NOT NULL,
  opened INTEGER NOT NULL);
CREATE TABLE author (
  author_id INTEGER PRIMARY KEY, author_name TEXT NOT NULL, country TEXT, birth_year INTEGER);
CREATE TABLE book (
  book_id INTEGER PRIMARY KEY, title TEXT NOT NULL, genre TEXT NOT NULL, language TEXT NOT NULL,
  published INTEGER NOT NULL, pages INTEGER);
CREATE TABLE book_author (
  book_id INTEGER NOT NULL REFERENCES book(book_id),
  author_id INTEGER NOT NULL REFERENCES author(author_id), PRIMARY KEY (book_id, author_id));
CREATE TABLE copy (
  copy_id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES book(book_id),
  branch_id INTEGER NOT NULL REFERENCES branch(branch_id), acquired TEXT NOT NULL,
  condition TEXT);
CREATE TABLE member (
  member_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
  kind TEXT NOT NULL, home_branch INTEGER REFERENCES branch(branch_id), joined TEXT NOT NULL);
CREATE TABLE loan (
  loan_id INTEGER PRIMARY KEY, copy_id INTEGER NOT NULL REFERENCES copy(copy_id),
  member_id INTEGER NOT NULL REFERENCES member(member_id), lent TEXT NOT NULL,
  due TEXT NOT NULL, returned TEXT, fine TEXT)
"""

_BRANCHES: Final = (
    *("Central", "Harbour", "Hillside", "Market Square", "Old Mill", "Parkview", "University"),
    *("Westgate", "Lakeside"),
)
_DISTRICTS: Final = ("Centre", "North", "South")
_GENRES: Final = (
    *("Crime", "Fantasy", "History", "Poetry", "Romance", "Science", "Travel", "Biography"),
    *("Cooking", "Children"),
)
_COUNTRIES: Final = ("Norway", "France", "Japan", "Brazil", "Canada", "Kenya", "Italy", None)
_LANGUAGES: Final = (
    *("English", "English", "english", "EN", "French", "FR", "German", "german", "DE", "Spanish"),
    *("ES",),
)
_HEADS: Final = (
    *("The Silent", "A Golden", "The Last", "Beyond the", "The Hidden", "Letters to the"),
    *("The Burning", "Songs of the", "The Broken", "Under the", "A Short", "The Seventh"),
)
_TAILS: Final = (
    *("Garden", "River", "Mountain", "Clock", "Winter", "Island", "Lighthouse", "Journey"),
    *("Orchard", "Harbour", "Mirror", "Forest", "Kingdom", "Station", "Letter", "Bridge"),
)
_CONDITIONS: Final = ("new", "good", "good", "good", "worn", "damaged", None)
_KINDS: Final = ("adult", "adult", "adult", "student", "child", "senior")
_AUTHORS: Final = 320
_BOOKS: Final = 1900
_COPIES: Final = 5200
_MEMBERS: Final = 2600
_LOANS: Final = 14_000


def _rows(rng: random.Random) -> Rows:
    yield (
        "branch",
        [
            (n, name, _DISTRICTS[n % 3], 1900 + rng.randrange(115))
            for n, name in enumerate(_BRANCHES, 1)
        ],
    )
    authors: list[tuple[Any, ...]] = []
    for number in range(1, _AUTHORS + 1):
        initial = "ABCDEFGHJKLMNPRST"[number % 17]
        name = f"{FIRST[number % 20]} {initial}. {LAST[(number // 20 + number * 3) % 20]}"
        born = None if rng.random() < 0.1 else 1860 + rng.randrange(135)
        authors.append((number, name, pick(rng, _COUNTRIES), born))
    yield "author", authors
    yield "book", [_book(rng, number) for number in range(1, _BOOKS + 1)]
    written: set[tuple[int, int]] = set()
    for number in range(1, _BOOKS + 1):
        for _ in range((1, 1, 1, 1, 2)[rng.randrange(5)]):
            written.add((number, 1 + int((_AUTHORS - 10) * rng.random() ** 1.3)))
    yield "book_author", sorted(written)
    yield from _circulation(rng)


def _book(rng: random.Random, number: int) -> tuple[Any, ...]:
    title = f"{pick(rng, _HEADS)} {pick(rng, _TAILS)}"
    if rng.random() < 0.3:
        title += f", Volume {1 + rng.randrange(4)}"
    year = 0 if rng.random() < 0.05 else 1925 + int(99 * rng.random() ** 0.6)
    pages = None if rng.random() < 0.08 else 60 + int(700 * rng.random() ** 1.5)
    return number, title, pick(rng, _GENRES), pick(rng, _LANGUAGES), year, pages


def _circulation(rng: random.Random) -> Rows:
    bought = days(2010, 5000)
    joined = days(2012, 4380)
    lent = days(2021, 1200)
    yield (
        "copy",
        [
            (
                number,
                1 + rng.randrange(_BOOKS - 40),
                1 + int(9 * rng.random() ** 1.4),
                bought[rng.randrange(5000)],
                pick(rng, _CONDITIONS),
            )
            for number in range(1, _COPIES + 1)
        ],
    )
    yield (
        "member",
        [
            (
                number,
                pick(rng, FIRST),
                pick(rng, LAST),
                pick(rng, _KINDS),
                pick(rng, (None, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
                joined[rng.randrange(4380)],
            )
            for number in range(1, _MEMBERS + 1)
        ],
    )
    loans: list[tuple[Any, ...]] = []
    for number in range(1, _LOANS + 1):
        start, days_kept = rng.randrange(1095), 1 + int(60 * rng.random() ** 2)
        copy = 1 + int(_COPIES * rng.random() ** 1.2)
        member = 1 + int((_MEMBERS - 250) * rng.random() ** 1.5)
        back = None if rng.random() < 0.03 else lent[start + days_kept]
        late = days_kept - 28
        fine = f"{late * 20 // 100},{late * 20 % 100:02d}" if late > 0 and back else None
        loans.append((number, copy, member, lent[start], lent[start + 28], back, fine))
    yield "loan", loans


_BRANCH: Final = pool("branch", _BRANCHES)
_DISTRICT: Final = pool("district", _DISTRICTS)
_GENRE: Final = pool("genre", _GENRES)
_YEAR: Final = pool("year", (2021, 2022, 2023))
_COUNTRY: Final = pool("country", [name for name in _COUNTRIES if name])
_KIND: Final = pool("kind", ("adult", "student", "child", "senior"))
_LANGUAGE: Final[Pool] = [
    {"language": "English", "code": "en", "word": "english"},
    {"language": "French", "code": "fr", "word": "french"},
    {"language": "German", "code": "de", "word": "german"},
    {"language": "Spanish", "code": "es", "word": "spanish"},
]
_LANGUAGE_HINT: Final = (
    "a language is written as a word or as a code of two letters (EN, FR, DE, ES), in any case"
)
_YEAR_HINT: Final = "published is 0 where the year is unknown"
_FINE_HINT: Final = "fine is a text with a comma before the cents, such as 2,40; NULL is no fine"
_BACK_HINT: Final = "returned is NULL while the copy is still out"
_S, _M, _C = Level.SIMPLE, Level.MODERATE, Level.CHALLENGING

_TEMPLATES: Final = (
    Template(
        _S,
        "How many {genre} books have more than {pages} pages?",
        "SELECT COUNT(*) FROM book WHERE genre = '{genre}' AND pages > {pages}",
        "genre and pages are columns of book",
        (_GENRE, pool("pages", (200, 350, 500))),
    ),
    Template(
        _S,
        "How many authors from {country} were born after {born}?",
        "SELECT COUNT(*) FROM author WHERE country = '{country}' AND birth_year > {born}",
        "country and year of birth are columns of author",
        (_COUNTRY, pool("born", (1900, 1940, 1970))),
    ),
    Template(
        _S,
        "How many copies does the {branch} branch hold?",
        "SELECT COUNT(*) FROM copy AS c JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}'",
        "copies name their branch by its number",
        (_BRANCH,),
    ),
    Template(
        _S,
        "How many {kind} members have {branch} as their home branch?",
        "SELECT COUNT(*) FROM member AS m JOIN branch AS b ON b.branch_id = m.home_branch"
        " WHERE m.kind = '{kind}' AND b.branch_name = '{branch}'",
        "home_branch is the number of a branch",
        (_KIND, _BRANCH),
    ),
    Template(
        _S,
        "How many copies at the {branch} branch are {condition}?",
        "SELECT COUNT(*) FROM copy AS c JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}' AND c.condition = '{condition}'",
        "the condition is a column of copy",
        (_BRANCH, pool("condition", ("new", "worn", "damaged"))),
    ),
    Template(
        _M,
        "How many books are in {language}?",
        "SELECT COUNT(*) FROM book WHERE LOWER(language) IN ('{word}', '{code}')",
        "in lower case only the word and the code are left to ask for",
        (_LANGUAGE,),
        _LANGUAGE_HINT,
    ),
    Template(
        _M,
        "How many {genre} books are in {language}?",
        "SELECT COUNT(*) FROM book WHERE genre = '{genre}'"
        " AND LOWER(language) IN ('{word}', '{code}')",
        "the genre is plain, the language has to be asked for as word and as code",
        (_GENRE, _LANGUAGE),
        _LANGUAGE_HINT,
    ),
    Template(
        _M,
        "What are the titles of the oldest {genre} books whose year of publication is known?",
        "SELECT title FROM book WHERE genre = '{genre}' AND published ="
        " (SELECT MIN(published) FROM book WHERE genre = '{genre}' AND published > 0)",
        "the earliest known year comes from a subquery without the zeros",
        (_GENRE,),
        _YEAR_HINT,
    ),
    Template(
        _M,
        "How many loans of {genre} books did the {branch} branch make in {year}?",
        "SELECT COUNT(*) FROM loan AS l JOIN copy AS c ON c.copy_id = l.copy_id"
        " JOIN branch AS b ON b.branch_id = c.branch_id JOIN book AS k ON k.book_id = c.book_id"
        " WHERE k.genre = '{genre}' AND b.branch_name = '{branch}' AND l.lent LIKE '{year}-%'",
        "a loan is of a copy, which has both a branch and a book",
        (_GENRE, _BRANCH, _YEAR),
    ),
    Template(
        _M,
        "How many loans of {year} by {kind} members came back after their due date?",
        "SELECT COUNT(*) FROM loan AS l JOIN member AS m ON m.member_id = l.member_id"
        " WHERE m.kind = '{kind}' AND l.lent LIKE '{year}-%' AND l.returned > l.due",
        "dates in ISO form compare as texts, and those not returned drop out as NULL",
        (_YEAR, _KIND),
        _BACK_HINT,
    ),
    Template(
        _M,
        "What do the fines for loans of {year} from the {branch} branch add up to, rounded to two"
        " decimals?",
        "SELECT ROUND(SUM(CAST(REPLACE(l.fine, ',', '.') AS REAL)), 2) FROM loan AS l"
        " JOIN copy AS c ON c.copy_id = l.copy_id JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}' AND l.lent LIKE '{year}-%'",
        "the comma becomes a point, then the texts can be summed as numbers",
        (_YEAR, _BRANCH),
        _FINE_HINT,
    ),
    Template(
        _M,
        "Which authors from {country} have written at least {count} {genre} books? Give their"
        " names.",
        "SELECT a.author_name FROM author AS a JOIN book_author AS w ON w.author_id = a.author_id"
        " JOIN book AS k ON k.book_id = w.book_id WHERE a.country = '{country}'"
        " AND k.genre = '{genre}' GROUP BY a.author_id HAVING COUNT(*) >= {count}",
        "I count the books of the genre by author and keep those with {count} or more",
        (_COUNTRY, pool("count", (2,)), _GENRE),
    ),
    Template(
        _M,
        "How many copies of the {branch} branch are still on loan?",
        "SELECT COUNT(*) FROM loan AS l JOIN copy AS c ON c.copy_id = l.copy_id"
        " JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}' AND l.returned IS NULL",
        "they are the loans without a date of return",
        (_BRANCH,),
        _BACK_HINT,
    ),
    Template(
        _M,
        "For each kind of member, how many loans did the {branch} branch make in {year}? Give the"
        " kind and the number.",
        "SELECT m.kind, COUNT(*) FROM loan AS l JOIN member AS m ON m.member_id = l.member_id"
        " JOIN copy AS c ON c.copy_id = l.copy_id JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}' AND l.lent LIKE '{year}-%' GROUP BY m.kind",
        "the branch is the copy's, and I group by the kind of the member",
        (_BRANCH, _YEAR),
    ),
    Template(
        _C,
        "Which {genre} book was lent most often in {year}? Give its title; on equal numbers, take"
        " the lowest book_id.",
        "SELECT k.title FROM book AS k JOIN copy AS c ON c.book_id = k.book_id"
        " JOIN loan AS l ON l.copy_id = c.copy_id WHERE k.genre = '{genre}'"
        " AND l.lent LIKE '{year}-%' GROUP BY k.book_id"
        " ORDER BY COUNT(*) DESC, k.book_id LIMIT 1",
        "I count loans by book over all its copies, and sort by the count and then the number",
        (_GENRE, _YEAR),
    ),
    Template(
        _C,
        "How many {genre} books have no copy in any branch of the {district} district?",
        "SELECT COUNT(*) FROM book AS k WHERE k.genre = '{genre}' AND k.book_id NOT IN"
        " (SELECT c.book_id FROM copy AS c JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.district = '{district}')",
        "a subquery lists the books of the district, and the others remain",
        (_GENRE, _DISTRICT),
    ),
    Template(
        _C,
        "What percentage of the loans that the {branch} branch made in {year} was late, counting"
        " only those that came back? Round to two decimals.",
        "SELECT ROUND(100.0 * SUM(CASE WHEN l.returned > l.due THEN 1 ELSE 0 END) / COUNT(*), 2)"
        " FROM loan AS l JOIN copy AS c ON c.copy_id = l.copy_id JOIN branch AS b"
        " ON b.branch_id = c.branch_id WHERE b.branch_name = '{branch}'"
        " AND l.lent LIKE '{year}-%' AND l.returned IS NOT NULL",
        "a conditional sum counts the late ones among those returned",
        (_BRANCH, _YEAR),
        _BACK_HINT,
    ),
    Template(
        _C,
        "Which members borrowed books of at least {count} different genres in {year}? Give their"
        " member_id.",
        "SELECT l.member_id FROM loan AS l JOIN copy AS c ON c.copy_id = l.copy_id"
        " JOIN book AS k ON k.book_id = c.book_id WHERE l.lent LIKE '{year}-%'"
        " GROUP BY l.member_id HAVING COUNT(DISTINCT k.genre) >= {count}",
        "for every member I count the distinct genres of the loans",
        (pool("count", (8, 9)), _YEAR),
    ),
    Template(
        _C,
        "For every branch of the {district} district, what is the title of the longest {genre}"
        " book of which it holds a copy? Give branch and title; list all books of that length.",
        "SELECT DISTINCT branch_name, title FROM (SELECT b.branch_name, k.title, RANK() OVER"
        " (PARTITION BY b.branch_id ORDER BY k.pages DESC) AS place FROM branch AS b"
        " JOIN copy AS c ON c.branch_id = b.branch_id JOIN book AS k ON k.book_id = c.book_id"
        " WHERE b.district = '{district}' AND k.genre = '{genre}') WHERE place = 1",
        "a rank by pages within each branch gives the longest, with ties",
        (_DISTRICT, _GENRE),
    ),
    Template(
        _C,
        "In {year}, which weekday saw the most loans at the {branch} branch? Give it as a digit"
        " with 0 for Sunday; on equal numbers, the smaller digit.",
        "SELECT STRFTIME('%w', l.lent) AS weekday FROM loan AS l JOIN copy AS c"
        " ON c.copy_id = l.copy_id JOIN branch AS b ON b.branch_id = c.branch_id"
        " WHERE b.branch_name = '{branch}' AND STRFTIME('%Y', l.lent) = '{year}'"
        " GROUP BY weekday ORDER BY COUNT(*) DESC, weekday LIMIT 1",
        "STRFTIME with %w gives the weekday, by which I group",
        (_YEAR, _BRANCH),
    ),
    Template(
        _C,
        "How many members joined in {joined} and have never borrowed anything?",
        "SELECT COUNT(*) FROM member AS m LEFT JOIN loan AS l ON l.member_id = m.member_id"
        " WHERE m.joined LIKE '{joined}-%' AND l.loan_id IS NULL",
        "a left join leaves NULL where a member has no loan",
        (pool("joined", range(2012, 2024)),),
    ),
)

LIBRARY: Final = Domain(
    name="library",
    seed=103,
    ddl=_DDL,
    rows=_rows,
    templates=_TEMPLATES,
    indexes=(
        *("copy(book_id)", "copy(branch_id)", "loan(copy_id)", "loan(member_id)"),
        *("book_author(author_id)", "book(genre)"),
    ),
)
