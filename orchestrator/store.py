"""The episode store of a run: one SQLite database, one record per row, many readers, one writer.

`RunReader` reads, also while a run is live; `RunStore` also appends. What always holds:

- A record is durable when its `append` returns: committed and flushed to disk (WAL,
  synchronous=FULL). One writer thread commits all that is waiting in one transaction, so a
  thousand concurrent appends cost a few flushes.
- A key (environment, item, sample, policy) has at most one record in `episodes`. Only a failed
  record may be replaced, only by a later attempt, and it then moves to `attempts`: nothing that
  was appended is ever lost. Appending the same record again changes nothing.
- kill -9 at any time loses only what was not appended yet.
- Every row is checked against its checksums whenever it is read, and a store that has lost rows is
  noticed by `verify` and by a resume (`orchestrator.checksums`).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from google.protobuf.message import EncodeError

from agent_runtime.spending import Spent
from agentgym.episode.v1 import episode_pb2
from orchestrator.checksums import (
    TALLY_FILE,
    Tally,
    TallyFile,
    read_tally_file,
    record_checksum,
    row_checksum,
)
from orchestrator.databases import (
    UNREADABLE,
    connect_reading,
    connect_writing,
    has_wal,
    refuse_programs,
)
from orchestrator.errors import (
    DuplicateEpisode,
    InvalidEpisode,
    OrchestratorError,
    RecordCorrupt,
    StoreCorrupt,
    StoreWriteFailed,
    UsageError,
)
from orchestrator.manifest import Manifest, Session, check_resumable, write_manifest
from orchestrator.records import (
    EpisodeKey,
    EpisodeSummary,
    RecordDamaged,
    check,
    decode,
    encode,
    episode_key,
    parse_fault,
    summarise,
)
from orchestrator.retry import FailedAttempt, Failure
from orchestrator.run_folder import (
    APPLICATION_ID,
    DATABASE_FILE,
    DATABASE_LAYOUT,
    WriterLock,
    create_folder,
    inspect_folder,
)
from orchestrator.run_limits import spent_from_json, spent_to_json
from orchestrator.run_plan import RunPlan, SessionEnd

__all__ = ["RunReader", "RunStore"]

Noted = TypeVar("Noted")

_SUMMARY: Final = tuple(field.name for field in fields(EpisodeSummary))
_SUMMARY_SQL: Final = ", ".join(_SUMMARY)
_PLAN: Final = "plan"
_SESSION_END: Final = "session_end"
_UNRECORDED: Final = "unrecorded"
_TALLY: Final = "tally"
_CHECKED_LAYOUT: Final = 2
"""The first layout whose rows have checksums."""
_KEY_SQL: Final = "environment = ? AND item_id = ? AND sample = ? AND policy = ?"
_BATCH: Final = 512
"""Records per transaction at most, so that a waiting append never waits long."""
_PAGE: Final = 256
"""Rows per read: a short read never holds back SQLite's checkpoint."""
_THOROUGH_BYTES: Final = 256 << 20
"""Databases up to this size are checked whole before they are written to."""

_OnDamage = Callable[[RecordCorrupt], None]

# The blob comes last, so that reading the columns never touches it.
_COLUMNS: Final = """
    id INTEGER PRIMARY KEY,
    episode_id TEXT NOT NULL UNIQUE,
    environment TEXT NOT NULL, item_id TEXT NOT NULL, sample INTEGER NOT NULL,
    policy TEXT NOT NULL, category TEXT NOT NULL, split TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    reward REAL, score REAL, success INTEGER,
    stop_reason TEXT NOT NULL, fault TEXT, reason TEXT, retriable INTEGER,
    rounds INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cost_usd REAL, started_unix_ms INTEGER NOT NULL, ended_unix_ms INTEGER NOT NULL,
    environment_seconds REAL NOT NULL, policy_seconds REAL NOT NULL,
    record_sum BLOB NOT NULL, row_sum BLOB NOT NULL,
    record BLOB NOT NULL"""
_LAYOUT: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {DATABASE_LAYOUT};
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE episodes ({_COLUMNS},
    UNIQUE (environment, item_id, sample, policy));
CREATE TABLE attempts ({_COLUMNS},
    UNIQUE (environment, item_id, sample, policy, attempt));
