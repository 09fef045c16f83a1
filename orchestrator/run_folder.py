"""The folder of a run: where its parts are, who may write, whether it is ours.

    runs/<name>/manifest.json       orchestrator.manifest
    runs/<name>/episodes.sqlite     orchestrator.store (with -wal and -shm beside it while in use)
    runs/<name>/episodes.tally      orchestrator.checksums
    runs/<name>/writer.lock         held by the one writing process, which it names
    runs/<name>/live.sock           orchestrator.broadcast, while the run is played
    runs/<name>/logs/               orchestrator.run_logs
    runs/<name>/scores/             orchestrator.scorings
    runs/<name>/shards/<shard>/     what other processes record of the run: manifest, database,
                                    tally and lock of their own, as above

A run folder appears complete or not at all, is its owner's alone, and looking at one never changes
it. POSIX only (flock).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Final

from agent_runtime.private_files import PRIVATE_FILE, PRIVATE_FOLDER
from orchestrator.atomic_file import sync_folder
from orchestrator.errors import (
    ForeignFolder,
    ForeignShard,
    LayoutUnsupported,
    RunExists,
    RunLocked,
    RunNotFound,
    ShardMissing,
    StoreCorrupt,
    UsageError,
)
from orchestrator.manifest import MANIFEST_FILE, Manifest, read_manifest, write_manifest

__all__ = [
    "APPLICATION_ID",
    "DATABASE_FILE",
    "DATABASE_LAYOUT",
    "LOCK_FILE",
    "LOGS_FOLDER",
    "SCORES_FOLDER",
    "SHARDS_FOLDER",
    "WriterLock",
    "check_free",
    "check_shards",
    "create_folder",
    "database_files",
    "find_run",
    "inspect_folder",
    "inspect_shard",
    "is_url",
    "is_written",
    "read_writer",
    "refuse_links",
    "run_names",
    "shard_folder",
    "shard_names",
    "staged_folder",
]

DATABASE_FILE: Final = "episodes.sqlite"
LOCK_FILE: Final = "writer.lock"
LOGS_FOLDER: Final = "logs"
SCORES_FOLDER: Final = "scores"
SHARDS_FOLDER: Final = "shards"
_SHARD_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
APPLICATION_ID: Final = 0x4147594D
"""`AGYM`, in the header of every database that this program makes."""
DATABASE_LAYOUT: Final = 2
"""SQLite's user_version: the layout of the tables. 1 = rows without checksums."""
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100


def run_names(root: Path) -> list[str]:
    """Return the names of the runs in a folder of runs, sorted."""
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / MANIFEST_FILE).is_file())


def is_url(name: str) -> bool:
    """Tell whether a run is given by a URL: it is not on this machine's file systems."""
    return "://" in name


def find_run(name: str, root: Path = Path("runs")) -> Path:
    """Return the folder of a run given by path, or by its name within `root`.

    Raises RunNotFound, which names the runs of `root`, and UsageError for a URL: what is on object
    storage is only read (`orchestrator.object_storage.locate_run`).
    """
    if is_url(name):
        raise UsageError(
            f"{name} is on object storage, where nothing is played or judged: copy it first, "
            "python -m orchestrator.fetch URL RUN"
        )
    for folder in (Path(name), root / name):
        if folder.is_dir():
            return folder
    raise RunNotFound(Path(name), valid=run_names(root))


def inspect_folder(folder: Path) -> Manifest:
    """Return the manifest of a folder whose manifest and database header are in order.

    Reads two files and changes nothing. Raises RunNotFound, ForeignFolder, LayoutUnsupported or
    StoreCorrupt.
    """
    _refuse_links(folder)
    manifest = read_manifest(folder)
    database = folder / DATABASE_FILE
    if not database.is_file():
        raise StoreCorrupt(folder, f"{DATABASE_FILE} is missing")
    with database.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreCorrupt(folder, f"{DATABASE_FILE} is no SQLite database")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignFolder(folder, f"{DATABASE_FILE} is another program's database")
    layout = int.from_bytes(header[60:64], "big")
    if layout > DATABASE_LAYOUT:
        raise LayoutUnsupported(
            folder, f"{DATABASE_FILE} has layout {layout}, this program reads {DATABASE_LAYOUT}"
        )
    return manifest


def shard_folder(run: Path, name: str) -> Path:
    """Return the folder of a run's shard; raises UsageError for what is no shard's name."""
    if not _SHARD_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no shard's name: letters, digits, dots, dashes and underscores, at most "
            "100, a letter or digit first"
        )
    return run / SHARDS_FOLDER / name


def shard_names(run: Path) -> list[str]:
    """Return the names of the shards that are in a run's folder, sorted.

    A shard that is being made has a hidden name until it is complete.
    """
    try:
        # Asked at each look-up of a record: a Path of its own would take longer than the answer.
        with os.scandir(f"{run}/{SHARDS_FOLDER}") as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise ForeignFolder(run, f"{SHARDS_FOLDER} is no folder") from error
    return sorted(name for name in names if _SHARD_NAME.fullmatch(name))


def check_shards(run: Path, manifest: Manifest) -> None:
    """Raise ShardMissing where a shard is not there that the run's manifest names."""
    missing = set(manifest.shards).difference(shard_names(run)) if manifest.shards else None
    if missing:
        raise ShardMissing(run, sorted(missing))


