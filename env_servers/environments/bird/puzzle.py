"""What an episode is about: a question, the statement that answers it, and its database.

Contains the join of the three; a database is described at most once per process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from env_servers.environments.bird.database import Database
from env_servers.environments.bird.schema import Schema, read_schema_file

__all__ = ["DescribedDatabase", "Puzzle"]

_SOURCE = re.compile(r"""\b(?:FROM|JOIN)\s+(?:"([^"]+)"|`([^`]+)`|\[([^\]]+)\]|(\w+))""", re.I)


class DescribedDatabase:
    """A database with what agents are told of it."""

    def __init__(
        self, database: Database, read_declared: Callable[[], Schema] | None = None
    ) -> None:
        """`read_declared` gives the schema with normalised names, where there is one."""
        self.database = database
        self._read_declared = read_declared

    @cached_property
    def declared(self) -> Schema:
        """The schema with the real names; raises EnvironmentUnavailable."""
        return read_schema_file(self.database.name, self.database.path())

    @cached_property
    def sentences(self) -> str:
        """The original's description."""
        return (
            self._read_declared() if self._read_declared is not None else self.declared
        ).sentences()

    @cached_property
    def lines(self) -> str:
        """A faithful description."""
        return self.declared.lines()


@dataclass(frozen=True, slots=True)
class Puzzle:
    """One question about one database."""

    base: DescribedDatabase
    question: str
    sql: str
    """The gold statement."""
    evidence: str = ""
    reason: str = ""
    """Why the statement answers the question; empty where nobody wrote it down."""
    prompt: str | None = None
    """The first observation as it was published, where the tables file is not at hand."""
    hinted: bool = False
    """Whether the evidence is part of the question in the original's style, too."""

    def __repr__(self) -> str:
        return f"Puzzle({self.base.database.name!r}, {self.question!r})"

    def tables(self) -> list[str]:
        """Return the database's tables that the statement reads, in the order of its text."""
        real = {table.lower(): table for table in self.base.declared.tables}
        named = (next(filter(None, groups), "").lower() for groups in _SOURCE.findall(self.sql))
        return list(dict.fromkeys(real[name] for name in named if name in real))
