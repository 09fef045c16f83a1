"""Runs on object storage: put there store by store, and read through a copy in a cache.

    URL/store.json                  the run's own store: its files, by name, size and SHA-256
    URL/<sha256>-episodes.sqlite    its files, never changed
    URL/shards/NAME/...             the same of each shard

A store is put as a snapshot, its files before the `store.json` that names them: whoever reads
meanwhile has the one before, and whatever is interrupted leaves it. Shards are put independently of
each other, from any machine. Readers download what the cache does not have and read that as any
run; the copy is of one moment, and nothing that is written to it goes back.

Any URL that fsspec opens: s3://, gs://, az:// (by obstore), file://, memory://. Credentials are
those of the environment.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from agent_runtime.private_files import make_private_folder
from orchestrator.checksums import TALLY_FILE
from orchestrator.databases import connect_reading
from orchestrator.errors import (
    BucketMissing,
    CredentialsRefused,
    ExtraMissing,
    ObjectStorageError,
    RemoteRunNotFound,
    RunFolderError,
    UsageError,
)
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.run_folder import (
    DATABASE_FILE,
    SHARDS_FOLDER,
    find_run,
    is_url,
    shard_folder,
    staged_folder,
)
from orchestrator.store import OWN_STORE, RunReader

__all__ = ["PutStore", "fetch_run", "locate_run", "put_run", "runs_cache"]

_STORE_FILE: Final = "store.json"
_STORE_SCHEMA: Final = 1
_FILES: Final = (MANIFEST_FILE, DATABASE_FILE, TALLY_FILE)
_BY_OBSTORE: Final = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
_NO_CREDENTIALS: Final = ("169.254.169.254", "metadata.google.internal", "metadata/identity")
_OPTIONS: Final[Mapping[str, Any]] = {"retry_config": {"max_retries": 5}}


class _RemoteFile(msgspec.Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    size: int


class _RemoteStore(msgspec.Struct, frozen=True):
    """What `store.json` says."""

    schema_version: int
    run_id: str
    files: dict[str, _RemoteFile]


@dataclass(frozen=True, slots=True)
class PutStore:
    """A store that was put, or was there already."""

    name: str
    """Of the shard; empty = the run's own store."""
    sent: int
    """Bytes; 0 = it was there as it is."""
    size: int
    """Bytes that it has there."""


def locate_run(name: str, root: Path = Path("runs")) -> Path:
    """Return the folder of a run that is to be read, given by path, name or URL.

    Of a URL it is a copy in the cache. Raises what `find_run` and `fetch_run` raise.
    """
    return fetch_run(name) if is_url(name) else find_run(name, root)


