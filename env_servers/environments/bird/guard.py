"""What a statement of a stranger may do and cost.

Contains the authorizer (reading only), the functions that would tell machines or moments apart, and
the limits. What a statement answers depends on the database and its text alone; the limits of time
and memory are backstops that only statements feel which are out to do harm. Work is counted in
steps of SQLite's virtual machine, which are the same on every run.
"""

from __future__ import annotations

import os
import re
import resource
import sqlite3
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, Final

__all__ = ["NOW", "Guard", "Limits", "Row", "reserved_bytes"]

Row = tuple[Any, ...]

NOW: Final = "2024-06-27 00:00:00"
"""What every clock of every database says, UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one statement may cost."""

    steps: int = 20_000_000
    """Steps of SQLite's virtual machine: some 0.3 s."""
    rows: int = 100_000
    """Rows of a result."""
    result_bytes: int = 32 * 2**20
    """Characters and bytes of a result's values."""
    value_bytes: int = 200_000
    """Of one value or one row."""
    statement_bytes: int = 100_000
    columns: int = 300
    functions: int = 64
    """Calls that a statement's text may have."""
    memory_bytes: int = 128 * 2**20
    """That the process may grow by while the statement takes at least half of it."""
    seconds: float = 20.0
    """Of CPU: a backstop for what steps do not count; checked as often."""


_STRIDE: Final = 1000
"""Steps between two looks at what a statement has cost so far."""
_LIGHT_TICKS: Final = 2000
"""Strides after which a statement counts as heavy."""
_LIGHT_BYTES: Final = 32 * 2**20
"""Growth after which it counts as heavy, likewise."""
_LIGHT_SECONDS: Final = 0.5
"""CPU time after which it counts as heavy, likewise."""
_SURELY: Final = 4
"""Times the limit by which the process may grow, whoever takes the memory."""
_READ_ONLY: Final = "attempt to write a readonly database"
"""SQLite's own words, which the original showed for every write."""
_FORBIDDEN: Final = "not authorized"

