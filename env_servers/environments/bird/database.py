"""One read-only database that strangers may query, shared by all episodes of a process.

Contains its connections and the answers that are remembered. The file never changes, every
statement ends within the limits, and equal statements get equal answers. Safe to use from several
threads; a statement occupies one connection.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from env_servers.environments.bird.guard import Guard, Limits
from env_servers.environments.bird.query_limits import QueryLimits, process_query_limits
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["Database", "Outcome", "Row", "check_file"]

Row = tuple[Any, ...]

_HEADER: Final = b"SQLite format 3\0"
_KEPT_ROWS: Final = 50
"""Rows of a result that can be shown."""
_REMEMBERED: Final = 256
"""Answers that are remembered per database."""
_MEMORABLE_BYTES: Final = 16_384
"""Of an answer's values, or of its statement, at most, for it to be remembered."""
_IDLE: Final = 6
"""Connections that wait for work, at most."""
_CACHE_KIB: Final = 1024
_MAPPED_BYTES: Final = 1 << 30
_BROKEN: Final = frozenset(
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB)
)
"""Codes for which no statement can be blamed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement answered."""

    columns: tuple[str, ...] = ()
    """Empty for a statement that is no query."""
    rows: tuple[Row, ...] = ()
    """The first rows, at most 50."""
    count: int = 0
    """All rows."""
    distinct: frozenset[Row] = frozenset()
    """All different rows."""
    error: str | None = None
    """Why there is no result."""
    size: int = 0
    """Characters and bytes of all values."""
    by_chance: bool = False
    """Whether a limit stopped it that machines do not feel alike: memory or time."""
    steps: int = 0
    """Work that it took, in steps of SQLite's virtual machine; a multiple of 1,000."""

    def matches(self, other: Outcome) -> bool:
        """Return whether both are results with the same set of rows."""
        return self.error is None and other.error is None and self.distinct == other.distinct


class Database:
    """A SQLite file behind guards."""

    def __init__(
        self,
        name: str,
        locate: Callable[[], Path],
        limits: Limits,
        query_limits: QueryLimits | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            name: What the database is called in prompts.
            locate: Says where the file is, and makes it where that is needed; called once.
            limits: The most that one statement may cost.
            query_limits: How many statements run at once; None = those of the process.
        """
        self.name = name
        self._query_limits = query_limits or process_query_limits()
        self.limits = limits
        self._locate = locate
        self._path: Path | None = None
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._idle: list[tuple[sqlite3.Connection, Guard]] = []
        self._answers: OrderedDict[str, Outcome] = OrderedDict()

    def path(self) -> Path:
        """Return the file; raises EnvironmentUnavailable."""
        # A lock of its own: building a file takes seconds, in which others are still answered.
        with self._opening:
            if self._path is None:
                self._path = self._locate()
            return self._path

    def ask(self, statement: str) -> Outcome:
        """Return the answer to one statement of whatever text: never an exception because of it.

        Raises EnvironmentUnavailable where the file is damaged or the process has no room.
        """
        with self._lock:
            answer = self._answers.get(statement)
            if answer is not None:
                self._answers.move_to_end(statement)
                return answer
        outcome = self._ask_anew(statement)
        short = outcome.size <= _MEMORABLE_BYTES and len(statement) <= _MEMORABLE_BYTES
        if short and not outcome.by_chance:
            with self._lock:
                self._answers[statement] = outcome
                while len(self._answers) > _REMEMBERED:
                    self._answers.popitem(last=False)
        return outcome

    def close(self) -> None:
        """Close the connections that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _ask_anew(self, statement: str) -> Outcome:
        with self._query_limits.light_query():
            outcome = self._run(statement, heavy=False)
        if outcome is None:
            with self._query_limits.heavy_query():
                outcome = self._run(statement, heavy=True)
        assert outcome is not None, "only light statements are stopped for being heavy"
        return outcome

    def _run(self, statement: str, *, heavy: bool) -> Outcome | None:
        """Return the answer; None where the statement is heavy and may not be."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        connection, guard = idle or self._connect()
        guard.begin(heavy=heavy)
        try:
            outcome = _fetch(connection.cursor(), statement, guard, self.limits)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
                raise EnvironmentUnavailable(f"cannot query {self._path}: {error}") from error
            text = guard.refusal or str(error).encode("utf-8", "replace").decode()
            outcome = Outcome(error=text, by_chance=guard.by_chance, steps=guard.steps)
        outgrown = guard.outgrown
        with self._lock:
            keep = len(self._idle) < _IDLE
            if keep:
                self._idle.append((connection, guard))
        if not keep:
            connection.close()
        return None if outgrown else outcome

    def _connect(self) -> tuple[sqlite3.Connection, Guard]:
        path = self.path()
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode=ro&immutable=1",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=0,
        )
        connection.execute("PRAGMA query_only = 1")
        connection.execute("PRAGMA trusted_schema = 0")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        return connection, Guard(connection, self.limits)


def _fetch(cursor: sqlite3.Cursor, statement: str, guard: Guard, limits: Limits) -> Outcome:
    """Return all rows, one by one, as far as the limits go."""
    cursor.execute(statement)
    rows: list[Row] = []
    distinct: set[Row] = set()
    count = size = 0
    for row in cursor:
        count += 1
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if count > limits.rows or size > limits.result_bytes:
            cursor.close()
            error = f"query stopped: its result has more than {limits.rows} rows"
            if count <= limits.rows:
                error = "query stopped: its result is too large"
            return Outcome(error=error, steps=guard.steps)
        if count <= _KEPT_ROWS:
            rows.append(row)
        distinct.add(row)
    columns = tuple(column[0] for column in cursor.description or ())
    return Outcome(columns, tuple(rows), count, frozenset(distinct), size=size, steps=guard.steps)


def check_file(path: Path) -> None:
    """Raise EnvironmentUnavailable unless a whole SQLite file lies there, by its header."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error.strerror}") from error
    if len(header) < 100 or not header.startswith(_HEADER):
        raise EnvironmentUnavailable(f"{path} is no SQLite database, or its download broke off")
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    # Old versions of SQLite left the number of pages at 0, or stale, told by these two counters.
    if header[24:28] == header[92:96] and size < expected:
        raise EnvironmentUnavailable(
            f"{path} has {size} of {expected} bytes: its download broke off"
        )
