"""Words in what was said in a run's episodes: a full-text index, built when it is first asked for.

It is a database of its own in a cache folder beside the run (`.viewer/` in the folder that holds
the run), never in the run's store: a run folder stays as it was, and whoever deletes the cache
loses nothing. Where the folder cannot be written, `--cache` names another.

Each record is indexed once, by its row: what agents and environments said, and what was thought.
Contentless: the texts themselves stay in the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
import threading
from pathlib import Path
from typing import Final

from agent_runtime.private_files import make_private_folder
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import OrchestratorError, RecordCorrupt, UsageError
from orchestrator.run_folder import database_files, refuse_links
from orchestrator.store import Place, RunReader

__all__ = ["CACHE_FOLDER", "WordIndex", "query_of"]

CACHE_FOLDER: Final = ".viewer"
_LAYOUT_VERSION: Final = 2
_LAYOUT: Final = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
BEGIN;
DROP TABLE IF EXISTS episodes; DROP TABLE IF EXISTS said; DROP TABLE IF EXISTS origin;
CREATE TABLE origin (run_id TEXT NOT NULL);
CREATE TABLE episodes (id INTEGER PRIMARY KEY, store TEXT NOT NULL, source INTEGER NOT NULL,
    episode_id TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE said USING fts5 (text, content = '', tokenize = 'unicode61');
PRAGMA user_version = {_LAYOUT_VERSION};
COMMIT;
"""
_BATCH: Final = 500
"""Episodes in a transaction: as many can be lost by an interruption, and are indexed again."""
_TERM: Final = re.compile(r'"([^"]+)"?|(\S+)')


def query_of(words: str) -> str:
    """Return a full-text query: all of the words, or phrases in quotes; nothing is an operator."""
    terms = [phrase or word for phrase, word in _TERM.findall(words)]
    terms = [term.replace('"', " ") for term in terms if any(sign.isalnum() for sign in term)]
    if not terms:
        raise UsageError(f"{words[:80]!r} has no words to look for")
    return " ".join(f'"{term}"' for term in terms)


class WordIndex:
    """The index of one run. Any thread may ask; a thread of its own builds."""

    def __init__(self, run: Path, run_id: str, cache: Path | None = None) -> None:
        """Open or make the index.

        Raises UsageError where the cache cannot be written, ForeignFolder where it is a link.
        """
        self._run = run
        folder = cache if cache is not None else run.parent / CACHE_FOLDER
        # Folders of one name may share a cache; the digest tells them apart.
        digest = hashlib.sha256(str(run).encode()).hexdigest()[:12]
        self._file = folder / f"{run.name}-{digest}.words.sqlite"
        self._lock = threading.Lock()
        self._building: threading.Thread | None = None
        self._stopping = threading.Event()
        self.problem = ""
        """Why it could not be built to the end."""
        try:
            make_private_folder(folder)
            refuse_links(folder.parent, (), (folder.name,))
            refuse_links(folder, database_files(self._file.name))
            self._connection = sqlite3.connect(
                self._file, isolation_level=None, check_same_thread=False, timeout=60
            )
            self._file.chmod(0o600)
            self._prepare(run_id)
        except (OSError, sqlite3.Error) as error:
            raise UsageError(
                f"words are looked up in an index, which cannot be kept in {folder} ({error}); "
                "start the viewer with --cache FOLDER"
            ) from error

    def close(self) -> None:
        """Stop building, and release the database."""
        self._stopping.set()
        if self._building is not None:
            self._building.join()
        self._connection.close()

    def _prepare(self, run_id: str) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version == _LAYOUT_VERSION:
            of = self._connection.execute("SELECT run_id FROM origin").fetchone()
            if of == (run_id,):
                return
        self._connection.executescript(_LAYOUT)
        self._connection.execute("INSERT INTO origin VALUES (?)", (run_id,))

    def find(self, words: str) -> frozenset[str]:
        """Return the ids of the indexed episodes in which all of the words are."""
        sql = (
            "SELECT episode_id FROM said JOIN episodes ON episodes.id = said.rowid WHERE said MATCH"
        )
        with self._lock:
            rows = self._connection.execute(f"{sql} ?", (query_of(words),)).fetchall()
        return frozenset(row[0] for row in rows)

    def indexed(self) -> int:
        """Return the number of indexed records."""
        with self._lock:
            sql = "SELECT count(*) FROM episodes"
            return int(self._connection.execute(sql).fetchone()[0])

    def build(self) -> None:
        """Index what is not yet, in the background; a second call meanwhile does nothing."""
        with self._lock:
            if self._building is not None and self._building.is_alive():
                return
            self._building = threading.Thread(target=self._build, name="word-index", daemon=True)
            self._building.start()

    def _build(self) -> None:
        try:
            with RunReader.open(self._run) as run:
                self._add_all(run)
        except (OrchestratorError, sqlite3.Error, OSError) as error:
            self.problem = str(error)

    def _add_all(self, run: RunReader) -> None:
        with self._lock:
            sql = "SELECT store, max(source) FROM episodes GROUP BY store"
            first = dict(self._connection.execute(sql).fetchall())
        batch: list[tuple[Place, str, str]] = []
        for place, summary in run.placed_summaries(first, on_damage=lambda error: None):
            if self._stopping.is_set():
                return
            # A damaged record cannot be searched, and the others can.
            with contextlib.suppress(RecordCorrupt):
                episode = run.get(summary.key)
                if episode is not None:
                    batch.append((place, episode.episode_id, _said(episode)))
            if len(batch) >= _BATCH:
                self._add(batch)
                batch = []
        self._add(batch)

    def _add(self, batch: list[tuple[Place, str, str]]) -> None:
        with self._lock:
            self._connection.execute("BEGIN")
            for place, episode_id, text in batch:
                added = self._connection.execute(
                    "INSERT OR IGNORE INTO episodes (store, source, episode_id) VALUES (?, ?, ?)",
                    (*place, episode_id),
                )
                if added.rowcount:
                    self._connection.execute(
                        "INSERT INTO said (rowid, text) VALUES (?, ?)", (added.lastrowid, text)
                    )
            self._connection.execute("COMMIT")


def _said(episode: episode_pb2.Episode) -> str:
    texts = [message.text for message in episode.messages]
    texts += [call.reasoning for call in episode.generations]
    # The observation after the last action is in no message where the episode ended there.
    if episode.steps and episode.steps[-1].observation not in texts[-1:]:
        texts.append(episode.steps[-1].observation)
    return "\n".join(texts)
