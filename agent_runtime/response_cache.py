"""Answers of model servers kept on disk: the same request with the same seed is asked once.

An answer is known by a digest of all that decides it: the API, the model, the conversation, every
sampling field, and the seed, also where the API takes none. Whom it was asked of is no part of it,
so that two addresses of one model share answers, and another model never meets them. Requests are
not stored, answers are; several processes may use one folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.private_files import append_privately, make_private_folder

__all__ = ["CACHE_FILE", "ResponseCache", "request_key"]

CACHE_FILE: Final = "responses.sqlite"
_APPLICATION_ID: Final = 0x41475243
"""Marks the file as ours."""
_LAYOUT: Final = 1
"""Of the table and of the digests; another one is refused."""
_WAIT: Final = 60.0
"""Seconds to wait for other processes that write."""
_TABLE: Final = "CREATE TABLE answers (key BLOB PRIMARY KEY, answer BLOB NOT NULL) WITHOUT ROWID"

T = TypeVar("T")


def request_key(path: str, body: Mapping[str, Any], seed: int) -> bytes:
    """Return what identifies a request.

    Args:
        path: Names the API.
        body: All that is asked, the model included.
        seed: Sampling seed of the turn.
    """
    request = {"layout": _LAYOUT, "path": path, "seed": str(seed), "body": body}
    return hashlib.sha256(orjson.dumps(request, option=orjson.OPT_SORT_KEYS)).digest()


class ResponseCache:
    """The answers in one folder; use between `open` and `close`."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is made before `open`."""
        self._file = folder / CACHE_FILE
        self._connection: sqlite3.Connection | None = None
        # SQLite waits for other processes: never on the event loop, and one statement at a time.
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """Open the cache, or make one. Raises PolicyMisconfigured where that cannot be."""
        self._thread = ThreadPoolExecutor(1, "response-cache")
        try:
            self._connection = await self._call(self._connect)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        thread, self._thread = self._thread, None
        if thread is not None:
            if connection is not None:
                thread.submit(connection.close)
            await asyncio.to_thread(thread.shutdown)

    async def get(self, key: bytes) -> dict[str, Any] | None:
        """Return the answer to a request; None = there is none. Raises PolicyMisconfigured."""
        statement = "SELECT answer FROM answers WHERE key = ?"
        row = await self._call(lambda: self._live.execute(statement, (key,)).fetchone())
        try:
            return None if row is None else cast("dict[str, Any]", orjson.loads(row[0]))
        except orjson.JSONDecodeError as error:
            raise self._unusable(f"an answer in it is damaged: {error}") from error

    async def put(self, key: bytes, answer: Mapping[str, Any]) -> None:
        """Keep an answer; the first one of a request stays. Raises PolicyMisconfigured."""
        statement, kept = "INSERT OR IGNORE INTO answers VALUES (?, ?)", orjson.dumps(answer)
        await self._call(lambda: self._live.execute(statement, (key, kept)))

    @property
    def _live(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the policy is not started")
        return self._connection

    async def _call(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise RuntimeError("the policy is not started")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError) as error:
            raise self._unusable(str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        make_private_folder(self._file.parent)
        append_privately(self._file).close()
        connection = sqlite3.connect(
            self._file, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            # An answer that a power loss takes is asked for again.
            connection.execute("PRAGMA synchronous = NORMAL")
            if not _tables(connection):  # somebody else's database stays as it is
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            tables = _tables(connection)
            if not tables:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_LAYOUT}")
            elif tables != [_TABLE] or _marks(connection) != (_APPLICATION_ID, _LAYOUT):
                raise self._unusable("it is no cache of this version of the program")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _unusable(self, why: str) -> PolicyMisconfigured:
        return PolicyMisconfigured(
            f"--cache: {self._file} cannot be used: {why}; name another folder, or remove the file"
        )


def _tables(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT sql FROM sqlite_master")]


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    names = ("application_id", "user_version")
    first, second = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return first, second
