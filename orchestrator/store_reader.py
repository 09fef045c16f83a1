"""One database of episodes, read: its rows, each checked against its checksums.

A run has one, and one more for each of its shards (`orchestrator.store` makes one run of them).
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from agentgym.episode.v1 import episode_pb2
from orchestrator.checksums import (
    TALLY_FILE,
    Tally,
    read_tally_file,
    record_checksum,
    row_checksum,
)
from orchestrator.databases import UNREADABLE, connect_reading, has_wal, refuse_programs
from orchestrator.errors import RecordCorrupt, StoreCorrupt, UsageError
from orchestrator.manifest import Manifest
from orchestrator.records import (
    EpisodeKey,
    EpisodeSummary,
    RecordDamaged,
    decode,
    parse_fault,
    summarise,
)
from orchestrator.retry import FailedAttempt, Failure
from orchestrator.run_folder import DATABASE_FILE

__all__ = [
    "CHECKED_LAYOUT",
    "KEY_SQL",
    "SUMMARY",
    "SUMMARY_SQL",
    "TALLY",
    "Candidate",
    "FoundAttempt",
    "OnDamage",
    "StoreReader",
    "probe",
    "to_summary",
]

Noted = TypeVar("Noted")

SUMMARY: Final = EpisodeSummary._fields
_TRUTH_PLACES: Final = (SUMMARY.index("success"), SUMMARY.index("retriable"))
"""Columns that SQLite gives back as numbers."""
SUMMARY_SQL: Final = ", ".join(SUMMARY)
TALLY: Final = "tally"
"""Name of the tally among what a database notes of itself."""
CHECKED_LAYOUT: Final = 2
"""The first layout whose rows have checksums."""
KEY_SQL: Final = "environment = ? AND item_id = ? AND sample = ? AND policy = ?"
_PAGE: Final = 256
"""Rows per read: a short read never holds back SQLite's checkpoint."""
_THOROUGH_BYTES: Final = 256 << 20
"""Databases up to this size are checked whole before they are written to."""

OnDamage = Callable[[RecordCorrupt], None]


class Candidate(NamedTuple):
    """A record of a key in one of the stores that have one; the smallest stands for the key.

    What came to an end stands before what failed. Of two that came to an end the one that ended
    first stands, so that what was seen stays; of two that failed the later attempt.
    """

    failed: bool
    attempt: int
    """That failed, as a negative number; of one that came to an end 0."""
    ended_unix_ms: int
    episode_id: str


class FoundAttempt(NamedTuple):
    """An attempt that was looked up by its id."""

    candidate: Candidate
    table: str
    row: tuple[Any, ...]
    """Whole, as the database has it."""


