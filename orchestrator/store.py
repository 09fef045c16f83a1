"""The episode store of a run: SQLite databases, one record per row, many readers, a writer of each.

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
- A run may have shards, each a store like its own, so that each has one writer and they know
  nothing of each other. Readers get their union, and still one record for each key.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from google.protobuf.message import EncodeError

from agent_runtime.private_files import make_private_folder
from agent_runtime.spending import Spent
from agentgym.episode.v1 import episode_pb2
from orchestrator.checksums import (
    TALLY_FILE,
    Tally,
    TallyFile,
    record_checksum,
    row_checksum,
)
from orchestrator.databases import connect_writing
from orchestrator.doubled_keys import DoubledKeys
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
    check,
    encode,
    episode_key,
    play_differences,
    summarise,
)
from orchestrator.retry import FailedAttempt
from orchestrator.run_folder import (
    APPLICATION_ID,
    DATABASE_FILE,
    DATABASE_LAYOUT,
    SHARDS_FOLDER,
    WriterLock,
    check_shards,
    create_folder,
    inspect_folder,
    inspect_shard,
    shard_folder,
    shard_names,
)
from orchestrator.run_limits import spent_from_json, spent_to_json
from orchestrator.run_plan import RunPlan, SessionEnd
from orchestrator.store_reader import (
    CHECKED_LAYOUT,
    KEY_SQL,
    SUMMARY,
    SUMMARY_SQL,
    TALLY,
    Candidate,
    FoundAttempt,
    OnDamage,
    StoreReader,
    probe,
    to_summary,
)

__all__ = ["OWN_STORE", "Place", "RunReader", "RunStore"]

OWN_STORE: Final = ""
"""The name of a run's own store among those that it is read from; shards have theirs."""
_BEATEN: Final = "+"
"""In place of a store's name: failed records that another store's stands for; no shard has it."""
_PLAN: Final = "plan"
_SESSION_END: Final = "session_end"
_UNRECORDED: Final = "unrecorded"
_BATCH: Final = 512
"""Records per transaction at most, so that a waiting append never waits long."""

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


class Place(NamedTuple):
    """Where a record is in a run."""

    store: str
    row: int


