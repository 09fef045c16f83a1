"""Files and folders that only their owner reads, whatever the umask.

What agents were told and said is nobody else's business on a shared machine. Exports and shipped
models are made to be passed on: they follow the umask.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

__all__ = [
    "PRIVATE_FILE",
    "PRIVATE_FOLDER",
    "append_privately",
    "make_private_folder",
    "private_opener",
    "private_umask",
]

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def private_opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for `open(..., opener=private_opener)`: a new one is its owner's alone."""
    return os.open(path, flags, PRIVATE_FILE)


def append_privately(path: Path) -> BinaryIO:
    """Open a file of bytes to append to; a new one is its owner's alone."""
    return open(path, "ab", opener=private_opener)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and its parents where they are missing; the folder is its owner's alone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


@contextmanager
def private_umask() -> Generator[None]:
    """Make everything that this process creates meanwhile its owner's alone.

    For commands, which own their process: libraries that write files themselves take no mode.
    """
    before = os.umask(0o777 & ~PRIVATE_FOLDER)
    try:
        yield
    finally:
        os.umask(before)
