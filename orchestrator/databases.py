"""How the SQLite databases of a run's folder are opened: read without a change, written durably.

Of a stranger's folder too: a database that would do more than hold rows is refused.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from orchestrator.errors import ForeignFolder, StoreCorrupt

__all__ = ["UNREADABLE", "connect_reading", "connect_writing", "has_wal", "refuse_programs"]

UNREADABLE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What a damaged database raises: its messages quote it, whatever bytes are in it."""


def connect_writing(database: Path) -> sqlite3.Connection:
    """Open a database for writing; what is committed is on disk."""
    connection = sqlite3.connect(
        database, isolation_level=None, check_same_thread=False, timeout=60
    )
    # FULL flushes the WAL at every commit, so that a record survives a power loss, too.
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def connect_reading(database: Path, *, immutable: bool = False) -> sqlite3.Connection:
    """Open a database for reading; raises StoreCorrupt where it cannot be."""
    uri = database.resolve().as_uri()
    try:
        connection = _open_uri(f"{uri}?{'immutable=1' if immutable else 'mode=ro'}")
        connection.execute("SELECT 1 FROM sqlite_master")
    except sqlite3.OperationalError as error:
        # A read-only medium has no place for the WAL's index; without a WAL none is needed.
        if immutable or has_wal(database):
            raise _unopened(database, error) from error
        return connect_reading(database, immutable=True)
    except UNREADABLE as error:
        raise _unopened(database, error) from error
    return connection


def _unopened(database: Path, error: Exception) -> StoreCorrupt:
    return StoreCorrupt(database.parent, f"{database.name} cannot be opened ({error})")


def _open_uri(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=60)


def has_wal(database: Path) -> bool:
    """Tell whether a database's write-ahead log holds something."""
    wal = database.with_name(f"{database.name}-wal")
    return wal.is_file() and wal.stat().st_size > 0


def refuse_programs(connection: sqlite3.Connection, database: Path) -> None:
    """Raise ForeignFolder for a database that does more than hold rows.

    Views, triggers and virtual tables would run when a stranger's run is read or resumed.
    """
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        virtual = str(sql or "").lstrip().upper().startswith("CREATE VIRTUAL")
        if kind not in ("table", "index") or virtual:
            what = "virtual table" if virtual else kind
            raise ForeignFolder(
                database.parent, f"{database.name} has the {what} {name!r}, no run has"
            )
