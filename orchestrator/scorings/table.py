"""The database of one scoring: a row for each try to judge an episode, and what judged.

    RUN/scores/NAME/scores.sqlite    settings, sessions, rows (with -wal and -shm while in use)
    RUN/scores/NAME/writer.lock      held by the one process that judges

Rows are only added; of an episode the row with the highest attempt counts. A row is durable when
`add` returns, carries a checksum, and names the digest of the record that it judged. A scoring
appears whole or not at all, and goes on only with the settings that it was begun with.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import zstandard

from agent_runtime.private_files import PRIVATE_FILE, PRIVATE_FOLDER
from agent_runtime.redaction import Json
from orchestrator import configuration
from orchestrator.checksums import as_stored
from orchestrator.databases import (
    UNREADABLE,
    connect_reading,
    connect_writing,
    has_wal,
    refuse_programs,
)
from orchestrator.errors import ScoringMismatch, StoreCorrupt, StoreWriteFailed, UsageError
from orchestrator.manifest import Session
from orchestrator.run_folder import (
    LOCK_FILE,
    SCORES_FOLDER,
    WriterLock,
    database_files,
    refuse_links,
)
from orchestrator.store import RunReader

__all__ = [
    "SCORES_FILE",
    "EpisodeScore",
    "ScoresReader",
    "ScoresWriter",
    "Verdict",
    "check_scoring_name",
    "scoring_names",
]

SCORES_FILE: Final = "scores.sqlite"
_APPLICATION_ID: Final = 0x41475343
"""`AGSC`, in the header of every database of scores."""
_LAYOUT_VERSION: Final = 1
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.=-]{0,79}", re.ASCII)
_LARGEST_DETAIL: Final = 1 << 28
"""Bytes; the header of a damaged frame may claim any size."""
_LAYOUT: Final = f"""
PRAGMA journal_mode = WAL;
BEGIN;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_LAYOUT_VERSION};
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE scores (
    id INTEGER PRIMARY KEY,
    episode_id TEXT NOT NULL, attempt INTEGER NOT NULL, record_digest BLOB NOT NULL,
    environment TEXT NOT NULL, item_id TEXT NOT NULL, sample INTEGER NOT NULL,
    policy TEXT NOT NULL,
    score REAL, success INTEGER, reason TEXT, final INTEGER NOT NULL, message TEXT NOT NULL,
    calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cost_usd REAL,
    detail_sum BLOB NOT NULL, row_sum BLOB NOT NULL, detail BLOB NOT NULL,
    UNIQUE (episode_id, attempt));
COMMIT;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a scorer says of one episode: a score, or why there is none."""

    score: float | None = None
    success: bool | None = None
    reason: str | None = None
    """Why there is no score, in capitals; None = there is one."""
    final: bool = True
    """Another try would say the same; False = a later call tries again."""
    message: str = ""
    calls: int = 0
    """Questions that were put to a judge."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    """None = unknown."""
    detail: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the scorer keeps of how it came to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeScore:
    """One row without its detail: a try to judge an episode."""

    episode_id: str
    attempt: int
    """Counts the tries of this scoring, from 1."""
    record_digest: bytes
    """Of the record that was judged."""
    environment: str
    item_id: str
    sample: int
    policy: str
    score: float | None
    success: bool | None
    reason: str | None
    final: bool
    message: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None

    @property
    def scored(self) -> bool:
        """Whether there is a score."""
        return self.reason is None


_COLUMNS: Final = tuple(entry.name for entry in dataclasses.fields(EpisodeScore))
_COLUMNS_SQL: Final = ", ".join(_COLUMNS)


def check_scoring_name(name: str) -> None:
    """Raise UsageError for a name that is none."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a scoring: letters, digits, and . _ - = between them"
        )


def scoring_names(run: Path) -> list[str]:
    """Return the names of a run's scorings, sorted."""
    folder = run / SCORES_FOLDER
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if _NAME.fullmatch(entry.name) and (entry / SCORES_FILE).is_file()
    )