_READING: Final = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_READ))
_WRITING: Final = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        *("INSERT", "UPDATE", "DELETE", "ALTER_TABLE", "REINDEX", "ANALYZE"),
        *(f"CREATE_{kind}" for kind in ("INDEX", "TABLE", "TRIGGER", "VIEW", "VTABLE")),
        *(f"DROP_{kind}" for kind in ("INDEX", "TABLE", "TRIGGER", "VIEW", "VTABLE")),
    )
)
_PRAGMAS: Final = frozenset(
    ("foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_xinfo")
)
"""Look-ups of the schema."""
_VIRTUAL: Final = ("json_each", "json_tree", *(f"pragma_{name}" for name in sorted(_PRAGMAS)))
"""Tables made by functions that a statement may read. SQLite declares such a table when it is first
read, which the authorizer takes for a write: what is not declared before stays out of reach."""
_FUNCTIONS: Final = frozenset(
    """-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat
    concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
    degrees dense_rank exp first_value floor format glob group_concat hex ifnull iif instr json
    json_array json_array_length json_extract json_group_array json_group_object json_insert
    json_object json_patch json_quote json_remove json_replace json_set json_type json_valid
    julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max
    min mod nth_value ntile nullif octet_length percent_rank pi pow power printf quote radians
    random rank replace round row_number rtrim sign sin sinh soundex sqrt strftime string_agg substr
    substring sum tan tanh time total trim trunc typeof unhex unicode unixepoch unlikely upper
    zeroblob""".split()  # noqa: SIM905 - a hundred names
)
_CLOCKS: Final = {"current_date": NOW[:10], "current_time": NOW[11:], "current_timestamp": NOW}
_DATES: Final = {
    "date": 0,
    "datetime": 0,
    "julianday": 0,
    "strftime": 1,
    "time": 0,
    "unixepoch": 0,
}
"""Functions of dates, with the place of the argument that says when."""
_FORMATS: Final = ("format", "printf")
_CONVERSION: Final = re.compile(r"%[-+ 0#!,]*(\*|\d+)?(?:\.(\*|\d+)?)?l{0,2}(.)", re.S)
"""Width, precision and type of a part of a format."""
_WITHOUT_VALUE: Final = ("%", "n")
_INTEGER: Final = re.compile(r"\s*[-+]?\d{1,20}")
_REPEATED: Final = "c"
"""The type whose precision says how often a character is repeated."""
_HERE: Final = ("localtime", "utc")
"""Modifiers that depend on where a machine stands."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Guard:
    """The rules of one connection. `begin` comes before every statement."""

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        """Lays down the rules, after which the connection takes strangers' statements."""
        self._limits = limits
        self._ticks = 0
        self._most_ticks = max(1, limits.steps // _STRIDE)
        self._deadline = 0.0
        self._memory = 0
        self._taken = 0
        self._calls = 0
        self._drawn = 0
        self._formatting = _open_empty(limits)
        self._heavy = True
        self.refusal: str | None = None
        """Why the running statement was stopped, in words for the agent."""
        self.by_chance = False
        """Whether another machine, or this one at another time, might not have stopped it."""
        self.outgrown = False
        """Whether it was stopped for being heavy: it has to be run anew as a heavy one."""
        for table in _VIRTUAL:
            connection.execute(f"SELECT 1 FROM {table}('[]')").close()
        _set_limits(connection, limits)
        self._replace_functions(connection)
        connection.set_authorizer(self._authorize)
        connection.set_progress_handler(self._tick, _STRIDE)

    @property
    def steps(self) -> int:
        """Steps of the statement so far, rounded down to `_STRIDE`."""
        return self._ticks * _STRIDE

    def begin(self, *, heavy: bool) -> None:
        """Forget the last statement; the next one may be `heavy` or has to be light."""
        self._heavy = heavy
        self._ticks = self._calls = self._drawn = 0
        seconds = self._limits.seconds if heavy else min(_LIGHT_SECONDS, self._limits.seconds)
        self._deadline = time.thread_time() + seconds
        self._memory, self._taken = _resident_bytes(), _taken_bytes()
        self.refusal = None
        self.by_chance = self.outgrown = False

    def _tick(self) -> int:
        """Non-zero stops the statement."""
        self._ticks += 1
        if self._ticks > self._most_ticks:
            self.refusal = f"query stopped: it needs more than {self._limits.steps} steps"
        elif time.thread_time() > self._deadline:
            self._stop_for_time()
        elif not self._heavy:
            self.outgrown = self._ticks > _LIGHT_TICKS or self._grows_by(_LIGHT_BYTES)
        elif self._grows_by(self._limits.memory_bytes):
            self.by_chance = True
            self.refusal = "query stopped: it needs too much memory"
        return self.outgrown or self.refusal is not None

    def _stop_for_time(self) -> None:
        if not self._heavy:
            self.outgrown = True
            return
        self.by_chance = True
        self.refusal = "query stopped: it takes too long"

    def _grows_by(self, limit: int) -> bool:
        """Return whether the process grew by more, and this statement is the one that takes memory.

        What a thread took it may have given back, and how much the process grew says not by whom;
        together they tell. Where memory comes in huge pages the first is too small by far.
        """
        if _taken_bytes() - self._taken > limit // 2:
            return _resident_bytes() - self._memory > limit
        # Slow to find out, and for huge pages alone.
        seldom = self._ticks % 16 == 0
        return seldom and _resident_bytes() - self._memory > _SURELY * limit

    def _authorize(
        self, action: int, first: str | None, second: str | None, schema: str | None, _: str | None
    ) -> int:
        if action in _READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            return self._authorize_function((second or "").lower())
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS:
            return sqlite3.SQLITE_OK
        self.refusal = _READ_ONLY if action in _WRITING else _FORBIDDEN
        return sqlite3.SQLITE_DENY

    def _authorize_function(self, name: str) -> int:
        self._calls += 1
        if self._calls > self._limits.functions:
            self.refusal = f"query refused: it has more than {self._limits.functions} calls"
            return sqlite3.SQLITE_DENY
        if name in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        self.refusal = f"not authorized to use function: {name}"
        return sqlite3.SQLITE_DENY

    def _replace_functions(self, connection: sqlite3.Connection) -> None:
        """Clocks stand still, and `random()` draws the same numbers in every statement."""
        connection.create_function("random", 0, self._draw)
        for name, value in _CLOCKS.items():
            connection.create_function(name, 0, partial(_constant, value), deterministic=True)
        for name, index in _DATES.items():
            if _has_function(name):
                function = partial(_date, name, index)
                connection.create_function(name, -1, function, deterministic=True)
        for name in _FORMATS:
            if _has_function(name):
                function = partial(self._format, name)
                connection.create_function(name, -1, function, deterministic=True)

    def _format(self, name: str, *arguments: Any) -> Any:
        """Return what SQLite's own function says: None for a text that is too long.

        SQLite appends repeated characters one by one, up to 2**31 of them, before it says so; they
        are counted beforehand.
        """
        if _repeated_characters(arguments) > self._limits.value_bytes:
            return None
        marks = ", ".join("?" * len(arguments))
        return self._formatting.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

    def _draw(self) -> int:
        """splitmix64 of the number of draws so far, as a signed integer."""
        self._drawn += 1
        state = (self._drawn * 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
        return state - 2**64 if state >= 2**63 else state


_WORD: Final = 2**64 - 1


def _set_limits(connection: sqlite3.Connection, limits: Limits) -> None:
    for category, value in (
        (sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes),
        (sqlite3.SQLITE_LIMIT_SQL_LENGTH, limits.statement_bytes),
        (sqlite3.SQLITE_LIMIT_COLUMN, limits.columns),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
        (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (sqlite3.SQLITE_LIMIT_VDBE_OP, 100_000),
        (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 100),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    ):
        connection.setlimit(category, value)


def _resident_bytes() -> int:
    """Return the memory of this process; 0 where the system does not tell."""
    statm = _open_statm(os.getpid())
    if statm < 0:
        return 0
    return int(os.pread(statm, 64, 0).split()[1]) * _PAGE_BYTES


def _taken_bytes() -> int:
    """Return memory that this thread has taken so far, given back or not."""
    if _RUSAGE_THREAD is None:
        return 0
    return resource.getrusage(_RUSAGE_THREAD).ru_minflt * _PAGE_BYTES


@cache
def _open_statm(process_id: int) -> int:
    """Return a file descriptor of the process's memory figures; -1 where the system has none.

    Kept open because a statement's cost is looked at thousands of times a second, and by process
    because a forked child inherits the cache: its parent's descriptor tells the parent's memory.
    """
    with suppress(OSError):
        return os.open(f"/proc/{process_id}/statm", os.O_RDONLY)
    return -1


_RUSAGE_THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)


def _repeated_characters(arguments: tuple[Any, ...]) -> int:
    """Return how many characters the precisions of `%c` in a format ask for, all together."""
    if not arguments or not isinstance(arguments[0], str) or _REPEATED not in arguments[0]:
        return 0
    total, values = 0, iter(arguments[1:])
    for width, precision, kind in _CONVERSION.findall(arguments[0]):
        if width == "*":
            next(values, None)
        count = _to_integer(next(values, None) if precision == "*" else precision)
        if kind not in _WITHOUT_VALUE:
            next(values, None)
        if kind == _REPEATED:
            total += abs(count)
    return total


def _to_integer(value: Any) -> int:
    """Return a value as SQLite reads it where an integer is expected."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        digits = _INTEGER.match(value)
        return int(digits[0]) if digits else 0
    if isinstance(value, float):
        return int(value) if abs(value) < _WORD else _WORD
    return value or 0


def _constant(value: str) -> str:
    return value


def reserved_bytes() -> int:
    """Return the address space of this process; 0 where the system does not tell."""
    statm = _open_statm(os.getpid())
    if statm < 0:
        return 0
    return int(os.pread(statm, 64, 0).split()[0]) * _PAGE_BYTES


def _open_empty(limits: Limits) -> sqlite3.Connection:
    """Return an empty database that computes values no longer than a guarded one's."""
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value_bytes)
    return connection


@cache
def _date_connection() -> sqlite3.Connection:
    """Return the empty database that computes dates as SQLite does; use it under the lock."""
    return sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)


