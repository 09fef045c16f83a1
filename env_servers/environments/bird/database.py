"""One read-only database that strangers may query, shared by all episodes of a process.

Contains the answers that are remembered, and how a statement is asked: in a worker process, at
first as a light statement, then, where it turns out to need more, as a heavy one. The file never
changes, every statement ends within the limits, and equal statements get equal answers. Safe to
use from several threads.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from env_servers.environments.bird.guard import Limits, Row
from env_servers.environments.bird.query_limits import QueryLimits, process_query_limits
from env_servers.environments.bird.statement_pool import (
    StatementPool,
    StatementTooSlow,
    WorkerDied,
    process_statement_pool,
)
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["Database", "Outcome", "Row", "check_file", "step_deadline"]

_HEADER: Final = b"SQLite format 3\0"
_REMEMBERED: Final = 256
"""Answers that are remembered per database."""
_MEMORABLE_BYTES: Final = 16_384
"""Of an answer's values, or of its statement, at most, for it to be remembered."""
_STEP_SECONDS: Final = 45.0
"""For all statements of a step and their waiting: less than servers grant a step."""
_LIGHT_SECONDS: Final = 8.0
"""For a light statement, by the clock on the wall; it has 1 s of CPU time."""
_HEAVY_SECONDS: Final = 5.0
_HEAVY_SECONDS_PER_STEP: Final = 1 / 20_000_000
"""For a heavy one: more where it may take more steps."""
_MOST_HEAVY_SECONDS: Final = 15.0
_MOST_DEATHS: Final = 2
"""Workers that a statement may take along: one may have died by chance."""
_TOO_SLOW: Final = "query stopped: it takes too long"
_TOO_LARGE: Final = "query stopped: it needs too much memory"
_DEADLY: Final = "query stopped: it ends the process that runs it"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement answered."""

    columns: tuple[str, ...] = ()
    """Empty for a statement that is no query."""
    rows: tuple[Row, ...] = ()
    """The first rows, at most 50; of long values the first 256 characters."""
    count: int = 0
    """All rows."""
    distinct: str = ""
    """A digest of the set of all rows."""
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


def step_deadline() -> float:
    """Return when all statements of a step that begins now have to have ended."""
    return time.monotonic() + _STEP_SECONDS


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
        self._answers: OrderedDict[str, Outcome] = OrderedDict()

    @property
    def pool(self) -> StatementPool:
        """The workers that run this process's statements."""
        return process_statement_pool()

    def path(self) -> Path:
        """Return the file; raises EnvironmentUnavailable."""
        # A lock of its own: building a file takes seconds, in which others are still answered.
        with self._opening:
            if self._path is None:
                self._path = self._locate()
            return self._path

    def ask(self, statement: str, deadline: float | None = None) -> Outcome:
        """Return the answer to one statement of whatever text: never an exception because of it.

        Args:
            statement: The text.
            deadline: When it is stopped at the latest, in `time.monotonic`; None = that of a step
                that begins now.

        Raises:
            EnvironmentUnavailable: The file is damaged, or the process has no room.
        """
        with self._lock:
            answer = self._answers.get(statement)
            if answer is not None:
                self._answers.move_to_end(statement)
                return answer
        outcome = self._ask_anew(statement, step_deadline() if deadline is None else deadline)
        short = outcome.size <= _MEMORABLE_BYTES and len(statement) <= _MEMORABLE_BYTES
        if short and not outcome.by_chance:
            with self._lock:
                self._answers[statement] = outcome
                while len(self._answers) > _REMEMBERED:
                    self._answers.popitem(last=False)
        return outcome

    def close(self) -> None:
        """End the workers that wait for statements."""
        self.pool.close()

    def _ask_anew(self, statement: str, deadline: float) -> Outcome:
        path, deaths = str(self.path()), 0
        with self._query_limits.light_query(deadline):
            ends = min(deadline, time.monotonic() + _LIGHT_SECONDS)
            try:
                outcome = self._run(path, statement, ends, heavy=False)
            except StatementTooSlow:
                outcome = None
            except WorkerDied:
                # It may have taken too much CPU time in one go, or died by chance.
                outcome, deaths = None, 1
        if outcome is not None:
            return outcome
        with self._query_limits.heavy_query(deadline):
            return self._run_heavy(path, statement, deadline, deaths)

    def _run_heavy(self, path: str, statement: str, deadline: float, deaths: int) -> Outcome:
        seconds = _HEAVY_SECONDS + _HEAVY_SECONDS_PER_STEP * self.limits.steps
        ends = min(deadline, time.monotonic() + min(_MOST_HEAVY_SECONDS, seconds))
        while deaths < _MOST_DEATHS:
            try:
                outcome = self._run(path, statement, ends, heavy=True)
            except StatementTooSlow:
                return Outcome(error=_TOO_SLOW, by_chance=True)
            except WorkerDied:
                deaths += 1
            else:
                return outcome or Outcome(error=_TOO_LARGE, by_chance=True)
        return Outcome(error=_DEADLY, by_chance=True)

    def _run(self, path: str, statement: str, ends: float, *, heavy: bool) -> Outcome | None:
        """Return the answer; None where the statement needs more than it may take."""
        seconds = ends - time.monotonic()
        answer = self.pool.ask(path, self.limits, statement, heavy=heavy, seconds=seconds)
        if "broken" in answer:
            raise EnvironmentUnavailable(f"cannot query {path}: {answer['broken']}")
        if "outgrown" in answer or "exhausted" in answer:
            return None
        return _read_outcome(answer)


def _read_outcome(answer: dict[str, Any]) -> Outcome:
    """Return what a worker answered; bytes come as lists of their hexadecimal digits."""
    if "error" in answer:
        return Outcome(
            error=answer["error"], by_chance=answer.get("by_chance", False), steps=answer["steps"]
        )
    rows = (
        tuple(bytes.fromhex(value[0]) if isinstance(value, list) else value for value in row)
        for row in answer["rows"]
    )
    return Outcome(
        columns=tuple(answer["columns"]),
        rows=tuple(rows),
        count=answer["count"],
        distinct=answer["distinct"],
        size=answer["size"],
        steps=answer["steps"],
    )


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