class ScoresReader:
    """The rows of a scoring. Use it from one thread at a time."""

    def __init__(self, folder: Path, run_id: str) -> None:
        """Use `ScoresReader.open`."""
        self.folder = folder
        self.name = folder.name
        self._run_id = run_id
        self._reading = connect_reading(folder / SCORES_FILE)
        self.settings: Mapping[str, Json] = self._meta("settings")
        """What judges: everything in it binds whoever goes on."""

    @classmethod
    def open(cls, run: RunReader, name: str) -> ScoresReader:
        """Open a scoring of a run; raises UsageError, ForeignFolder or StoreCorrupt."""
        if name not in scoring_names(run.folder):
            names = scoring_names(run.folder)
            raise UsageError(f"the run has no scoring {name!r}", valid=names or ("none yet",))
        folder = run.folder / SCORES_FOLDER / name
        _probe(folder, run.manifest.run_id)
        return ScoresReader(folder, run.manifest.run_id)

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
        """Release the database."""
        self._reading.close()

    @property
    def environments(self) -> frozenset[str]:
        """The environments whose episodes are judged."""
        named = self.settings.get("environments")
        return frozenset(map(str, named)) if isinstance(named, list) else frozenset()

    def sessions(self) -> list[Mapping[str, Json]]:
        """Return every start of the scoring: when, by which code and command."""
        return self._meta("sessions")

    def latest(self) -> dict[str, EpisodeScore]:
        """Return the row that counts of each episode, by episode id; raises StoreCorrupt."""
        return {score.episode_id: score for score in self.rows()}

    def rows(self) -> Iterator[EpisodeScore]:
        """Yield all rows, of one episode in the order of attempts; raises StoreCorrupt."""
        sql = f"SELECT {_COLUMNS_SQL}, detail_sum, row_sum FROM scores ORDER BY episode_id, attempt"
        for row in self._rows(sql):
            yield self._checked(row)

    def detail(self, score: EpisodeScore) -> Mapping[str, Any]:
        """Return what the scorer kept of a row; raises StoreCorrupt."""
        sql = "SELECT detail_sum, detail FROM scores WHERE episode_id = ? AND attempt = ?"
        ((detail_sum, detail),) = self._rows(sql, (score.episode_id, score.attempt))
        try:
            if detail_sum != _sum(detail):
                raise ValueError("it is not the one that was written")
            return json.loads(zstandard.decompress(detail, max_output_size=_LARGEST_DETAIL))
        except (ValueError, TypeError, zstandard.ZstdError, RecursionError) as error:
            raise self._corrupt(score.episode_id, f"its detail is damaged ({error})") from error

    def verify(self) -> list[str]:
        """Return everything that is wrong with the database, as sentences; empty = it is sound."""
        try:
            checked = self._rows("PRAGMA integrity_check")
            problems = [str(row[0]) for row in checked if row[0] != "ok"]
            for score in self.rows():
                self.detail(score)
        except StoreCorrupt as error:
            return [error.problem]
        return problems

    def _checked(self, row: Sequence[Any]) -> EpisodeScore:
        values = dict(zip(_COLUMNS, row, strict=False))
        try:
            for name in ("success", "final"):
                values[name] = None if values[name] is None else bool(values[name])
            score = EpisodeScore(**values)
            fits = row[-1] == _row_sum(self._run_id, score, row[-2])
        except TypeError as error:
            raise self._corrupt(str(row[0]), f"it cannot be read ({error})") from error
        if not fits:
            raise self._corrupt(score.episode_id, "it is not as it was written for this run")
        return score

    def _corrupt(self, episode_id: str, problem: str) -> StoreCorrupt:
        return StoreCorrupt(self.folder, f"the score of episode {episode_id}: {problem}")

    def _meta(self, name: str) -> Any:
        ((text,),) = self._rows("SELECT value FROM meta WHERE name = ?", (name,)) or [("",)]
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StoreCorrupt(self.folder, f"its {name} cannot be read ({error})") from error

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._reading.execute(sql, values).fetchall()
        except UNREADABLE as error:
            raise StoreCorrupt(self.folder, f"{SCORES_FILE} cannot be read ({error})") from error