def runs_cache() -> Path:
    """Return the folder that keeps copies of runs; whoever deletes it loses nothing."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "agentgym" / "runs"


def put_run(run: Path, url: str) -> list[PutStore]:
    """Put a run's stores where they are not, or not as they are now; the run's own one last.

    Each is put as of one moment, also while it is written to. Scorings and logs stay here.

    Raises RunFolderError, ObjectStorageError, or UsageError where another run is at the URL.
    """
    there = _Location.of(url)
    with RunReader.open(run) as reader:
        run_id = reader.manifest.run_id
        names = [name for name in reader.stores() if name != OWN_STORE]
    places = [(name, shard_folder(run, name), there / SHARDS_FOLDER / name) for name in names]
    places.append((OWN_STORE, run, there))
    before = {name: at.read_store() for name, _, at in places}
    for found in filter(None, before.values()):
        if found.run_id != run_id:
            raise UsageError(f"{url} has run {found.run_id!r}, not {run_id!r}: choose another URL")
    return [
        PutStore(name, *_put_store(folder, at, run_id, before[name])) for name, folder, at in places
    ]


def _put_store(
    folder: Path, there: _Location, run_id: str, before: _RemoteStore | None
) -> tuple[int, int]:
    """Put a store; returns how many bytes were sent, and how many it has there."""
    known = before.files if before is not None else {}
    with tempfile.TemporaryDirectory(prefix="agentgym-put-") as temporary:
        copies = _snapshot(folder, Path(temporary))
        files = {path.name: _describe(path) for path in copies}
        if files == known:
            return 0, _size(files)
        sent = 0
        for path in copies:
            described = files[path.name]
            if known.get(path.name) != described:
                there.upload(path, _object_name(path.name, described))
                sent += described.size
    there.write(_STORE_FILE, msgspec.json.encode(_RemoteStore(_STORE_SCHEMA, run_id, files)))
    for file, described in known.items():
        if files.get(file) != described:
            there.remove(_object_name(file, described))
    return sent, _size(files)


def _snapshot(folder: Path, into: Path) -> list[Path]:
    """Copy a store as of one moment; what its write-ahead log holds is in the database then."""
    # The tally first: it may lag behind the database, and must not be ahead of it.
    for name in (TALLY_FILE, MANIFEST_FILE):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, into / name)
    with (
        contextlib.closing(connect_reading(folder / DATABASE_FILE)) as source,
        contextlib.closing(sqlite3.connect(into / DATABASE_FILE)) as copy,
    ):
        source.backup(copy)
    return [into / name for name in _FILES if (into / name).is_file()]


def _describe(path: Path) -> _RemoteFile:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return _RemoteFile(digest, path.stat().st_size)


def _size(files: Mapping[str, _RemoteFile]) -> int:
    return sum(file.size for file in files.values())


def _object_name(name: str, described: _RemoteFile) -> str:
    return f"{described.sha256}-{name}"


def fetch_run(url: str, folder: Path | None = None) -> Path:
    """Copy a run from object storage; returns its folder.

    Args:
        url: Where `put_run` put it.
        folder: A new folder for it, in which the run may go on; None = a copy to read, in the
            cache: what is in there already, of this run or another, is not downloaded again.

    Raises ObjectStorageError, or RunExists and ForeignFolder where `folder` is not empty.
    """
    there = _Location.of(url)
    own = there.read_store()
    if own is None:
        raise RemoteRunNotFound(url, "no run is there: python -m orchestrator.put RUN URL puts one")
    stores = {OWN_STORE: (there, own)}
    for name in (there / SHARDS_FOLDER).names():
        at = there / SHARDS_FOLDER / name
        if (found := at.read_store()) is not None:
            stores[name] = (at, found)
    if folder is not None:
        with staged_folder(folder) as staging:
            _fill(staging, stores, link=False)
        return folder
    state = msgspec.json.encode(sorted((name, found) for name, (_, found) in stores.items()))
    make_private_folder(runs_cache())
    cached = runs_cache() / hashlib.sha256(state).hexdigest()[:24] / (there.name or "run")
    if not cached.is_dir():
        try:
            with staged_folder(cached) as staging:
                _fill(staging, stores, link=True)
        except RunFolderError:  # another process was as quick
            if not cached.is_dir():
                raise
    return cached


def _fill(
    folder: Path, stores: Mapping[str, tuple[_Location, _RemoteStore]], *, link: bool
) -> None:
    """Make a run's folder of its stores; `link`: to the files in the cache, which are shared."""
    for name, (there, store) in stores.items():
        place = folder if name == OWN_STORE else shard_folder(folder, name)
        make_private_folder(place)
        for file in _FILES:
            if file in store.files:
                cached = _download(there, file, store.files[file])
                if link:
                    (place / file).hardlink_to(cached)
                else:
                    shutil.copyfile(cached, place / file)
                    (place / file).chmod(0o600)


def _download(there: _Location, name: str, described: _RemoteFile) -> Path:
    """Return a file's copy in the cache; raises ObjectStorageError where it is not as described."""
    files = runs_cache() / "files"
    make_private_folder(files)
    path = files / _object_name(name, described)
    if not path.is_file():
        with tempfile.TemporaryDirectory(dir=files) as temporary:
            partial = Path(temporary) / "partial"
            there.download(_object_name(name, described), partial)
            if _describe(partial) != described:
                raise ObjectStorageError(
                    there.url, f"{name} is not what {_STORE_FILE} says of it: put the run again"
                )
            partial.chmod(0o600)
            partial.replace(path)
    return path


