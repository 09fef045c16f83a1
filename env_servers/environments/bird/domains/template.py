"""What an embedded database is made of, and how a template becomes questions.

Contains the shapes. A domain's rows depend on its seed, its questions on its templates, and both
are the same on every machine: draws come from `random.Random(seed)` by `random()` and `randrange`
alone, which never changed between versions of Python.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

__all__ = ["CAP", "Domain", "Level", "Pool", "Question", "Rows", "Template", "days", "pick", "pool"]

T = TypeVar("T")

Pool = Sequence[Mapping[str, str]]
"""What may be filled in together, for example {"month": "May", "mm": "05"}."""
Rows = Iterator[tuple[str, Sequence[tuple[Any, ...]]]]
"""Tables with their rows, in an order that foreign keys allow."""

CAP: Final = 18
"""Questions that are made of one template, at most."""


class Level(StrEnum):
    """How hard a question is, in BIRD's words."""

    SIMPLE = "simple"
    """One table, or one join and a filter."""
    MODERATE = "moderate"
    """Joins with aggregates, groups, or values that need care."""
    CHALLENGING = "challenging"
    """Subqueries, window functions, set operations or several aggregates."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question with the statement that answers it."""

    text: str
    sql: str
    level: Level
    evidence: str
    """What nobody could know from the schema; empty where nothing is needed."""
    reason: str
    """Why the statement answers the question."""


@dataclass(frozen=True, slots=True)
class Template:
    """A question with gaps. `{name}` is filled from the pools, in all four texts."""

    level: Level
    text: str
    sql: str
    reason: str
    pools: tuple[Pool, ...] = ()
    evidence: str = ""

    def questions(self) -> list[Question]:
        """At most `CAP` of its questions, drawn by a hash of their texts."""
        questions_made: list[Question] = []
        for combination in itertools.product(*self.pools):
            values = {key: value for filled in combination for key, value in filled.items()}
            texts = (self.text, self.sql, self.evidence, self.reason)
            text, sql, evidence, reason = (each.format_map(values) for each in texts)
            questions_made.append(
                Question(text, " ".join(sql.split()), self.level, evidence, reason)
            )
        questions_made.sort(key=lambda question: hashlib.blake2b(question.text.encode()).digest())
        return questions_made[:CAP]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """One embedded database."""

    name: str
    """Its `db_id`."""
    seed: int
    ddl: str
    """CREATE TABLE statements, separated by semicolons."""
    rows: Callable[[random.Random], Rows]
    templates: tuple[Template, ...]
    indexes: tuple[str, ...] = ()
    """`table(column)`, made after the rows."""

    def questions(self) -> list[Question]:
        """Return all its questions, in the order of the templates."""
        return [
            questions_made for template in self.templates for questions_made in template.questions()
        ]


def pool(name: str, values: Sequence[str | int]) -> Pool:
    """Return a pool of one name."""
    return [{name: str(value)} for value in values]


def pick(rng: random.Random, values: Sequence[T], lean: float = 1.0) -> T:
    """Return one of the values; above 1, `lean` prefers the first ones."""
    return values[int(len(values) * rng.random() ** lean)]


def days(first: int, count: int) -> Sequence[str]:
    """Dates in ISO form from the first of January of a year on."""
    start = datetime.date(first, 1, 1)
    return [(start + datetime.timedelta(days=number)).isoformat() for number in range(count)]
