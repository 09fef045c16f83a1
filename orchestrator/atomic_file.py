"""Files and folders that appear whole or not at all.

They are written under a temporary name, flushed to disk, and renamed.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from agent_runtime.private_files import private_opener
from orchestrator.errors import OutputExists, UsageError

__all__ = ["atomic_folder", "atomic_output", "sync_folder", "write_atomically"]


@contextmanager
def atomic_output(path: Path, *, overwrite: bool) -> Generator[Path]:
    """Yield a temporary path beside `path`; it becomes `path` when the block ends without error.

    Raises OutputExists where `path` exists and is not to be overwritten (also if it appeared
    meanwhile), and UsageError where its folder does not exist or `path` is no regular file. After
    an error nothing is left.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():
        # Renamed over, a device such as /dev/full would be gone for the whole machine.
        raise UsageError(f"{path} is no regular file; name another")
    if path.exists() and not overwrite:
        raise OutputExists(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        _sync_file(partial)
        if overwrite:
            partial.replace(path)
        else:
            _publish_new(partial, path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Generator[Path]:
    """Yield an empty folder beside `path`; it becomes `path` when the block ends without error.

    Raises UsageError where `path` exists and is no empty folder: what is in one is never replaced,
    because whose it is nobody knows. After an error nothing is left.
    """
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    _refuse_content(path)
    partial.mkdir()
    try:
        yield partial
        for entry in partial.rglob("*"):
            sync_folder(entry) if entry.is_dir() else _sync_file(entry)
        sync_folder(partial)
        try:
            # Replaces an empty folder, fails on one that another process filled meanwhile.
            partial.rename(path)
        except OSError:
            _refuse_content(path)
            raise
        sync_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _refuse_content(path: Path) -> None:
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UsageError(f"{path} exists; an export never replaces a folder: name another")


def write_atomically(
    path: Path, text: str, *, overwrite: bool = True, private: bool = False
) -> None:
    """Write a UTF-8 text file whole or not at all; same errors as `atomic_output`.

    `private`: it is its owner's alone, whatever the umask.
    """
    opener = private_opener if private else None
    with (
        atomic_output(path, overwrite=overwrite) as partial,
        open(partial, "w", encoding="utf-8", opener=opener) as stream,
    ):
        stream.write(text)


def sync_folder(folder: Path) -> None:
    """Make names that were added to a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _publish_new(partial: Path, path: Path) -> None:
    # A hard link fails where the name exists; a rename would replace what another process wrote.
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        raise OutputExists(path) from None
    except OSError:
        # File systems without hard links: the check at the start has to do.
        partial.replace(path)
