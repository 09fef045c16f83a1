"""The process in which statements of strangers run.

It reads a statement from its standard input and writes the answer to its standard output, one after
the other, as JSON with a length before it. Whatever a statement does is bounded by the system:
address space, CPU time, no file that could be written. A statement that passes a bound ends this
process and nothing else; the pool starts another one. Imports nothing but SQLite and the guard.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sqlite3
import struct
import sys
import threading
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import quote

from env_servers.environments.bird.guard import Guard, Limits, Row, reserved_bytes

__all__ = ["HEADER", "main"]

HEADER: Final = struct.Struct("<I")
"""Length of the JSON text that follows."""

_MIB: Final = 2**20
_ADDRESS_BYTES: Final = 512 * _MIB
"""Address space that a statement may take beyond what the process has."""
_WORN_BYTES: Final = 192 * _MIB
"""Growth of the address space after which the process is replaced before the next statement."""
_LIGHT_CPU_SECONDS: Final = 1.0
"""CPU time of a light statement that SQLite does not let us stop."""
_SPARE_CPU_SECONDS: Final = 2.0
"""CPU time of a heavy statement beyond its limit, for the guard stops it more kindly."""
_READ_BYTES: Final = 1 << 18
_CONNECTIONS: Final = 8
_CACHE_KIB: Final = 1024
_MAPPED_BYTES: Final = 16 * _MIB
"""Of each database's file: mapped files count as address space."""
_SHOWN_ROWS: Final = 50
"""Rows of a result that can be shown."""
_SHOWN_CHARS: Final = 256
"""Characters of a value or a column's name that can be shown; observations show fewer."""
_ERROR_CHARS: Final = 2_000
_BROKEN: Final = frozenset(
    (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOTADB)
)
"""Codes for which no statement can be blamed."""

Answer = dict[str, Any]


def main() -> None:
    """Answer statements until the standard input is closed."""
    _confine()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    connections = Connections()
    _write_answer({"ready": True})
    started_with = reserved_bytes()
    while True:
        request = _read_request()
        answer = _answer(connections, request)
        if reserved_bytes() - started_with > _WORN_BYTES:
            answer["worn"] = True
        _write_answer(answer)


class Connections:
    """Open databases with their guards, the last ones that were used."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, Limits], tuple[sqlite3.Connection, Guard]]
        self._open = OrderedDict()

    def get(self, path: str, limits: Limits) -> tuple[sqlite3.Connection, Guard]:
        """Return the connection of a file; opens it where there is none."""
        key = (path, limits)
        pair = self._open.get(key)
        if pair is None:
            pair = _connect(path, limits)
            self._open[key] = pair
            if len(self._open) > _CONNECTIONS:
                (oldest, _) = self._open.popitem(last=False)[1]
                oldest.close()
        self._open.move_to_end(key)
        return pair


def _confine() -> None:
    """Give up what no statement needs."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    # Where memory is short, the system ends this process and not the server.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")


def _die_with_parent() -> None:
    """End this process when its parent is gone, also in the middle of a statement.

    The main thread would find out only once it reads again. SQLite runs without the interpreter's
    lock, so this thread gets its turn whatever a statement does.
    """
    poll = select.poll()
    poll.register(0, 0)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


def _read_request() -> list[Any]:
    """Return the next request; there is none before the last one is answered."""
    data, size = b"", HEADER.size
    while len(data) < size:
        chunk = os.read(0, _READ_BYTES)
        if not chunk:
            sys.exit()
        data += chunk
        if len(data) >= HEADER.size:
            size = HEADER.size + HEADER.unpack_from(data)[0]
    return json.loads(data[HEADER.size :])


def _write_answer(answer: Answer) -> None:
    body = _encode(answer).encode()
    data = memoryview(HEADER.pack(len(body)) + body)
    while data:
        data = data[os.write(1, data) :]


def _encode_bytes(value: object) -> list[str]:
    """Return a value of bytes as JSON: a list, as no other value of a row is one."""
    assert isinstance(value, bytes)
    return [value.hex()]


_encode = json.JSONEncoder(default=_encode_bytes).encode