class ScoresWriter(ScoresReader):
    """A scoring that this process adds to; `add` may be called from any thread."""

    def __init__(self, folder: Path, run_id: str, lock: WriterLock) -> None:
        """Use `ScoresWriter.begin`."""
        super().__init__(folder, run_id)
        self._lock = lock
        self._writing = connect_writing(folder / SCORES_FILE)
        # A thread may still commit when its awaiter was cancelled and closes the scoring.
        self._gate = threading.Lock()

    @classmethod
    def begin(
        cls, run: RunReader, name: str, settings: Mapping[str, Json], session: Session
    ) -> ScoresWriter:
        """Begin a scoring, or go on with the one of that name.

        Raises UsageError, ScoringMismatch, RunLocked, ForeignFolder or StoreCorrupt; then nothing
        was changed.
        """
        check_scoring_name(name)
        folder = run.folder / SCORES_FOLDER / name
        run_id = run.manifest.run_id
        refuse_links(run.folder, (), (SCORES_FOLDER, f"{SCORES_FOLDER}/{name}"))
        if not (folder / SCORES_FILE).exists():
            _create(folder, run_id, settings)
        _probe(folder, run_id)
        lock = WriterLock(folder)
        try:
            lock.sign()
            writer = cls(folder, run_id, lock)
        except BaseException:
            lock.release()
            raise
        try:
            writer.check(settings)
            writer.note_session(session)
        except BaseException:
            writer.close()
            raise
        return writer

    def check(self, settings: Mapping[str, Json]) -> None:
        """Raise ScoringMismatch where these are not the settings of this scoring."""
        changes = configuration.differences(self.settings, settings, absent_is_off=True)
        if changes:
            raise ScoringMismatch(self.name, changes)

    def note_session(self, session: Session) -> None:
        """Note that the scoring was started once more."""
        sessions = [*self.sessions(), dataclasses.asdict(session)]
        with self._transaction():
            self._writing.execute(
                "UPDATE meta SET value = ? WHERE name = 'sessions'", (json.dumps(sessions),)
            )

    def add(self, rows: Sequence[tuple[EpisodeScore, Mapping[str, Json]]]) -> None:
        """Add rows with their details; durable on return. Raises StoreWriteFailed."""
        with self._transaction():
            for score, detail in rows:
                packed = zstandard.compress(json.dumps(detail, ensure_ascii=False).encode())
                detail_sum = _sum(packed)
                row_sum = _row_sum(self._run_id, score, detail_sum)
                values = (getattr(score, name) for name in _COLUMNS)
                self._writing.execute(
                    f"INSERT INTO scores ({_COLUMNS_SQL}, detail_sum, row_sum, detail) "
                    f"VALUES ({', '.join('?' * (len(_COLUMNS) + 3))})",
                    (*values, detail_sum, row_sum, packed),
                )

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        with self._gate:
            try:
                self._writing.execute("BEGIN IMMEDIATE")
                yield
                self._writing.execute("COMMIT")
            except sqlite3.Error as error:
                with contextlib.suppress(sqlite3.Error):
                    self._writing.execute("ROLLBACK")
                raise StoreWriteFailed(
                    f"{self.folder}: scores were not stored ({error}); all that was stored before "
                    "is safe: make room or mend the disk, then call again"
                ) from error

    def close(self) -> None:
        """Give the scoring up; calling it again changes nothing."""
        super().close()
        with self._gate:
            self._writing.close()
        self._lock.release()


def _sum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _row_sum(run_id: str, score: EpisodeScore, detail_sum: bytes) -> bytes:
    """Return the checksum of a row: its columns, the run that it belongs to, its detail's sum."""
    values = (run_id, *(as_stored(getattr(score, name)) for name in _COLUMNS))
    return _sum(repr(values).encode("utf-8", "surrogatepass") + detail_sum)


def _create(folder: Path, run_id: str, settings: Mapping[str, Json]) -> None:
    """Make the folder of a scoring, complete or not at all."""
    folder.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    staging = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.creating"
    staging.mkdir(mode=PRIVATE_FOLDER)
    try:
        for name in (SCORES_FILE, LOCK_FILE):  # SQLite's own side files get the database's mode
            (staging / name).touch(mode=PRIVATE_FILE)
        with contextlib.closing(connect_writing(staging / SCORES_FILE)) as connection:
            connection.executescript(_LAYOUT)
            meta = {"run_id": json.dumps(run_id), "settings": json.dumps(settings)}
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)", (meta | {"sessions": "[]"}).items()
            )
        try:
            staging.rename(folder)
        except OSError:
            if not (folder / SCORES_FILE).exists():  # else another process was first
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _probe(folder: Path, run_id: str) -> None:
    """Raise ForeignFolder or StoreCorrupt where a database is not that of a run's scoring."""
    refuse_links(folder.parent.parent, (), (SCORES_FOLDER, f"{SCORES_FOLDER}/{folder.name}"))
    refuse_links(folder, (LOCK_FILE, *database_files(SCORES_FILE)))
    database = folder / SCORES_FILE
    with contextlib.closing(connect_reading(database, immutable=not has_wal(database))) as reading:
        try:
            refuse_programs(reading, database)
            marks = [
                reading.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            ]
            if marks != [_APPLICATION_ID, _LAYOUT_VERSION]:
                raise StoreCorrupt(folder, f"{SCORES_FILE} has another layout than this program's")
            row = reading.execute("SELECT value FROM meta WHERE name = 'run_id'").fetchone()
        except UNREADABLE as error:
            raise StoreCorrupt(folder, f"{SCORES_FILE} is damaged ({error})") from error
    if row is None or row[0] != json.dumps(run_id):
        raise StoreCorrupt(folder, f"{SCORES_FILE} belongs to another run")