_date_lock = threading.Lock()


def _date(name: str, index: int, *arguments: Any) -> Any:
    """Return what SQLite's own function says, at the moment `NOW` in the time zone UTC.

    `index` is the place of the argument that says when.
    """
    short = all(not isinstance(value, str | bytes) or len(value) <= _LONG for value in arguments)
    return (_cached_date if short else _new_date)(name, index, *arguments)


def _new_date(name: str, index: int, *arguments: Any) -> Any:
    values = list(arguments)
    if len(values) == index:
        values.append(NOW)
    elif len(values) > index and isinstance(values[index], str) and values[index].lower() == "now":
        values[index] = NOW
    modifiers = [value for value in values[index + 1 :] if not _is_local(value)]
    values = values[: index + 1] + modifiers
    marks = ", ".join("?" * len(values))
    with _date_lock:
        return _date_connection().execute(f"SELECT {name}({marks})", values).fetchone()[0]


_LONG: Final = 64
"""Characters of an argument beyond which nothing is remembered."""
_cached_date = lru_cache(maxsize=1 << 15, typed=True)(_new_date)


def _is_local(modifier: object) -> bool:
    return isinstance(modifier, str) and modifier.strip().lower() in _HERE


@lru_cache
def _has_function(name: str) -> bool:
    """Return whether this SQLite knows a function of dates."""
    try:
        with _date_lock:
            _date_connection().execute(f"SELECT {name}('2000-01-01', '2000-01-01')")
    except sqlite3.OperationalError:
        return False
    return True