CREATE INDEX episodes_failed ON episodes (environment, fault) WHERE fault IS NOT NULL;
COMMIT;
"""


class RunReader:
    """The records of a run. Use it from one thread at a time; any number of readers may exist."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Use `RunReader.open`."""
        self.folder = folder
        self.manifest = manifest
        self._reading = connect_reading(folder / DATABASE_FILE)
        self._has_sums = self._rows("PRAGMA user_version")[0][0] >= _CHECKED_LAYOUT
        sums = "record_sum, row_sum" if self._has_sums else "NULL, NULL"
        self._row_sql = f"{_SUMMARY_SQL}, {sums}"

    @classmethod
    def open(cls, folder: Path) -> RunReader:
        """Open a run for reading, also while another process writes to it.

        Raises RunNotFound, ForeignFolder, LayoutUnsupported or StoreCorrupt.
        """
        manifest = inspect_folder(folder)
        _probe(folder, manifest, thorough=False)
        return RunReader(folder, manifest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the database; calling it again changes nothing."""
        self._reading.close()

    def count(self) -> int:
        """Return the number of keys with a record, failed ones included."""
        return int(self._rows("SELECT count(*) FROM episodes")[0][0])

    def plan(self) -> RunPlan | None:
        """Return what the run is to play; None = it did not say."""
        return self._noted(_PLAN, RunPlan.from_json)

    def session_end(self) -> SessionEnd | None:
        """Return how the latest session ended; None = it goes on, was killed, or did not say."""
        return self._noted(_SESSION_END, SessionEnd.from_json)

    def unrecorded_spending(self) -> Spent:
        """Return what sessions spent on attempts that have no record, as far as they noted it."""
        return self._noted(_UNRECORDED, spent_from_json) or Spent()

    def _noted(self, name: str, parse: Callable[[str], Noted]) -> Noted | None:
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        try:
            return parse(rows[0][0]) if rows else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreCorrupt(self.folder, f"its {name} cannot be read ({error!r})") from error

    def version(self) -> int:
        """Return a number that is another one whenever somebody wrote since; for this reader."""
        return int(self._rows("PRAGMA data_version")[0][0])

    def summaries(
        self, *, superseded: bool = False, on_damage: _OnDamage | None = None
    ) -> Iterator[EpisodeSummary]:
        """Yield the columns of every record in the order of their appending, decoding none.

        Args:
            superseded: Yield those of failed attempts that a later one replaced, not the records.
            on_damage: Is told of a row that is not as it was written, which is then left out; None
                = raise RecordCorrupt.
        """
        for _, summary in self.numbered_summaries(superseded=superseded, on_damage=on_damage):
            yield summary

    def numbered_summaries(
        self, first: int = 1, *, superseded: bool = False, on_damage: _OnDamage | None = None
    ) -> Iterator[tuple[int, EpisodeSummary]]:
        """Yield pairs (row, columns) from row `first` on, otherwise as `summaries` does.

        Who follows a live run asks again from the last row that was seen, that row included: where
        its record failed, a later attempt may have taken its place. Other rows never change.
        """
        table = _table(superseded)
        for row in self._paged(table, self._row_sql, first):
            try:
                yield row[0], self._checked_summary(table, row)
            except RecordCorrupt as error:
                if on_damage is None:
                    raise
                on_damage(error)

    def episodes(
        self,
        accept: Callable[[EpisodeSummary], bool] | None = None,
        *,
        superseded: bool = False,
    ) -> Iterator[episode_pb2.Episode]:
        """Yield records in the order of their appending, decoded one at a time.

        Args:
            accept: Only records whose summary it accepts are decoded; None = all.
            superseded: Yield the failed attempts that a later one replaced, not the records.

        What is appended after the first record was asked for is not given. Raises RecordCorrupt at
        a row that is not as it was written.
        """
        table = _table(superseded)
        for row in self._paged(table, f"{self._row_sql}, record"):
            summary = self._checked_summary(table, row[:-1])
            if accept is None or accept(summary):
                yield self._checked_record(table, row, summary)

    def get(self, key: EpisodeKey) -> episode_pb2.Episode | None:
        """Return the record of a key; None = there is none. Raises RecordCorrupt."""
        sql = f"SELECT id, {self._row_sql}, record FROM episodes WHERE {_KEY_SQL}"
        rows = self._rows(sql, tuple(key))
        return self._checked_episode("episodes", rows[0]) if rows else None

    def get_by_id(self, prefix: str) -> episode_pb2.Episode:
        """Return the record or superseded attempt whose episode id begins with `prefix`.

        Raises UsageError where there is none or more than one, RecordCorrupt.
        """
        sql = " UNION ALL ".join(
            f"SELECT '{table}', id, {self._row_sql}, record FROM {table} "
            "WHERE substr(episode_id, 1, ?) = ?"
            for table in ("episodes", "attempts")
        )
        bounds = (len(prefix), prefix)
        rows = self._rows(f"SELECT * FROM ({sql}) LIMIT 4", bounds + bounds)
        if len(rows) == 1:
            return self._checked_episode(rows[0][0], rows[0][1:])
        if rows:
            raise UsageError(f"more than one episode id begins with {prefix!r}")
        raise UsageError(f"no episode id begins with {prefix!r}", valid=self._some_ids())

    def finished_keys(self) -> set[EpisodeKey]:
        """Return the keys that were played to an end without a failure."""
        sql = "SELECT environment, item_id, sample, policy FROM episodes WHERE fault IS NULL"
        return {EpisodeKey(*row) for row in self._rows(sql)}

    def failed_keys(self) -> dict[EpisodeKey, FailedAttempt]:
        """Return the keys whose latest attempt failed, with that attempt."""
        sql = (
            "SELECT environment, item_id, sample, policy, attempt, retriable, fault, reason "
            "FROM episodes WHERE fault IS NOT NULL"
        )
        return {
            EpisodeKey(*row[:4]): FailedAttempt(
                row[4],
                Failure(retriable=bool(row[5]), fault=parse_fault(row[6]), reason=row[7]),
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
            for text, row_sum in self._rows(sql, (_TALLY,)):
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
        columns = _to_summary(row[1:-3])
        if summary != columns:
            wrong = [name for name in _SUMMARY if getattr(summary, name) != getattr(columns, name)]
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
            summary = _to_summary(row[1:-2])
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

    def _checked_episode(self, table: str, row: Sequence[Any]) -> episode_pb2.Episode:
        return self._checked_record(table, row, self._checked_summary(table, row[:-1]))

    def _corrupt(self, table: str, row: Sequence[Any], problem: str) -> RecordCorrupt:
        return RecordCorrupt(self.folder, table, row[0], str(row[1]), problem)

    def _some_ids(self) -> list[str]:
        ids = [row[0] for row in self._rows("SELECT episode_id FROM episodes ORDER BY id LIMIT 4")]
        return [*ids[:3], "..."] if len(ids) > 3 else ids

    def _paged(self, table: str, columns: str, first: int = 1) -> Iterator[tuple[Any, ...]]:
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
        except UNREADABLE as error:
            raise StoreCorrupt(self.folder, f"{DATABASE_FILE} cannot be read ({error})") from error


class _Append(NamedTuple):
    """A record on its way to the writer thread."""

    episode: episode_pb2.Episode
    stored: Future[None]


class RunStore(RunReader):
    """A run that this process writes to. Appends may come from any thread or task."""

    def __init__(self, folder: Path, manifest: Manifest, lock: WriterLock) -> None:
        """Use `RunStore.create` or `RunStore.resume`."""
        super().__init__(folder, manifest)
        self._lock = lock
        self._queue: queue.SimpleQueue[_Append | None] = queue.SimpleQueue()
        """What waits for the writer; None, put once, ends it."""
        # Between "is it closed?" and the put nothing may close: behind the None an append would
        # wait for ever.
        self._gate = threading.Lock()
        self._closed = False
        connection, beside = connect_writing(folder / DATABASE_FILE), TallyFile(folder)
        beside.write(_read_tally(connection))
        # A thread, because a commit waits for the disk and the event loop must not; a single one,
        # because SQLite has one writer at a time, and what waits meanwhile shares the next flush.
        self._writer = threading.Thread(
            target=self._write_until_closed,
            args=(connection, beside),
            name="episode-writer",
            daemon=True,
        )
        self._writer.start()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest, session: Session) -> RunStore:
        """Begin a new run. Raises RunExists or ForeignFolder where the folder is not empty."""
        manifest = manifest.with_session(session)
        create_folder(folder, manifest, lambda path: _make_database(path, manifest.run_id))
        return cls._open_for_writing(folder, WriterLock(folder), manifest)

    @classmethod
    def resume(cls, folder: Path, manifest: Manifest, session: Session) -> RunStore:
        """Go on with a run that was begun with the same manifest.

        `run_id` and `created` are the recorded ones. Raises RunMismatch, RunNotFound,
        ForeignFolder, LayoutUnsupported, RunLocked or StoreCorrupt; then nothing was changed.
        """
        check_resumable(inspect_folder(folder), manifest)
        lock = WriterLock(folder)
        try:
            # Read again: until the lock was held, another process could add its session.
            recorded = inspect_folder(folder)
            _probe(folder, recorded, thorough=True)
            _check_rows(folder, recorded)
            recorded = recorded.with_session(session)
            write_manifest(folder, recorded)
            _prepare_rows(folder, recorded)
        except BaseException:
            lock.release()
            raise
        return cls._open_for_writing(folder, lock, recorded)

    @classmethod
    def _open_for_writing(cls, folder: Path, lock: WriterLock, manifest: Manifest) -> RunStore:
        try:
            lock.sign()
            return cls(folder, manifest, lock)
        except BaseException:
            lock.release()
            raise

    def begin_playing(self, plan: RunPlan) -> None:
        """Note what is to be played, and that a session is under way; durable on return."""
        with contextlib.closing(connect_writing(self.folder / DATABASE_FILE)) as connection:
            connection.execute("DELETE FROM meta WHERE name = ?", (_SESSION_END,))
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_PLAN, plan.to_json()))

    def end_playing(self, end: SessionEnd, *, unrecorded: Spent | None = None) -> None:
        """Note how the session ended; durable on return.

        `unrecorded` is what all sessions spent on attempts without a record; None = as before.
        """
        notes = {_SESSION_END: end.to_json()}
        if unrecorded is not None:
            notes[_UNRECORDED] = spent_to_json(unrecorded)
        with contextlib.closing(connect_writing(self.folder / DATABASE_FILE)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", notes.items())
            connection.execute("COMMIT")

    async def append(self, episode: episode_pb2.Episode) -> None:
        """Store a record; it is durable on return. Do not change the record before that.

        A cancelled append is still carried out. Raises InvalidEpisode (also as DuplicateEpisode)
        or StoreWriteFailed.
        """
        await asyncio.shield(asyncio.wrap_future(self.submit(episode)))

    def append_all(self, episodes: Iterable[episode_pb2.Episode]) -> None:
        """Store records from plain code; durable on return; raises the first error of any."""
        for stored in [self.submit(episode) for episode in episodes]:
            stored.result()

    def submit(self, episode: episode_pb2.Episode) -> Future[None]:
        """Hand a record to the writer; the future is done when it is durable.

        Raises InvalidEpisode at once where the record's own fields show it; what only the database
        refuses, DuplicateEpisode and StoreWriteFailed come by the future.
        """
        check(episode, run_id=self.manifest.run_id)
        stored: Future[None] = Future()
        with self._gate:
            if self._closed:
                raise StoreWriteFailed(f"{self.folder}: the store was closed")
            self._queue.put(_Append(episode, stored))
        return stored

    def close(self) -> None:
        """Wait until all that was submitted is durable, then give the run up.

        Blocks; calling it again changes nothing.
        """
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        # Before the writer's connection: SQLite removes its side files when the last one closes.
        super().close()
        self._writer.join()
        self._lock.release()

    def _write_until_closed(self, connection: sqlite3.Connection, beside: TallyFile) -> None:
        with contextlib.closing(connection), contextlib.closing(beside):
            closing = False
            while not closing:
                batch, closing = self._take_batch()
                if batch:
                    _answer(_commit(connection, batch, beside))
            with contextlib.suppress(sqlite3.Error):
                # Best effort: what stays in the WAL is read from there the next time.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _take_batch(self) -> tuple[list[_Append], bool]:
        """Return all that waits, up to a batch, and whether the store is closing.

        Blocks until there is something.
        """
        batch: list[_Append] = []
        entry = self._queue.get()
        while entry is not None:
            batch.append(entry)
            if len(batch) == _BATCH:
                return batch, False
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True


_UNSTORABLE: Final = (
    EncodeError,
    OverflowError,
    TypeError,
    ValueError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
)
"""What a single record's values raise; what a disk or a damaged database raises is not here."""

_Outcome = tuple[Future[None], OrchestratorError | None]


def _answer(outcomes: Iterable[_Outcome]) -> None:
    """Tell those who wait for an append how it went; who was cancelled meanwhile waits no more."""
    for stored, failure in outcomes:
        if not stored.set_running_or_notify_cancel():
            continue
        if failure is None:
            stored.set_result(None)
        else:
            stored.set_exception(failure)


def _commit(
    connection: sqlite3.Connection, batch: Sequence[_Append], beside: TallyFile
) -> list[_Outcome]:
    """Write a batch in one transaction: a bad record fails alone, a failing disk fails all."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        tally = _read_tally(connection)
        outcomes: list[_Outcome] = []
        for episode, stored in batch:
            failure, row_sum = _insert_alone(connection, episode)
            outcomes.append((stored, failure))
            tally = tally.with_row(row_sum) if row_sum is not None else tally
        _write_tally(connection, tally)
        connection.execute("COMMIT")
        beside.write(tally)
    except Exception as error:  # noqa: BLE001 - boundary of the writer thread: every append answers
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        failure = StoreWriteFailed(
            f"{len(batch)} episodes were not stored ({error}); all that was stored before is safe: "
            "make room or mend the disk, then resume the run"
        )
        return [(stored, failure) for _, stored in batch]
    return outcomes


def _insert_alone(
    connection: sqlite3.Connection, episode: episode_pb2.Episode
) -> tuple[InvalidEpisode | None, bytes | None]:
    """Add a record; return why it cannot be stored, and its checksum where it is a new row.

    Of one that cannot be stored nothing is in the batch.
    """
    connection.execute("SAVEPOINT record")
    failure, row_sum = None, None
    try:
        row_sum = _insert(connection, episode)
    except DuplicateEpisode as error:
        failure = error
    except _UNSTORABLE as error:
        failure = InvalidEpisode(f"episode {episode.episode_id}: it cannot be stored ({error})")
    if failure is not None:
        connection.execute("ROLLBACK TO record")
    connection.execute("RELEASE record")
    return failure, row_sum


def _insert(connection: sqlite3.Connection, episode: episode_pb2.Episode) -> bytes | None:
    """Add a record; one that failed before moves to `attempts`. Raises DuplicateEpisode.

    Returns the checksum of the new row; None = the very record is there already.
    """
    key, record = episode_key(episode), encode(episode)
    row = connection.execute(
        f"SELECT id, attempt, fault, record FROM episodes WHERE {_KEY_SQL}", tuple(key)
    ).fetchone()
    if row is not None:
        row_id, attempt, fault, stored = row
        if stored == record:
            return None
        if fault is None or episode.attempt <= attempt:
            outcome = "finished" if fault is None else f"failed in attempt {attempt}"
            raise DuplicateEpisode(f"{key} has {outcome} already; not stored again")
        columns = f"{_SUMMARY_SQL}, record_sum, row_sum, record"
        connection.execute(
            f"INSERT INTO attempts ({columns}) SELECT {columns} FROM episodes WHERE id = ?",
            (row_id,),
        )
        connection.execute("DELETE FROM episodes WHERE id = ?", (row_id,))
    _refuse_known_id(connection, episode)
    summary, record_sum = summarise(episode), record_checksum(record)
    row_sum = row_checksum(episode.run_id, summary, record_sum)
    connection.execute(
        f"INSERT INTO episodes ({_SUMMARY_SQL}, record_sum, row_sum, record) "
        f"VALUES ({', '.join('?' * (len(_SUMMARY) + 3))})",
        (*(getattr(summary, name) for name in _SUMMARY), record_sum, row_sum, record),
    )
    return row_sum


def _refuse_known_id(connection: sqlite3.Connection, episode: episode_pb2.Episode) -> None:
    for table in ("episodes", "attempts"):
        sql = f"SELECT 1 FROM {table} WHERE episode_id = ?"
        if connection.execute(sql, (episode.episode_id,)).fetchone():
            raise DuplicateEpisode(f"episode id {episode.episode_id!r} is taken")


def _to_summary(columns: Sequence[Any]) -> EpisodeSummary:
    values = dict(zip(_SUMMARY, columns, strict=True))
    for name in ("success", "retriable"):
        values[name] = None if values[name] is None else bool(values[name])
    return EpisodeSummary(**values)


def _read_tally(connection: sqlite3.Connection) -> Tally:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (_TALLY,)).fetchone()
    return Tally.from_text(row[0])


def _write_tally(connection: sqlite3.Connection, tally: Tally) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_TALLY, tally.to_text()))


def _table(superseded: bool) -> str:
    return "attempts" if superseded else "episodes"


def _check_rows(folder: Path, manifest: Manifest) -> None:
    """Raise StoreCorrupt where rows are gone or are not as they were written; changes nothing."""
    with RunReader(folder, manifest) as reader:
        # Without the file nobody knows of a loss, or somebody has accepted one.
        if (folder / TALLY_FILE).exists() and (lost := reader.loss()):
            raise StoreCorrupt(
                folder,
                f"{lost[0]}; to go on without what was lost, delete {TALLY_FILE}: "
                "the resume plays it again",
            )
        reader.check_rows()


def _prepare_rows(folder: Path, manifest: Manifest) -> None:
    """Give a store without a tally file its tally, and rows of an older layout their checksums."""
    if (folder / TALLY_FILE).exists():
        return
    with contextlib.closing(connect_writing(folder / DATABASE_FILE)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] < _CHECKED_LAYOUT:
            for table in ("episodes", "attempts"):
                _add_checksums(connection, table, manifest.run_id)
            connection.execute(f"PRAGMA user_version = {DATABASE_LAYOUT}")
        tally = Tally()
        for (row_sum,) in connection.execute(
            "SELECT row_sum FROM episodes UNION ALL SELECT row_sum FROM attempts"
        ):
            tally = tally.with_row(row_sum)
        _write_tally(connection, tally)
        connection.execute("COMMIT")


def _add_checksums(connection: sqlite3.Connection, table: str, run_id: str) -> None:
    for column in ("record_sum", "row_sum"):
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} BLOB NOT NULL DEFAULT x''")
    for (row_id,) in connection.execute(f"SELECT id FROM {table}").fetchall():
        sql = f"SELECT {_SUMMARY_SQL}, record FROM {table} WHERE id = ?"
        *columns, record = connection.execute(sql, (row_id,)).fetchone()
        record_sum = record_checksum(record)
        row_sum = row_checksum(run_id, _to_summary(columns), record_sum)
        connection.execute(
            f"UPDATE {table} SET record_sum = ?, row_sum = ? WHERE id = ?",
            (record_sum, row_sum, row_id),
        )


def _make_database(path: Path, run_id: str) -> None:
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(_LAYOUT)
            connection.execute("INSERT INTO meta VALUES ('run_id', ?)", (run_id,))
            _write_tally(connection, Tally())
    except sqlite3.OperationalError as error:
        raise StoreWriteFailed(f"{path} cannot be written ({error})") from error


def _probe(folder: Path, manifest: Manifest, *, thorough: bool) -> None:
    """Raise StoreCorrupt where the database is damaged or of another run.

    Without a WAL it is opened as immutable, so that not even side files appear.
    """
    database = folder / DATABASE_FILE
    with contextlib.closing(
        connect_reading(database, immutable=not has_wal(database))
    ) as connection:
        try:
            refuse_programs(connection, database)
            connection.execute(f"SELECT id, {_SUMMARY_SQL}, record FROM episodes LIMIT 1")
            connection.execute(f"SELECT id, {_SUMMARY_SQL}, record FROM attempts LIMIT 1")
            row = connection.execute("SELECT value FROM meta WHERE name = 'run_id'").fetchone()
            if thorough and database.stat().st_size <= _THOROUGH_BYTES:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise StoreCorrupt(folder, f"{DATABASE_FILE} is damaged ({verdict})")
        except UNREADABLE as error:
            raise StoreCorrupt(folder, f"{DATABASE_FILE} is damaged ({error})") from error
    if row is None or row[0] != manifest.run_id:
        raise StoreCorrupt(folder, f"{DATABASE_FILE} belongs to another run than the manifest")
