"""Checksums of stored records, and the count of a store that is kept beside its database.

Each row has two: one of its stored record, and one of its columns with the run's id and the first.
So a list of columns is checked without reading records, a record from elsewhere does not fit its
row, and a row from elsewhere does not fit its run.

The tally of a store is the number of its rows and the sum of their checksums. It is part of each
transaction, and after each one the same is written to a small file. A database that is behind that
file has lost what was stored last: its write-ahead log was cut or left behind. The file is flushed
to disk when the store is closed, so that a power loss can leave it behind the database, which means
nothing, and cannot leave it ahead. What is found is accident and carelessness: whoever changes a
database on purpose can write fitting sums, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.records import EpisodeSummary

__all__ = [
    "TALLY_FILE",
    "Tally",
    "TallyFile",
    "as_stored",
    "read_tally_file",
    "record_checksum",
    "row_checksum",
]

TALLY_FILE: Final = "episodes.tally"
_BYTES: Final = 16
_MODULUS: Final = 1 << (8 * _BYTES)


def record_checksum(record: bytes) -> bytes:
    """Return the checksum of a stored record."""
    return hashlib.blake2b(record, digest_size=_BYTES).digest()


def row_checksum(run_id: str, summary: EpisodeSummary, record_sum: bytes) -> bytes:
    """Return the checksum of a row: its columns, the run that it belongs to, its record's sum."""
    # A hundred thousand rows are checked at once: only floats are looked at twice.
    values = (run_id, *[as_stored(it) if type(it) is float else it for it in summary])
    digest = hashlib.blake2b(repr(values).encode("utf-8", "surrogatepass"), digest_size=_BYTES)
    digest.update(record_sum)
    return digest.digest()


def as_stored(value: Any) -> Any:
    """Return a value as SQLite gives it back: without the sign of zero, NaN as nothing."""
    if isinstance(value, float):
        return value + 0.0 if value == value else None
    return value


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows a store has, superseded attempts included, and the sum of their checksums."""

    rows: int = 0
    total: int = 0

    def with_row(self, row_sum: bytes) -> Tally:
        """Return the tally with one row more."""
        return Tally(self.rows + 1, (self.total + int.from_bytes(row_sum, "big")) % _MODULUS)

    def to_text(self) -> str:
        """Return the tally as it is stored: always of the same length."""
        return f"{self.rows:020d} {self.total:0{2 * _BYTES}x}\n"

    @classmethod
    def from_text(cls, text: str) -> Tally:
        """Return the tally of a stored text; raises ValueError."""
        rows, total = text.split()
        return cls(int(rows), int(total, 16))


def read_tally_file(folder: Path) -> Tally | None:
    """Return what the file beside a database says; None = there is none. Raises ValueError."""
    try:
        return Tally.from_text((folder / TALLY_FILE).read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


class TallyFile:
    """The file beside a database, as its writer keeps it."""

    def __init__(self, folder: Path) -> None:
        """Open the file; make it where there is none."""
        self._descriptor = os.open(folder / TALLY_FILE, os.O_WRONLY | os.O_CREAT, 0o600)

    def write(self, tally: Tally) -> None:
        """Say what is in the database now: only after that is durable there.

        A full disk must not fail records that are stored: the file then lags behind.
        """
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, tally.to_text().encode("ascii"), 0)

    def close(self) -> None:
        """Flush the file to disk and close it."""
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)
        os.close(self._descriptor)
