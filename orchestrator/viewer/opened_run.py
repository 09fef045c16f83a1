"""One run as the viewer holds it: the columns of all its records, kept up to date while it plays.

A hundred thousand episodes are read once; after that only what was added is. Any thread may ask.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import RecordCorrupt
from orchestrator.manifest import Manifest, read_manifest
from orchestrator.records import EpisodeKey, EpisodeSummary
from orchestrator.report import RunReport, sum_up
from orchestrator.run_folder import DATABASE_FILE, read_writer
from orchestrator.statistics import EnvironmentStatistics, summarise_categories, summarise_run
from orchestrator.store import RunReader
from orchestrator.viewer.selection import Selection, counted_choices, select

__all__ = ["OpenedRun", "RunSummary"]

Derived = TypeVar("Derived")

_LISTS: Final = 4
"""Selections of a run that are kept in their order: a list is read page by page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run came to."""

    records: Sequence[EpisodeSummary]
    """From which the rest was computed."""
    report: RunReport
    categories: Sequence[tuple[str, EnvironmentStatistics]]
    """With the category of each; empty where the run did not record its plan."""


class OpenedRun:
    """A run that is being looked at."""

    def __init__(self, folder: Path) -> None:
        """Open the run. Raises RunFolderError."""
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        self.revision = 0
        """Another number whenever there is something new."""
        self.damage: list[str] = []
        """Rows that are not as they were written."""
        self._inode = _inode(folder)
        self._run = RunReader.open(folder)
        self._lock = threading.RLock()
        self._state: tuple[tuple[int, ...], int | None] | None = None
        self._records: dict[EpisodeKey, EpisodeSummary] = {}
        self._superseded: dict[str, EpisodeSummary] = {}
        self._last_records: dict[str, int] = {}
        """By store, as `RunReader.placed_summaries` takes it."""
        self._next_superseded: dict[str, int] = {}
        self._derived: dict[str, tuple[int, object]] = {}
        self._selected = lru_cache(_LISTS)(self._select)

    def close(self) -> None:
        """Release the database."""
        with self._lock:
            self._run.close()

    @property
    def is_read(self) -> bool:
        """Whether all was read once: before that there is only what `first` gives."""
        return self._state is not None

    def first(self, offset: int, limit: int) -> tuple[int, list[EpisodeSummary]]:
        """Return the number of records, and some rows in their order, while the rest is read."""
        with RunReader.open(self.folder) as run:
            rows = run.summaries(on_damage=lambda error: None)
            return run.count(), list(itertools.islice(rows, offset, offset + limit))

    @property
    def replaced(self) -> bool:
        """Whether the folder holds another database by now."""
        return _inode(self.folder) != self._inode

    def refresh(self) -> None:
        """Read what was added since. Raises StoreCorrupt."""
        with self._lock:
            # Before the rows: what is written meanwhile is noticed the next time.
            state = (self._run.version(), read_writer(self.folder))
            if state == self._state:
                return
            self.manifest = read_manifest(self.folder)
            for (store, row), record in self._run.placed_summaries(
                self._last_records, on_damage=self._note_damage
            ):
                self._records[record.key] = record
                self._last_records[store] = row
            for (store, row), attempt in self._run.placed_summaries(
                self._next_superseded, superseded=True, on_damage=self._note_damage
            ):
                self._superseded[attempt.episode_id] = attempt
                self._next_superseded[store] = row + 1
            self._state = state
            self.revision += 1

    def _note_damage(self, error: RecordCorrupt) -> None:
        if error.problem not in self.damage:
            self.damage.append(error.problem)

    def records(self) -> list[EpisodeSummary]:
        """Return the columns of all records, in the order of their first appending."""
        return self._derive("records", lambda: list(self._records.values()))

    def sum_up(self) -> RunSummary:
        """Compute what the run came to so far; of a large run that takes seconds."""
        with self._lock:
            records, superseded = self.records(), list(self._superseded.values())
        # A connection of its own: others read meanwhile.
        with RunReader.open(self.folder) as run:
            plan = run.plan()
            return RunSummary(
                records=records,
                report=sum_up(run, records, superseded, self.damage),
                categories=summarise_categories(records, plan) if plan is not None else [],
            )

    def counts(self) -> Sequence[EnvironmentStatistics]:
        """Return counts and means, without the intervals, which take long."""
        return self._derive(
            "counts",
            lambda: summarise_run(self.records(), plan=self._run.plan(), intervals=False),
        )

    def choices(self) -> dict[str, dict[str, int]]:
        """Return by what the list of episodes can be narrowed."""
        return self._derive("choices", lambda: counted_choices(self.records()))

    def _derive(self, name: str, compute: Callable[[], Derived]) -> Derived:
        """Return what was computed of this revision, or compute it."""
        with self._lock:
            known = self._derived.get(name)
            if known is None or known[0] != self.revision:
                known = (self.revision, compute())
                self._derived[name] = known
            return known[1]  # type: ignore[return-value]  # a name has one type

    def selected(
        self, wanted: Selection, found: frozenset[str] | None = None
    ) -> Sequence[EpisodeSummary]:
        """Return the selected episodes; `found` are those with the words, None = all."""
        with self._lock:
            return self._selected(self.revision, wanted, found)

    def _select(
        self, revision: int, wanted: Selection, found: frozenset[str] | None
    ) -> Sequence[EpisodeSummary]:
        """Select; `revision` is part of the cache's key alone."""
        return tuple(select(self.records(), wanted, found))

    def attempts(self, key: EpisodeKey) -> list[EpisodeSummary]:
        """Return the attempts at a key, the first one first, the record last."""
        with self._lock:
            earlier = [it for it in self._superseded.values() if it.key == key]
            record = self._records.get(key)
        return sorted(earlier, key=lambda it: it.attempt) + ([record] if record else [])

    def episode(self, episode_id: str) -> episode_pb2.Episode:
        """Return a record or a superseded attempt. Raises UsageError or RecordCorrupt."""
        with self._lock:
            return self._run.get_by_id(episode_id)


def _inode(folder: Path) -> int:
    return (folder / DATABASE_FILE).stat().st_ino
