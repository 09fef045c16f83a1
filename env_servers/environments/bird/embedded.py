"""The embedded databases as files: made once per machine, shared by everybody who reads them.

Contains the cache folder. A file there has the content that its name promises, or it is made anew:
the name carries a digest of what the rows are made from and a digest of the file. Files appear by
renaming, so that processes which start together never see half of one.
"""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from env_servers.environments.bird.domains import Domain
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["build_database", "cache_folder", "find_or_build"]

_FORMAT: Final = "1"
"""Changes when rows change that the digest of the sources does not cover."""


def cache_folder(setting: str | None) -> Path:
    """Return where built databases are kept: the setting, or the user's cache folder."""
    if setting:
        return Path(setting).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "agentgym-grpc" / "bird"


def find_or_build(domain: Domain, folder: Path) -> Path:
    """The file of a domain, checked; raises EnvironmentUnavailable where none can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        existing = _find(domain, folder)
        return existing or _build_in(domain, folder)
    except OSError:
        # A home that cannot be written to, or a full disk: this process has its own copy.
        own = _own_folder()
        return _find(domain, own) or _build_in(domain, own)


def build_database(domain: Domain, path: Path) -> None:
    """Write a domain's database to a path where nothing is."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA page_size = 4096")
        connection.executescript(domain.ddl)
        connection.execute("BEGIN")
        for table, rows in domain.rows(random.Random(domain.seed)):
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        for number, index in enumerate(domain.indexes):
            connection.execute(f"CREATE INDEX index_{number} ON {index}")
        connection.execute("COMMIT")
        connection.execute("ANALYZE")
    finally:
        connection.close()


def _find(domain: Domain, folder: Path) -> Path | None:
    for path in sorted(folder.glob(f"{domain.name}-{_source_digest(domain)}-*.sqlite")):
        with suppress(OSError):
            if path.stem.rpartition("-")[2] == _file_digest(path):
                return path
    return None


def _build_in(domain: Domain, folder: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".building-") as building:
        new_file = Path(building) / "new.sqlite"
        try:
            build_database(domain, new_file)
        except sqlite3.Error as error:
            raise EnvironmentUnavailable(
                f"cannot build the database {domain.name} in {folder}: {error}"
            ) from error
        new_file.chmod(0o444)
        name = f"{domain.name}-{_source_digest(domain)}-{_file_digest(new_file)}.sqlite"
        return new_file.replace(folder / name)


@lru_cache
def _source_digest(domain: Domain) -> str:
    """Of what decides the rows: the schema, and the code that draws them."""
    sources = sorted(Path(__file__).parent.joinpath("domains").glob("*.py"))
    digest = hashlib.blake2b(f"{_FORMAT} {domain.seed} {domain.ddl}".encode(), digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:32]


_owned: list[tempfile.TemporaryDirectory[str]] = []
"""Folders that go with this process."""


def _own_folder() -> Path:
    if not _owned:
        try:
            _owned.append(tempfile.TemporaryDirectory(prefix="agentgym-bird-"))
        except OSError as error:
            raise EnvironmentUnavailable(
                f"no folder can be written for the embedded databases ({error}): name one with "
                "--set bird.cache=FOLDER"
            ) from error
    return Path(_owned[0].name)
