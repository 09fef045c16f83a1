"""The runs and trainings below the given folders, and what the list says of each run.

A run is named by its folder's path below the given one, that folder's own name included:
`runs/first`. Names are looked up among the runs that were found; no part of an address ever becomes
a path. Links to other folders are not followed.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from orchestrator.checksums import TALLY_FILE
from orchestrator.errors import OrchestratorError, RunNotFound
from orchestrator.manifest import MANIFEST_FILE, read_manifest
from orchestrator.played_runs import played_folders
from orchestrator.run_folder import (
    DATABASE_FILE,
    LOCK_FILE,
    database_files,
    read_writer,
    shard_folder,
    shard_names,
)
from orchestrator.run_list import RunEntry, describe_run, find_runs
from orchestrator.training_folder import find_trainings
from orchestrator.viewer.background import Background
from orchestrator.viewer.opened_run import OpenedRun

__all__ = ["Library", "RunLine", "stamp_of", "state_of_files"]

_OPEN: Final = 4
"""Runs whose columns stay in memory."""
_LOOK_AGAIN: Final = 2.0
"""Seconds for which the folders are taken for what they were."""
_LOOK_FOR_ONE: Final = 0.2
"""The same where a run is asked for that was not among them."""
_FILES: Final = (MANIFEST_FILE, LOCK_FILE, TALLY_FILE, *database_files(DATABASE_FILE)[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run in the list."""

    run: str
    """Its name in addresses."""
    entry: RunEntry | None
    """None = it is still being summed up."""


class Library:
    """The runs that may be looked at. Any thread may ask."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Look below `roots`, which are runs or hold runs. Raises RunNotFound for no folder."""
        for root in roots:
            if not root.is_dir():
                raise RunNotFound(root)
        self._roots = _named(roots)
        self._lock = threading.Lock()
        self._found: dict[str, Path] = {}
        self._trainings: dict[str, Path] = {}
        self._looked = -_LOOK_AGAIN
        self._opened: OrderedDict[str, OpenedRun] = OrderedDict()
        self._entries: Background[RunEntry] = Background("run-list")
        self._run_ids: dict[Path, str] = {}
        self._reading: Background[None] = Background("run-reading", kept=_OPEN)

    def close(self) -> None:
        """Release all databases."""
        self._entries.close()
        self._reading.close()
        with self._lock:
            for run in self._opened.values():
                run.close()
            self._opened.clear()

    def folders(self) -> Mapping[str, Path]:
        """Return the run folders by name, as they are now or were two seconds ago."""
        with self._lock:
            self._look()
            return self._found

    def trainings(self) -> Mapping[str, Path]:
        """Return the folders of trainings by name, likewise."""
        with self._lock:
            self._look()
            return self._trainings

    def training_of(self, name: str) -> str | None:
        """Return the training in whose folder a run, or a training, lies; None = there is none."""
        trainings = self.trainings()
        return next((it for it in map(str, PurePosixPath(name).parents) if it in trainings), None)

    def _look(self, *, age: float = _LOOK_AGAIN) -> None:
        now = time.monotonic()
        if now - self._looked >= age:
            self._found = dict(_below(self._roots, find_runs)) | dict(_played(self._roots))
            self._trainings = dict(_below(self._roots, find_trainings))
            self._looked = now

    def name_of(self, folder: Path, *, again: bool = False) -> str | None:
        """Return the name of a run's folder; None = it is none of these.

        `again`: look at the folders now, for the run may have been made this moment.
        """
        if again:
            with self._lock:
                self._looked = -_LOOK_AGAIN
        return next((name for name, it in self.folders().items() if it == folder), None)

    def name_by_id(self, run_id: str) -> str | None:
        """Return the name of the run with an id; None = it is none of these."""
        for name, folder in self.folders().items():
            with suppress(OrchestratorError):  # a run that cannot be read has no episodes to show
                if folder not in self._run_ids:
                    self._run_ids[folder] = read_manifest(folder).run_id
                if self._run_ids[folder] == run_id:
                    return name
        return None

    def open(self, name: str, *, patience: float | None = None) -> OpenedRun:
        """Return a run, up to date. Raises RunFolderError.

        With `patience`, one that is read for the first time may come unread after so many seconds:
        `OpenedRun.is_read` tells, and reading goes on.
        """
        folders = self.folders()
        if name not in folders:  # it may have been made since
            with self._lock:
                self._look(age=_LOOK_FOR_ONE)
                folders = self._found
        if name not in folders:
            raise RunNotFound(Path(name), valid=list(folders)[:5])
        with self._lock:
            opened = self._opened.get(name)
            if opened is not None and opened.replaced:
                del self._opened[name]
                opened = None
            if opened is None:
                opened = OpenedRun(folders[name])
                self._opened[name] = opened
            self._opened.move_to_end(name)
            # One that is let go is closed when nobody uses it any more.
            while len(self._opened) > _OPEN:
                self._opened.popitem(last=False)
        if patience is not None and not opened.is_read:
            reading = self._reading.ask(name, id(opened), opened.refresh)
            wait([reading], timeout=patience)
            if not reading.done():
                return opened
        opened.refresh()
        return opened

    def lines(self, *, patience: float) -> list[RunLine]:
        """Return a line for each run; those that take longer than `patience` seconds wait."""
        pending = {
            name: self._entries.ask(name, state_of_files(folder), partial(describe_run, folder))
            for name, folder in self.folders().items()
        }
        wait(pending.values(), timeout=patience)
        return [
            RunLine(run=name, entry=entry.result() if entry.done() else None)
            for name, entry in pending.items()
        ]


def _named(roots: Iterable[Path]) -> dict[str, Path]:
    """Return the roots by their own names, numbered where two have the same."""
    named: dict[str, Path] = {}
    for root in roots:
        folder = root.resolve()
        if folder in named.values():
            continue
        name, number = folder.name or "runs", 1
        while name in named:
            number += 1
            name = f"{folder.name}~{number}"
        named[name] = folder
    return named


def _below(
    roots: Mapping[str, Path], find: Callable[[Iterable[Path]], Iterable[Path]]
) -> Iterator[tuple[str, Path]]:
    for name, root in roots.items():
        for folder in find([root]):
            yield "/".join((name, *folder.relative_to(root).parts)), folder


def _played(roots: Mapping[str, Path]) -> Iterator[tuple[str, Path]]:
    """Yield what was played on from roots that are runs: it lies beside them, not below."""
    for root in roots.values():
        if (root / MANIFEST_FILE).is_file():
            with suppress(OrchestratorError):  # the list says what is wrong with the root
                yield from ((folder.name, folder) for folder in played_folders(root))


def state_of_files(folder: Path) -> object:
    """Return what differs whenever somebody wrote to a run, or stopped to."""
    stores = [folder, *(shard_folder(folder, name) for name in shard_names(folder))]
    return [read_writer(folder), *(stamp_of(it / file) for it in stores for file in _FILES)]


def stamp_of(file: Path) -> object:
    """Return what is another value whenever somebody wrote to a file; None = there is none."""
    with suppress(OSError):
        status = file.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None