class StoreReader:
    """The rows of one database. Use it from one thread at a time.

    `last` bounds what is read to the rows that `last_row` gave, whatever was appended since; None =
    all that is there when the reading begins.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the database of a folder that `inspect_folder` and `probe` found in order."""
        self.folder = folder
        self.manifest = manifest
        self._reading = connect_reading(folder / DATABASE_FILE)
        self._has_sums = self._rows("PRAGMA user_version")[0][0] >= CHECKED_LAYOUT
        sums = "record_sum, row_sum" if self._has_sums else "NULL, NULL"
        self._row_sql = f"{SUMMARY_SQL}, {sums}"

    def close(self) -> None:
        """Release the database; calling it again changes nothing."""
        self._reading.close()

    def count(self, last: int | None = None) -> int:
        """Return the number of keys with a record, failed ones included."""
        sql = "SELECT count(*) FROM episodes"
        if last is None:
            return int(self._rows(sql)[0][0])
        return int(self._rows(f"{sql} WHERE +id <= ?", (last,))[0][0])

    def noted(self, name: str, parse: Callable[[str], Noted]) -> Noted | None:
        """Return what a writer noted beside the records; None = nothing. Raises StoreCorrupt."""
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        try:
            return parse(rows[0][0]) if rows else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreCorrupt(self.folder, f"its {name} cannot be read ({error!r})") from error

    def version(self) -> int:
        """Return a number that is another one whenever somebody wrote since; for this reader."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def last_row(self, *, superseded: bool = False) -> int:
        """Return the number of the newest row; 0 = there is none."""
        sql = f"SELECT coalesce(max(id), 0) FROM {_table(superseded)}"
        return int(self._rows(sql)[0][0])

    def keys(self, first: int, last: int) -> list[tuple[Any, ...]]:
        """Return row and key of the records in rows `first` to `last`, in any order."""
        # Not by the rows' order where all are asked for: the index of the keys has no records.
        row = "+id" if first <= 1 else "id"
        return self._rows(
            "SELECT id, environment, item_id, sample, policy FROM episodes "
            f"WHERE {row} BETWEEN ? AND ?",
            (first, last),
        )

    def candidate(self, key: EpisodeKey, last: int | None = None) -> Candidate | None:
        """Return by what a key's record stands against those of other stores; None = no record."""
        bound, values = ("", ()) if last is None else (" AND id <= ?", (last,))
        rows = self._rows(
            "SELECT fault IS NOT NULL, attempt, ended_unix_ms, episode_id FROM episodes "
            f"WHERE {KEY_SQL}{bound}",
            (*key, *values),
        )
        return _candidate(rows[0]) if rows else None

    def summaries(
        self,
        first: int = 1,
        last: int | None = None,
        *,
        superseded: bool = False,
        on_damage: OnDamage | None = None,
    ) -> Iterator[tuple[int, EpisodeSummary]]:
        """Yield pairs (row, columns) from row `first` on, decoding no record.

        `on_damage` is told of a row that is not as it was written, which is then left out; None =
        raise RecordCorrupt.
        """
        table = _table(superseded)
        for row in self._paged(table, self._row_sql, first, last):
            try:
                yield row[0], self._checked_summary(table, row)
            except RecordCorrupt as error:
                if on_damage is None:
                    raise
                on_damage(error)

    def episodes(
        self,
        accept: Callable[[EpisodeSummary], bool] | None = None,
        last: int | None = None,
        *,
        superseded: bool = False,
    ) -> Iterator[episode_pb2.Episode]:
        """Yield the records whose summaries `accept` accepts, decoded one at a time; None = all.

        Raises RecordCorrupt at a row that is not as it was written.
        """
        table = _table(superseded)
        for row in self._paged(table, f"{self._row_sql}, record", last=last):
            summary = self._checked_summary(table, row[:-1])
            if accept is None or accept(summary):
                yield self._checked_record(table, row, summary)

    def get(self, key: EpisodeKey) -> episode_pb2.Episode | None:
        """Return the record of a key; None = there is none. Raises RecordCorrupt."""
        sql = f"SELECT id, {self._row_sql}, record FROM episodes WHERE {KEY_SQL}"
        rows = self._rows(sql, tuple(key))
        return self._checked_episode("episodes", rows[0]) if rows else None

    def find_attempts(self, episode_id: str, *, exact: bool = False) -> list[FoundAttempt]:
        """Return the records and superseded attempts of an id, at most four.

        `exact`: of that very id; else of all that begin like it.
        """
        match = "episode_id = ?2" if exact else "substr(episode_id, 1, ?1) = ?2"
        sql = " UNION ALL ".join(
            f"SELECT '{table}', fault IS NOT NULL, attempt, ended_unix_ms, episode_id, "
            f"id, {self._row_sql}, record FROM {table} WHERE {match}"
            for table in ("episodes", "attempts")
        )
        rows = self._rows(f"SELECT * FROM ({sql}) LIMIT 4", (len(episode_id), episode_id))
        return [FoundAttempt(_candidate(row[1:5]), row[0], row[5:]) for row in rows]

    def read_attempt(self, found: FoundAttempt) -> episode_pb2.Episode:
        """Return the record of what `find_attempts` found; raises RecordCorrupt."""
        return self._checked_episode(found.table, found.row)

    def _checked_episode(self, table: str, row: Sequence[Any]) -> episode_pb2.Episode:
        return self._checked_record(table, row, self._checked_summary(table, row[:-1]))

    def summary_by_id(self, episode_id: str) -> EpisodeSummary | None:
        """Return the columns of a record; None = no record has that id. Raises RecordCorrupt."""
        sql = f"SELECT id, {self._row_sql} FROM episodes WHERE episode_id = ?"
        rows = self._rows(sql, (episode_id,))
        return self._checked_summary("episodes", rows[0]) if rows else None

    def some_ids(self, most: int) -> list[str]:
        """Return the ids of the first records."""
        sql = "SELECT episode_id FROM episodes ORDER BY id LIMIT ?"
        return [row[0] for row in self._rows(sql, (most,))]

    def finished_keys(self) -> set[EpisodeKey]:
        """Return the keys that were played to an end without a failure."""
        sql = "SELECT environment, item_id, sample, policy FROM episodes WHERE fault IS NULL"
        return {EpisodeKey(*row) for row in self._rows(sql)}

    def failed_keys(self) -> dict[EpisodeKey, tuple[Candidate, FailedAttempt]]:
        """Return the keys whose latest attempt failed, with that attempt."""
        sql = (
            "SELECT environment, item_id, sample, policy, retriable, fault, reason, "
            "1, attempt, ended_unix_ms, episode_id FROM episodes WHERE fault IS NOT NULL"
        )
        return {
            EpisodeKey(*row[:4]): (
                _candidate(row[7:]),
                FailedAttempt(
                    row[8],
                    Failure(retriable=bool(row[4]), fault=parse_fault(row[5]), reason=row[6]),
                ),
            )
            for row in self._rows(sql)
        }

    def verify(self) -> list[str]:
        """Return everything that is wrong with the store, as sentences; empty = it is sound.

        Reads all of it: SQLite's own structure, every checksum, whether each record says what its
        columns say, and whether anything is gone.
        """
        try:
            problems = [
                f"{DATABASE_FILE}: {row[0]}"
                for row in self._rows("PRAGMA integrity_check")
                if row[0] != "ok"
            ]
            problems += self.loss()
            for table in ("episodes", "attempts"):
                for row in self._paged(table, f"{self._row_sql}, record"):
                    problem = self._row_problem(table, row)
                    if problem:
                        problems.append(f"{table}, episode {row[1]}: {problem}")
        except StoreCorrupt as error:
            return [error.problem]
        return problems

    def check_rows(self) -> None:
        """Raise RecordCorrupt at the first row whose columns are not as they were written."""
        for superseded in (False, True):
            # Without checksums only the records tell.
            read = self.summaries if self._has_sums else self.episodes
            for _ in read(superseded=superseded):
                pass

    def loss(self) -> list[str]:
        """Return as sentences whether rows are gone that were stored; empty = none are known to be.

        Runs of an older layout have no tally, and say nothing.
        """
        # In this order: a writer writes the database first, so that the file is never ahead.
        try:
            beside = read_tally_file(self.folder)
        except (ValueError, OSError) as error:
            return [f"{TALLY_FILE} cannot be read ({error})"]
        recorded, counted = self._tallies()
        if recorded is None:
            return []
        problems: list[str] = []
        if counted != recorded:
            problems.append(
                f"{DATABASE_FILE} has {counted.rows} rows in place of {recorded.rows}"
                if counted.rows != recorded.rows
                else f"{DATABASE_FILE} has other rows than were stored"
            )
        if beside is None:
            problems.append(f"{TALLY_FILE} is gone: whether records were lost cannot be told")
        elif beside.rows > recorded.rows:
            problems.append(
                f"the last {beside.rows - recorded.rows} of {beside.rows} stored records are gone: "
                f"was {DATABASE_FILE}-wal cut, or not copied with the folder?"
            )
        elif beside.rows == recorded.rows and beside != recorded:
            problems.append(f"{DATABASE_FILE} is not the one that {TALLY_FILE} was written for")
        return problems

    def _tallies(self) -> tuple[Tally | None, Tally]:
        """Return what the database says of itself and what is in it, as of one moment."""
        recorded, counted = None, Tally()
        if not self._has_sums:
            return recorded, counted
        sql = (
            "SELECT value, NULL FROM meta WHERE name = ? UNION ALL "
            "SELECT NULL, row_sum FROM episodes UNION ALL SELECT NULL, row_sum FROM attempts"
        )
        try:
            for text, row_sum in self._rows(sql, (TALLY,)):
                if text is not None:
                    recorded = Tally.from_text(text)
                else:
                    counted = counted.with_row(row_sum)
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreCorrupt(self.folder, f"its tally cannot be read ({error})") from error
        return recorded, counted

    def _row_problem(self, table: str, row: Sequence[Any]) -> str:
        """Return what is wrong with a whole row, whatever its checksums say."""
        try:
            episode = decode(row[-1])
        except RecordDamaged as error:
            return f"the record is damaged ({error})"
        if episode.run_id != self.manifest.run_id:
            return f"the record belongs to run {episode.run_id!r}"
        summary = summarise(episode)
        if table == "attempts" and not summary.failed:
            return "it was superseded and had not failed"
        columns = to_summary(row[1:-3])
        if summary != columns:
            wrong = [name for name in SUMMARY if getattr(summary, name) != getattr(columns, name)]
            return f"columns disagree with the record: {', '.join(wrong)}"
        return self._sums_problem(columns, *row[-3:])

    def _sums_problem(
        self,
        summary: EpisodeSummary,
        record_sum: Any,
        row_sum: Any,
        record: Any = None,
    ) -> str:
        """Return which checksum of a row does not fit; empty = those that it has do."""
        if row_sum is None or record_sum is None:
            return ""
        if row_sum != row_checksum(self.manifest.run_id, summary, record_sum):
            return "its columns are not those that were written for this run"
        if record is not None and (
            not isinstance(record, bytes) or record_sum != record_checksum(record)
        ):
            return "its record is not the one that was written"
        return ""

    def _checked_summary(self, table: str, row: Sequence[Any]) -> EpisodeSummary:
        """Return the columns of a row without its record; raises RecordCorrupt."""
        try:
            summary = to_summary(row[1:-2])
            problem = self._sums_problem(summary, *row[-2:])
        except TypeError as error:  # a column of another type than was ever written
            raise self._corrupt(table, row, f"its columns cannot be read ({error})") from error
        if problem:
            raise self._corrupt(table, row, problem)
        return summary

    def _checked_record(
        self, table: str, row: Sequence[Any], summary: EpisodeSummary
    ) -> episode_pb2.Episode:
        """Return the record of a whole row whose columns were checked; raises RecordCorrupt."""
        record_sum, row_sum, record = row[-3:]
        problem = self._sums_problem(summary, record_sum, row_sum, record)
        if not problem and row_sum is None:
            problem = self._row_problem(table, row)
        if problem:
            raise self._corrupt(table, row, problem)
        try:
            return decode(record)
        except RecordDamaged as error:
            raise self._corrupt(table, row, f"the record is damaged ({error})") from error

    def _corrupt(self, table: str, row: Sequence[Any], problem: str) -> RecordCorrupt:
        return RecordCorrupt(self.folder, table, row[0], str(row[1]), problem)

    def _paged(
        self, table: str, columns: str, first: int = 1, last: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        if last is None:
            last = self._rows(f"SELECT coalesce(max(id), 0) FROM {table}")[0][0]
        sql = (
            f"SELECT id, {columns} FROM {table} WHERE id > ? AND id <= ? ORDER BY id LIMIT {_PAGE}"
        )
        seen = first - 1
        while rows := self._rows(sql, (seen, last)):
            yield from rows
            seen = rows[-1][0]

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._reading.execute(sql, values).fetchall()
        except sqlite3.ProgrammingError as error:
            raise UsageError(f"the run was closed ({error})") from error


def _candidate(row: Sequence[Any]) -> Candidate:
    failed, attempt, ended_unix_ms, episode_id = row
    return Candidate(bool(failed), -attempt if failed else 0, ended_unix_ms, episode_id)


def to_summary(columns: Sequence[Any]) -> EpisodeSummary:
    """Return the columns of a row; raises TypeError where one cannot be read."""
    values = list(columns)
    for place in _TRUTH_PLACES:
        if values[place] is not None:
            values[place] = bool(values[place])
    return EpisodeSummary._make(values)


def _table(superseded: bool) -> str:
    return "attempts" if superseded else "episodes"


def probe(folder: Path, manifest: Manifest, *, thorough: bool) -> None:
    """Raise StoreCorrupt where the database is damaged or of another run.

    Without a WAL it is opened as immutable, so that not even side files appear.
    """
    database = folder / DATABASE_FILE
    with contextlib.closing(
        connect_reading(database, immutable=not has_wal(database))
    ) as connection:
        try:
            refuse_programs(connection, database)
            connection.execute(f"SELECT id, {SUMMARY_SQL}, record FROM episodes LIMIT 1")
            connection.execute(f"SELECT id, {SUMMARY_SQL}, record FROM attempts LIMIT 1")
            row = connection.execute("SELECT value FROM meta WHERE name = 'run_id'").fetchone()
            if thorough and database.stat().st_size <= _THOROUGH_BYTES:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise StoreCorrupt(folder, f"{DATABASE_FILE} is damaged ({verdict})")
        except UNREADABLE as error:
            raise StoreCorrupt(folder, f"{DATABASE_FILE} is damaged ({error})") from error
    if row is None or row[0] != manifest.run_id:
        raise StoreCorrupt(folder, f"{DATABASE_FILE} belongs to another run than the manifest")