class _Location:
    """A folder on object storage."""

    def __init__(self, system: Any, path: str, url: str) -> None:
        self._system = system
        self._path = path
        self.url = url

    @classmethod
    def of(cls, url: str) -> _Location:
        """Return the location of a URL; raises UsageError, ExtraMissing."""
        try:
            fsspec: Any = importlib.import_module("fsspec")  # has no types
            from obstore.fsspec import register
        except ModuleNotFoundError as error:
            raise ExtraMissing("a run on object storage", extra="object-storage") from error
        protocol = url.partition("://")[0]
        options: Mapping[str, Any] = {}
        if protocol in _BY_OBSTORE:
            register(protocol)
            options = _OPTIONS
        url = url.rstrip("/")
        try:
            system, path = fsspec.url_to_fs(url, **options)
        except (ValueError, ImportError) as error:
            raise UsageError(f"{url} cannot be opened ({error})") from error
        return cls(system, path, url)

    def __truediv__(self, name: str) -> _Location:
        return _Location(self._system, f"{self._path}/{name}", f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rsplit("/", 1)[-1]

    def read_store(self) -> _RemoteStore | None:
        """Return what is said of the store here; None = none is here."""
        try:
            with self._told():
                text = self._system.cat_file(f"{self._path}/{_STORE_FILE}")
        except RemoteRunNotFound:
            return None
        try:
            store = msgspec.json.decode(text, type=_RemoteStore)
        except msgspec.DecodeError as error:
            raise ObjectStorageError(self.url, f"{_STORE_FILE} is damaged ({error})") from error
        if unknown := sorted(store.files.keys() - set(_FILES)):
            raise ObjectStorageError(self.url, f"{_STORE_FILE} names {unknown[0]!r}: no run has it")
        if store.schema_version > _STORE_SCHEMA:
            raise ObjectStorageError(
                self.url,
                f"{_STORE_FILE} has layout {store.schema_version}, this program reads "
                f"{_STORE_SCHEMA}: use a newer one",
            )
        return store

    def names(self) -> list[str]:
        """Return the names of the folders here, sorted."""
        try:
            with self._told():
                entries = self._system.ls(self._path, detail=True, refresh=True)
        except RemoteRunNotFound:
            return []
        paths = (str(entry["name"]).rstrip("/") for entry in entries if entry["type"] != "file")
        return sorted(path.rsplit("/", 1)[-1] for path in paths)

    def upload(self, path: Path, name: str) -> None:
        """Put a file here."""
        with self._told():
            self._system.makedirs(self._path, exist_ok=True)
            self._system.put_file(str(path), f"{self._path}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Put a small file here."""
        with self._told():
            self._system.pipe_file(f"{self._path}/{name}", content)

    def download(self, name: str, path: Path) -> None:
        """Copy a file from here."""
        with self._told():
            self._system.get_file(f"{self._path}/{name}", str(path))

    def remove(self, name: str) -> None:
        """Remove what nobody names any more; one that stays costs room, no more."""
        with contextlib.suppress(ObjectStorageError), self._told():
            self._system.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def _told(self) -> Generator[None]:
        """Raise ObjectStorageError for what the storage says."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (FileNotFoundError, NotADirectoryError) as error:
            if "NoSuchBucket" in str(error):
                raise BucketMissing(self.url) from error
            raise RemoteRunNotFound(self.url, _first_line(error)) from error
        except (PermissionError, PermissionDeniedError, UnauthenticatedError) as error:
            raise CredentialsRefused(self.url, _first_line(error)) from error
        except (OSError, BaseError) as error:
            # Without credentials it asks the machine for those of its cloud.
            if any(sign in str(error) for sign in _NO_CREDENTIALS):
                raise CredentialsRefused(self.url, "no credentials were found") from error
            raise ObjectStorageError(self.url, _first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