def inspect_shard(folder: Path, run: Manifest) -> Manifest:
    """Return the manifest of a run's shard, which is in order.

    Raises ForeignShard where it is another run's, and what `inspect_folder` raises.
    """
    refuse_links(folder.parent, (), (folder.name,))
    manifest = inspect_folder(folder)
    if manifest.run_id != run.run_id:
        raise ForeignShard(folder, run_id=manifest.run_id, wanted=run.run_id)
    return manifest


def refuse_links(folder: Path, files: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Raise ForeignFolder where a part of a folder is elsewhere, or is no file or folder.

    A resume writes to these parts: in a stranger's folder they could be links to anything.
    """
    parts = [(folder / name, stat.S_ISREG) for name in files]
    parts += [(folder / name, stat.S_ISDIR) for name in folders]
    for path, is_right in parts:
        if os.path.lexists(path) and not is_right(path.lstat().st_mode):
            kind = "a link" if path.is_symlink() else "of another kind"
            raise ForeignFolder(
                folder, f"{path.relative_to(folder)} is {kind}: a run's files are in its folder"
            )


def _refuse_links(folder: Path) -> None:
    files = [MANIFEST_FILE, LOCK_FILE, *database_files(DATABASE_FILE)]
    refuse_links(folder, files, (LOGS_FOLDER, SCORES_FOLDER, SHARDS_FOLDER))
    if (folder / LOGS_FOLDER).is_dir():
        refuse_links(
            folder, (f"{LOGS_FOLDER}/{it.name}" for it in (folder / LOGS_FOLDER).iterdir())
        )


def database_files(name: str) -> tuple[str, ...]:
    """Return the names of a database's files: its own and those of SQLite beside it."""
    return (name, *(f"{name}-{suffix}" for suffix in ("wal", "shm", "journal")))


def create_folder(folder: Path, manifest: Manifest, make_database: Callable[[Path], None]) -> None:
    """Make a run folder, complete or not at all.

    `make_database` fills the empty file at the path it is given and closes it. Raises RunExists or
    ForeignFolder where the folder is there and not empty.
    """
    with staged_folder(folder) as staging:
        for name in (DATABASE_FILE, LOCK_FILE):  # SQLite's own side files get the database's mode
            (staging / name).touch(mode=PRIVATE_FILE)
        make_database(staging / DATABASE_FILE)
        write_manifest(staging, manifest)


@contextlib.contextmanager
def staged_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder beside `folder`; it becomes `folder` when the block ends without error.

    Raises RunExists or ForeignFolder where `folder` is there and not empty. After an error nothing
    is left.
    """
    _refuse_occupied(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.creating"
    staging.mkdir(mode=PRIVATE_FOLDER)
    try:
        yield staging
        sync_folder(staging)
        try:
            # Replaces an empty folder, fails on one that another process filled meanwhile.
            staging.rename(folder)
        except OSError:
            _refuse_occupied(folder)
            raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _refuse_occupied(folder: Path) -> None:
    if folder.is_dir():
        if not any(folder.iterdir()):
            return
        if (folder / MANIFEST_FILE).is_file():
            read_manifest(folder)
            raise RunExists(folder)
        raise ForeignFolder(folder, "the folder holds other files")
    if folder.exists() or folder.is_symlink():
        raise ForeignFolder(folder, "this is a file")


class WriterLock:
    """The right to write to a run: held by one process, given up when it ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock, or raise RunLocked with the pid of its holder. Changes no content."""
        self._folder = folder
        # flock, and not a file that says who writes: the kernel gives it up when the process ends,
        # also by SIGKILL, so that a killed run can be resumed at once. The file stays: deleting it
        # would let two processes lock two different files of one name.
        self._descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._read_holder()
            os.close(self._descriptor)
            pid = holder.get("pid")
            raise RunLocked(
                folder,
                pid=pid if isinstance(pid, int) else None,
                host=str(holder.get("host", "this machine")),
            ) from None

    def sign(self) -> None:
        """Write into the lock file who holds it."""
        holder = json.dumps({"pid": os.getpid(), "host": platform.node()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, holder, 0)

    def release(self) -> None:
        """Give the lock up; calling it again changes nothing."""
        if self._descriptor < 0:
            return
        # Emptied before it is released: after that, it is another process's to sign.
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1

    def _read_holder(self) -> dict[str, Any]:
        return _read_signature(os.pread(self._descriptor, 4096, 0))


def is_written(folder: Path) -> bool:
    """Whether some process writes to a run or a shard, as its lock says; takes it for a moment.

    For whoever waits for a writer that is to end: one that begins meanwhile might be refused.
    """
    try:
        WriterLock(folder).release()
    except RunLocked:
        return True
    return False


def check_free(folder: Path, *, resume: bool) -> None:
    """Raise what beginning a run in a folder, or going on with one, would raise: before any work.

    For whoever starts servers first, which takes a while. Raises RunLocked, which names who writes
    there, RunExists or ForeignFolder.
    """
    if (folder / MANIFEST_FILE).is_file():
        WriterLock(folder).release()
    if not resume:
        _refuse_occupied(folder)


def read_writer(folder: Path) -> int | None:
    """Return the process that writes to a run now; None = nobody on this machine does.

    Asks by the signature and not by the lock: whoever tries a lock holds it for a moment, and a
    resume would be refused in that moment.
    """
    try:
        holder = _read_signature((folder / LOCK_FILE).read_bytes())
        pid = holder.get("pid")
        if not isinstance(pid, int) or holder.get("host") != platform.node():
            return None
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return None
    return pid


def _read_signature(content: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError):
        return {}