class RunReader:
    """The records of a run. Use it from one thread at a time; any number of readers may exist.

    A run is the union of its own store and of its shards (`RunStore.open_shard`), as far as they
    are there at the time of each call. Where two of them have a record of one key, one of the two
    is given (`orchestrator.store_reader.Candidate`), and a failed one of them is a superseded
    attempt. Plan, spending and end are those that the run's own store notes.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Use `RunReader.open`."""
        self.folder = folder
        self.manifest = manifest
        self._own = StoreReader(folder, manifest)
        self._stores = {OWN_STORE: self._own}
        self._doubled = DoubledKeys()

    @classmethod
    def open(cls, folder: Path) -> RunReader:
        """Open a run for reading, also while other processes write to it.

        Raises RunNotFound, ForeignFolder, LayoutUnsupported or StoreCorrupt, of shards, too, and
        ShardMissing.
        """
        manifest = inspect_folder(folder)
        probe(folder, manifest, thorough=False)
        reader = RunReader(folder, manifest)
        try:
            check_shards(folder, manifest)
            reader.stores()
        except BaseException:
            reader.close()
            raise
        return reader

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
        """Release the databases; calling it again changes nothing."""
        for store in self._stores.values():
            store.close()

    def stores(self) -> Mapping[str, StoreReader]:
        """Return the stores that are there now, by name; raises what `open` raises."""
        for name in shard_names(self.folder):
            if name not in self._stores:
                folder = shard_folder(self.folder, name)
                manifest = inspect_shard(folder, self.manifest)
                probe(folder, manifest, thorough=False)
                self._stores[name] = StoreReader(folder, manifest)
        return self._stores

    def count(self) -> int:
        """Return the number of keys with a record, failed ones included."""
        stores = self.stores()
        if len(stores) == 1:
            return self._own.count()
        bounds = self._doubled.update(stores)
        records = sum(stores[name].count(bound) for name, bound in bounds.items())
        return records - self._doubled.surplus()

    def plan(self) -> RunPlan | None:
        """Return what the run is to play; None = it did not say."""
        return self._own.noted(_PLAN, RunPlan.from_json)

    def session_end(self) -> SessionEnd | None:
        """Return how the latest session ended; None = it goes on, was killed, or did not say."""
        return self._own.noted(_SESSION_END, SessionEnd.from_json)

    def unrecorded_spending(self) -> Spent:
        """Return what sessions spent on attempts that have no record, as far as they noted it."""
        return self._own.noted(_UNRECORDED, spent_from_json) or Spent()

    def version(self) -> tuple[int, ...]:
        """Return what is something else whenever somebody wrote since; for this reader."""
        return tuple(store.version() for store in self.stores().values())

    def summaries(
        self, *, superseded: bool = False, on_damage: OnDamage | None = None
    ) -> Iterator[EpisodeSummary]:
        """Yield the columns of every record in the order of their appending, decoding none.

        Args:
            superseded: Yield those of failed attempts that a later one replaced, not the records.
            on_damage: Is told of a row that is not as it was written, which is then left out; None
                = raise RecordCorrupt.

        Store by store, where a run has shards.
        """
        for _, summary in self.placed_summaries(superseded=superseded, on_damage=on_damage):
            yield summary

    def placed_summaries(
        self,
        first: Mapping[str, int] | None = None,
        *,
        superseded: bool = False,
        on_damage: OnDamage | None = None,
    ) -> Iterator[tuple[Place, EpisodeSummary]]:
        """Yield pairs (place, columns), otherwise as `summaries` does.

        Args:
            first: By store the row to begin with; 1 of stores that are not named. Who follows a
                live run asks for records again from the last rows that were seen, those included:
                where such a record failed, a later attempt may have taken its place. Superseded
                attempts never change. Neither do records, but that another store's may stand for
                the key from some time on; that one is then given.
            superseded: As for `summaries`.
            on_damage: As for `summaries`.
        """
        first, stores = first or {}, self.stores()
        if len(stores) == 1:
            numbered = self._own.summaries(
                first.get(OWN_STORE, 1), superseded=superseded, on_damage=on_damage
            )
            for row, summary in numbered:
                yield Place(OWN_STORE, row), summary
        elif superseded:
            yield from self._superseded(stores, first, on_damage)
        else:
            bounds = self._doubled.update(stores)
            beaten = {name: self._doubled.beaten_in(name) for name in bounds}
            for name, bound in bounds.items():
                numbered = stores[name].summaries(first.get(name, 1), bound, on_damage=on_damage)
                for row, summary in numbered:
                    if summary.episode_id not in beaten[name]:
                        yield Place(name, row), summary

    def _superseded(
        self,
        stores: Mapping[str, StoreReader],
        first: Mapping[str, int],
        on_damage: OnDamage | None,
    ) -> Iterator[tuple[Place, EpisodeSummary]]:
        """Yield the superseded attempts of a run with shards.

        Those of each store, then failed records that another store's stands for; an attempt that
        two of them recorded is given once.
        """
        self._doubled.update(stores)
        given: set[str] = set()

        def is_new(summary: EpisodeSummary) -> bool:
            known = summary.episode_id in given
            given.add(summary.episode_id)
            return not known and not self._doubled.stands(summary.key, summary.episode_id)

        for name, store in dict(stores).items():
            numbered = store.summaries(first.get(name, 1), superseded=True, on_damage=on_damage)
            for row, summary in numbered:
                if is_new(summary):
                    yield Place(name, row), summary
        start = first.get(_BEATEN, 1)
        for number, (name, episode_id) in enumerate(self._doubled.beaten[start - 1 :], start):
            try:
                summary = stores[name].summary_by_id(episode_id)
            except RecordCorrupt as error:
                if on_damage is None:
                    raise
                on_damage(error)
                continue
            if summary is not None and summary.failed and is_new(summary):
                yield Place(_BEATEN, number), summary

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

        What is appended after the first record was asked for is not given. Store by store, where a
        run has shards. Raises RecordCorrupt at a row that is not as it was written.
        """
        stores = self.stores()
        if len(stores) == 1:
            yield from self._own.episodes(accept, superseded=superseded)
        elif superseded:
            for _, summary in self._superseded(stores, {}, None):
                if accept is None or accept(summary):
                    yield _read_best(self._find_attempts(summary.episode_id, exact=True))
        else:
            bounds = self._doubled.update(stores)
            beaten = {name: self._doubled.beaten_in(name) for name in bounds}
            for name, bound in bounds.items():
                yield from stores[name].episodes(_unless(beaten[name], accept), bound)

    def get(self, key: EpisodeKey) -> episode_pb2.Episode | None:
        """Return the record of a key; None = there is none. Raises RecordCorrupt."""
        stores = self.stores()
        if len(stores) == 1:
            return self._own.get(key)
        found = {name: store.candidate(key) for name, store in stores.items()}
        standing = [(it, name) for name, it in found.items() if it is not None]
        return stores[min(standing)[1]].get(key) if standing else None

    def get_by_id(self, prefix: str) -> episode_pb2.Episode:
        """Return the record or superseded attempt whose episode id begins with `prefix`.

        Raises UsageError where there is none or more than one, RecordCorrupt.
        """
        found = self._find_attempts(prefix)
        if len({it.candidate.episode_id for it, _ in found}) > 1:
            raise UsageError(f"more than one episode id begins with {prefix!r}")
        if not found:
            ids = [it for store in self.stores().values() for it in store.some_ids(4)]
            some = [*ids[:3], "..."] if len(ids) > 3 else ids
            raise UsageError(f"no episode id begins with {prefix!r}", valid=some)
        return _read_best(found)

    def _find_attempts(
        self, episode_id: str, *, exact: bool = False
    ) -> list[tuple[FoundAttempt, StoreReader]]:
        return [
            (attempt, store)
            for store in self.stores().values()
            for attempt in store.find_attempts(episode_id, exact=exact)
        ]

    def finished_keys(self) -> set[EpisodeKey]:
        """Return the keys that were played to an end without a failure."""
        return set[EpisodeKey]().union(*(it.finished_keys() for it in self.stores().values()))

    def failed_keys(self) -> dict[EpisodeKey, FailedAttempt]:
        """Return the keys whose latest attempt failed, with that attempt."""
        stores = self.stores()
        finished = self.finished_keys() if len(stores) > 1 else frozenset[EpisodeKey]()
        latest: dict[EpisodeKey, tuple[Candidate, FailedAttempt]] = {}
        for store in stores.values():
            for key, found in store.failed_keys().items():
                if key not in finished and (key not in latest or found[0] < latest[key][0]):
                    latest[key] = found
        return {key: attempt for key, (_, attempt) in latest.items()}

    def verify(self) -> list[str]:
        """Return everything that is wrong with the run, as sentences; empty = it is sound.

        Reads all of it: SQLite's own structure, every checksum, whether each record says what its
        columns say, whether anything is gone, and whether shards contradict each other.
        """
        problems = [
            f"{at}{problem}" for at, store in self._labelled() for problem in store.verify()
        ]
        return problems or self._contradictions()

    def check_rows(self) -> None:
        """Raise RecordCorrupt at the first row whose columns are not as they were written."""
        for store in self.stores().values():
            store.check_rows()

    def loss(self) -> list[str]:
        """Return as sentences whether rows are gone that were stored; empty = none are known to be.

        Runs of an older layout have no tally, and say nothing.
        """
        return [f"{at}{problem}" for at, store in self._labelled() for problem in store.loss()]

    def _labelled(self) -> list[tuple[str, StoreReader]]:
        """Return the stores, each with what stands before a sentence about it."""
        return [
            ("" if name == OWN_STORE else f"{_store_label(name)}: ", store)
            for name, store in self.stores().items()
        ]

    def _contradictions(self) -> list[str]:
        """Return the keys that two stores say were played to an end, each in another way."""
        stores = self.stores()
        if len(stores) == 1:
            return []
        self._doubled.update(stores)
        problems: list[str] = []
        for key, found in self._doubled.candidates.items():
            names = sorted(name for name, candidate in found.items() if not candidate.failed)
            first, *others = [(name, stores[name].get(key)) for name in names] or [("", None)]
            for name, other in others:
                if first[1] is not None and other is not None:
                    differing = play_differences(first[1], other)
                    if differing:
                        problems.append(
                            f"{' '.join(map(str, key))} was played to an end twice, and "
                            f"{_store_label(first[0])} and {_store_label(name)} have other "
                            f"{', '.join(differing)}; {_store_label(self._doubled.standing(key))} "
                            "is read"
                        )
        return problems


def _store_label(name: str) -> str:
    return DATABASE_FILE if name == OWN_STORE else f"{SHARDS_FOLDER}/{name}"


def _unless(
    beaten: Collection[str], accept: Callable[[EpisodeSummary], bool] | None
) -> Callable[[EpisodeSummary], bool] | None:
    """Return what accepts what `accept` does, but for some episode ids."""
    if not beaten:
        return accept
    return lambda it: it.episode_id not in beaten and (accept is None or accept(it))


def _read_best(found: Iterable[tuple[FoundAttempt, StoreReader]]) -> episode_pb2.Episode:
    """Return the one record of an attempt that two stores may have."""
    attempt, store = min(found, key=lambda it: it[0].candidate)
    return store.read_attempt(attempt)


class _Append(NamedTuple):
    """A record on its way to the writer thread."""

    episode: episode_pb2.Episode
    stored: Future[None] | asyncio.Future[None]
    loop: asyncio.AbstractEventLoop | None = None
    """Whose future `stored` is: only that loop's thread may touch it; None = any thread may."""