def _answer(connections: Connections, request: list[Any]) -> Answer:
    """Return the answer to a statement: a result, an error, or why there is neither."""
    path, limit_values, heavy, statement = request
    limits = _read_limits(*limit_values)
    _bound(limits, heavy=heavy)
    try:
        try:
            connection, guard = connections.get(path, limits)
        except sqlite3.Error as error:
            return {"broken": str(error)}
        return _run(connection, guard, limits, statement, heavy=heavy)
    except MemoryError:
        # Who has run out of memory once is not to be trusted with another statement.
        return {"exhausted": True, "worn": True}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@lru_cache
def _read_limits(*values: Any) -> Limits:
    return Limits(**dict(zip(Limits.__slots__, values, strict=True)))


def _bound(limits: Limits, *, heavy: bool) -> None:
    """Let the system end this process when the next statement takes too much."""
    seconds = limits.seconds + _SPARE_CPU_SECONDS if heavy else _LIGHT_CPU_SECONDS
    # The timer's signal ends the process, and it has finer steps than the limit of CPU time.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + limits.seconds + 2 * _SPARE_CPU_SECONDS) + 1
    _limit(resource.RLIMIT_CPU, cpu)
    reserved = reserved_bytes()
    if reserved:
        _limit(resource.RLIMIT_AS, reserved + _ADDRESS_BYTES)


def _limit(kind: int, value: int) -> None:
    """Set a limit, or leave the lower one that the operator has set."""
    _, hard = resource.getrlimit(kind)
    soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (soft, hard))


def _run(
    connection: sqlite3.Connection, guard: Guard, limits: Limits, statement: str, *, heavy: bool
) -> Answer:
    guard.begin(heavy=heavy)
    try:
        answer = _fetch(connection.cursor(), statement, limits)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN:
            return {"broken": str(error)}
        text = guard.refusal or str(error).encode("utf-8", "replace").decode()
        answer = {"error": text[:_ERROR_CHARS], "by_chance": guard.by_chance}
    if guard.outgrown:
        return {"outgrown": True}
    return answer | {"steps": guard.steps}


def _fetch(cursor: sqlite3.Cursor, statement: str, limits: Limits) -> Answer:
    """Return what there is to say of all rows, one by one, as far as the limits go."""
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
            return {"error": error}
        if count <= _SHOWN_ROWS:
            rows.append(tuple(map(_clipped, row)))
        distinct.add(row)
    return {
        "columns": [_clipped(column[0]) for column in cursor.description or ()],
        "rows": rows,
        "count": count,
        "distinct": _set_digest(distinct),
        "size": size,
    }


def _clipped(value: Any) -> Any:
    """Return a value, or the part of a long one that can be shown.

    Quotation marks beyond that part are kept: they decide in which ones Python puts the value.
    """
    if not isinstance(value, str | bytes) or len(value) <= _SHOWN_CHARS:
        return value
    if isinstance(value, str):
        rest = value[_SHOWN_CHARS:]
        return value[:_SHOWN_CHARS] + "'" * ("'" in rest) + '"' * ('"' in rest)
    cut = value[_SHOWN_CHARS:]
    return value[:_SHOWN_CHARS] + b"'" * (b"'" in cut) + b'"' * (b'"' in cut)


def _set_digest(rows: set[Row]) -> str:
    """Return a digest that two sets of rows share if and only if they are equal."""
    digests = sorted(
        blake2b(repr(_as_equal_rows(row)).encode(), digest_size=16).digest() for row in rows
    )
    return blake2b(b"".join(digests), digest_size=32).hexdigest()


def _as_equal_rows(row: Row) -> Row:
    """Return the one of all equal rows that is written without fractions: 2.0 equals 2."""
    return tuple(
        int(value) if isinstance(value, float) and value.is_integer() else value for value in row
    )


def _connect(path: str, limits: Limits) -> tuple[sqlite3.Connection, Guard]:
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        cached_statements=0,
    )
    connection.execute("PRAGMA query_only = 1")
    connection.execute("PRAGMA trusted_schema = 0")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
    return connection, Guard(connection, limits)
