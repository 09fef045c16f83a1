"""What the scripted players do: hand in the gold statement, or query at random.

Contains the wording of thoughts. What a thought says is either the reason that a template states or
what the gold statement's clauses show, so it is true. Everything is a pure function of the
arguments.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from env_servers.environments.bird.prompt import DESCRIBE, SUBMIT
from env_servers.environments.bird.puzzle import Puzzle
from env_servers.sdk import Advice

__all__ = ["answer", "explore", "random_advice"]

_PLAINLY: Final = (
    "{The} {hold} what the question asks for. {reason} {plan}",
    "I need {the}. {reason} {plan}",
    "The question is about {the}. {plan} {reason}",
    "Looking at the schema, {the} {hold} the data. {reason} {plan}",
    "First, where the data is: in {the}. {reason} {plan}",
    "{reason} The statement reads {the}. {plan}",
    "What is asked for can be found in {the}. {plan} {reason}",
)
_CLAUSES: Final = (
    (r"\bJOIN\b", ("The tables are joined.", "A join connects them.")),
    (r"\bWHERE\b", ("A condition keeps the rows that matter.", "I filter the rows first.")),
    (r"\bGROUP BY\b", ("Rows are grouped.", "I form groups of rows.")),
    (r"\bHAVING\b", ("Only some of the groups are kept.", "A condition selects the groups.")),
    (r"\bCOUNT\s*\(", ("Rows are counted.", "I count.")),
    (r"\bSUM\s*\(", ("Values are added up.", "I sum up.")),
    (r"\bAVG\s*\(", ("An average is taken.", "I take the average.")),
    (r"\b(?:MAX|MIN)\s*\(", ("An extreme value is taken.", "I take the extreme value.")),
    (r"\bOVER\s*\(", ("A window function ranks rows.", "I use a window over the rows.")),
    (r"\bORDER BY\b", ("The rows are sorted.", "I sort.")),
    (r"\bLIMIT\b", ("Only the first rows are kept.", "I keep the first rows.")),
    (r"\(\s*SELECT\b", ("A nested query helps.", "I nest one query in another.")),
    (r"\b(?:UNION|INTERSECT|EXCEPT)\b", ("Two results are combined.", "I combine two results.")),
)
_PATTERNS: Final = tuple((re.compile(pattern, re.I), said) for pattern, said in _CLAUSES)
_LOOK: Final = (
    "I want to see the columns of {table} and how its values are written.",
    "Before I write the statement, I look at {table}.",
    "The answer needs {table}. I look at what it holds.",
)
_TRY: Final = "I run the statement before I hand it in."
_DONE: Final = (
    "The statement gives the result that I expected, so I hand it in.",
    "This is what the question asks for. I submit the statement.",
    "I have checked the result and hand the statement in.",
)
_RANDOM: Final = "I query something at random."


def answer(puzzle: Puzzle, wording: int) -> Advice:
    """Return the gold statement, with why it answers the question."""
    return Advice(puzzle.sql.strip(), _reasoning(puzzle, wording))


def explore(
    puzzle: Puzzle, described: Sequence[str], tried: str, left: int, wording: int
) -> Advice:
    """Look at the tables that the gold statement reads, try it, hand it in.

    `left` rounds are left; where they do not suffice, looking and trying are left out.
    """
    sql = puzzle.sql.strip()
    unseen = [table for table in puzzle.tables() if table not in described]
    if unseen and left > 2:
        thought = _LOOK[wording % len(_LOOK)].format(table=unseen[0])
        return Advice(f"{DESCRIBE} {unseen[0]}", thought)
    if tried != sql and left > 1:
        return Advice(sql, f"{_reasoning(puzzle, wording)} {_TRY}")
    thought = _DONE[wording % len(_DONE)] if tried == sql else _reasoning(puzzle, wording)
    return Advice(f"{SUBMIT} {sql}", thought)


def random_advice(puzzle: Puzzle, rng: random.Random, *, rounds: bool) -> Advice:
    """Return a query of any table; with rounds also a look at one, or handing in."""
    schema = puzzle.base.declared
    table = rng.choice(schema.tables)
    quoted = '"' + table.replace('"', '""') + '"'
    draw = rng.random()
    if rounds and draw < 0.2:
        return Advice(f"{DESCRIBE} {table}", _RANDOM)
    query = f"SELECT * FROM {quoted} LIMIT {rng.randrange(1, 9)} OFFSET {rng.randrange(5)}"
    return Advice(f"{SUBMIT} {query}" if rounds and draw > 0.95 else query, _RANDOM)


def _reasoning(puzzle: Puzzle, wording: int) -> str:
    tables = puzzle.tables()
    if len(tables) < 2:
        the = f"the table {tables[0]}" if tables else "the database"
    else:
        the = f"the tables {', '.join(tables[:-1])} and {tables[-1]}"
    sentences = [words[wording % 2] for pattern, words in _PATTERNS if pattern.search(puzzle.sql)]
    reason = f"{puzzle.reason[:1].upper()}{puzzle.reason[1:]}." if puzzle.reason else ""
    # A written reason tells more than the clauses do, so it takes the place of most of them.
    plan = " ".join(sentences if not reason else sentences[-1:])
    text = _PLAINLY[wording % len(_PLAINLY)].format(
        the=the,
        The=f"T{the[1:]}",
        hold="hold" if len(tables) > 1 else "holds",
        reason=reason,
        plan=plan,
    )
    return " ".join(text.split())