class RunStore(RunReader):
    """A run that this process writes to. Appends may come from any thread or task."""

    def __init__(self, folder: Path, manifest: Manifest, lock: WriterLock) -> None:
        """Use `RunStore.create`, `RunStore.resume` or `RunStore.open_shard`."""
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

        `run_id`, `created` and `shards` are the recorded ones; what is appended goes into the run's
        own store. Raises RunMismatch, RunNotFound, ForeignFolder, LayoutUnsupported, RunLocked,
        ShardMissing or StoreCorrupt, of shards, too; then nothing was changed.
        """
        check_resumable(inspect_folder(folder), manifest)
        lock = WriterLock(folder)
        try:
            # Read again: until the lock was held, another process could add its session.
            recorded = inspect_folder(folder)
            probe(folder, recorded, thorough=True)
            _check_rows(folder, recorded)
            recorded = recorded.with_session(session).with_shards(shard_names(folder))
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

    @classmethod
    def open_shard(cls, run: Path, name: str, session: Session) -> RunStore:
        """Begin a shard of a run, or go on with it: a store of its own in the run's folder.

        It has the run's id and manifest, and its own writer, tally and sessions; any process may
        write one while others write to the run and to its other shards. It reads what is in itself.
        Readers of the run have its records from now on. Whoever holds the run should name it there
        (`note_shards`), so that its loss is noticed.

        Args:
            run: The run's folder; to be read alone.
            name: Of the shard: letters, digits, dots, dashes and underscores. A process that goes
                on with one that a killed one wrote gives its name again.
            session: This start.

        Raises:
            UsageError: The name is none.
            ForeignShard: The folder has that name and is of another run.
            RunFolderError: The run or the shard is not in order, or another process writes to it.
        """
        folder = shard_folder(run, name)
        of = replace(inspect_folder(run), sessions=(), shards=())
        make_private_folder(folder.parent)
        if not folder.exists():
            return cls.create(folder, of, session)
        inspect_shard(folder, of)
        return cls.resume(folder, of, session)

    def note_shards(self, names: Iterable[str]) -> None:
        """Name shards that were begun in the run's manifest; durable on return.

        After that, a run without them is known to be incomplete.
        """
        noted = self.manifest.with_shards(names)
        if noted != self.manifest:
            write_manifest(self.folder, noted)
            self.manifest = noted

    @classmethod
    def forget_shards(cls, folder: Path, names: Iterable[str]) -> list[str]:
        """Accept that shards are lost: a run's manifest names them no more; returns those.

        What they had is played again by a resume. Shards that are there are not forgotten. Raises
        RunFolderError where the folder is no run or is written to.
        """
        inspect_folder(folder)
        lock = WriterLock(folder)
        try:
            manifest = inspect_folder(folder)
            lost = sorted(set(names) & set(manifest.shards) - set(shard_names(folder)))
            left = tuple(name for name in manifest.shards if name not in lost)
            write_manifest(folder, replace(manifest, shards=left))
        finally:
            lock.release()
        return lost

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
        loop = asyncio.get_running_loop()
        stored = loop.create_future()
        self._put(_Append(episode, stored, loop))
        await stored

    def append_all(self, episodes: Iterable[episode_pb2.Episode]) -> None:
        """Store records from plain code; durable on return; raises the first error of any."""
        for stored in [self.submit(episode) for episode in episodes]:
            stored.result()

    def submit(self, episode: episode_pb2.Episode) -> Future[None]:
        """Hand a record to the writer; the future is done when it is durable.

        Raises InvalidEpisode at once where the record's own fields show it; what only the database
        refuses, DuplicateEpisode and StoreWriteFailed come by the future.
        """
        stored: Future[None] = Future()
        self._put(_Append(episode, stored))
        return stored

    def _put(self, append: _Append) -> None:
        check(append.episode, run_id=self.manifest.run_id)
        with self._gate:
            if self._closed:
                raise StoreWriteFailed(f"{self.folder}: the store was closed")
            self._queue.put(append)

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

_Outcome = tuple[_Append, OrchestratorError | None]


def _answer(outcomes: Sequence[_Outcome]) -> None:
    """Tell those who wait for an append how it went; who was cancelled meanwhile waits no more."""
    for loop in {append.loop for append, _ in outcomes}:
        answered = [(it.stored, failure) for it, failure in outcomes if it.loop is loop]
        if loop is None:
            _resolve(answered)
            continue
        with contextlib.suppress(RuntimeError):  # it was closed: nobody waits there any more
            # All of a batch at once: to wake a loop for each record costs more than to write it.
            loop.call_soon_threadsafe(_resolve, answered)


def _resolve(
    answered: Iterable[tuple[Future[None] | asyncio.Future[None], OrchestratorError | None]],
) -> None:
    for stored, failure in answered:
        given_up = (
            not stored.set_running_or_notify_cancel()
            if isinstance(stored, Future)
            else stored.cancelled()
        )
        if given_up:
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
        for append in batch:
            failure, row_sum = _insert_alone(connection, append.episode)
            outcomes.append((append, failure))
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
        return [(append, failure) for append in batch]
    return outcomes


def _insert_alone(
    connection: sqlite3.Connection, episode: episode_pb2.Episode
) -> tuple[InvalidEpisode | None, bytes | None]:
    """Add a record; return why it cannot be stored, and its checksum where it is a new row.

    Of one that cannot be stored nothing is in the batch.
    """
    try:
        row = _to_row(episode)
        if connection.execute(_INSERT_NEW, (*row, episode.episode_id)).rowcount:
            return None, row[_ROW_SUM]
        return None, _insert_beside(connection, episode, row)
    except DuplicateEpisode as error:
        return error, None
    except _UNSTORABLE as error:
        reason = f"episode {episode.episode_id}: it cannot be stored ({error})"
        return InvalidEpisode(reason), None


def _to_row(episode: episode_pb2.Episode) -> tuple[Any, ...]:
    """Return what `_ROW` names of a record."""
    summary, record = summarise(episode), encode(episode)
    record_sum = record_checksum(record)
    row_sum = row_checksum(episode.run_id, summary, record_sum)
    return (*summary, record_sum, row_sum, record)


_ROW: Final = f"{SUMMARY_SQL}, record_sum, row_sum, record"
_ROW_SUM: Final = -2
_VALUES: Final = ", ".join("?" * (len(SUMMARY) + 3))
_INSERT_NEW: Final = (
    f"INSERT INTO episodes ({_ROW}) SELECT {_VALUES} "
    "WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE episode_id = ?) ON CONFLICT DO NOTHING"
)
"""Adds a row unless its key or its episode id is known: what nearly all records are."""


def _insert_beside(
    connection: sqlite3.Connection, episode: episode_pb2.Episode, row: tuple[Any, ...]
) -> bytes | None:
    """Add a record whose key or id is known: one that failed before moves to `attempts`.

    Returns the checksum of the new row; None = the very record is there already. Raises
    DuplicateEpisode; then nothing was changed.
    """
    key = episode_key(episode)
    found = connection.execute(
        f"SELECT id, attempt, fault, record FROM episodes WHERE {KEY_SQL}", tuple(key)
    ).fetchone()
    if found is None:
        raise DuplicateEpisode(f"episode id {episode.episode_id!r} is taken")
    row_id, attempt, fault, stored = found
    if stored == row[-1]:
        return None
    if fault is None or episode.attempt <= attempt:
        outcome = "finished" if fault is None else f"failed in attempt {attempt}"
        raise DuplicateEpisode(f"{key} has {outcome} already; not stored again")
    connection.execute("SAVEPOINT record")
    try:
        connection.execute(
            f"INSERT INTO attempts ({_ROW}) SELECT {_ROW} FROM episodes WHERE id = ?", (row_id,)
        )
        connection.execute("DELETE FROM episodes WHERE id = ?", (row_id,))
        values = (*row, episode.episode_id)
        if not connection.execute(_INSERT_NEW, values).rowcount:
            raise DuplicateEpisode(f"episode id {episode.episode_id!r} is taken")
    except (DuplicateEpisode, *_UNSTORABLE):
        connection.execute("ROLLBACK TO record")
        connection.execute("RELEASE record")
        raise
    connection.execute("RELEASE record")
    return row[_ROW_SUM]


def _read_tally(connection: sqlite3.Connection) -> Tally:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (TALLY,)).fetchone()
    return Tally.from_text(row[0])


def _write_tally(connection: sqlite3.Connection, tally: Tally) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (TALLY, tally.to_text()))


def _check_rows(folder: Path, manifest: Manifest) -> None:
    """Raise StoreCorrupt where rows are gone or are not as they were written; changes nothing."""
    check_shards(folder, manifest)
    with contextlib.closing(RunReader(folder, manifest)) as reader:
        for store in reader.stores().values():
            # Without the file nobody knows of a loss, or somebody has accepted one.
            if (store.folder / TALLY_FILE).exists() and (lost := store.loss()):
                raise StoreCorrupt(
                    store.folder,
                    f"{lost[0]}; to go on without what was lost, delete {TALLY_FILE}: "
                    "the resume plays it again",
                )
            store.check_rows()


def _prepare_rows(folder: Path, manifest: Manifest) -> None:
    """Give a store without a tally file its tally, and rows of an older layout their checksums."""
    if (folder / TALLY_FILE).exists():
        return
    with contextlib.closing(connect_writing(folder / DATABASE_FILE)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] < CHECKED_LAYOUT:
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
        sql = f"SELECT {SUMMARY_SQL}, record FROM {table} WHERE id = ?"
        *columns, record = connection.execute(sql, (row_id,)).fetchone()
        record_sum = record_checksum(record)
        row_sum = row_checksum(run_id, to_summary(columns), record_sum)
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
