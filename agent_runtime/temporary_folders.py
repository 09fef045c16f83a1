"""Temporary folders that somebody owns: what a killed process leaves behind goes at the next start.

The owner holds a lock on a file in its folder. The kernel gives the lock up when the process ends,
also by SIGKILL, so a folder whose lock is free belongs to nobody. Folders without such a file are
not ours and are never touched. `env_servers.server.temporary_folders` does the same for servers,
which share no code with what is here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["TemporaryFolder"]

_PREFIX: Final = "agentgym-"
_OWNER: Final = ".owner"


class TemporaryFolder:
    """A folder of this process; it goes by `remove`, or after the process is gone."""

    def __init__(self) -> None:
        """Make the folder, and remove those whose owner is gone."""
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Locked before it has its name: a sweep must not find it free in between.
        unnamed = self.path / f"{_OWNER}.new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _OWNER)

    def remove(self) -> None:
        """Remove the folder; calling it again changes nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._release()

    def keep(self) -> None:
        """Leave the folder to people: nobody removes it any more."""
        (self.path / _OWNER).unlink(missing_ok=True)
        self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(root: Path) -> None:
    for owner in root.glob(f"{_PREFIX}*/{_OWNER}"):
        # Another user's folder, or one that goes at this moment.
        with contextlib.suppress(OSError):
            lock = os.open(owner, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent, ignore_errors=True)
            finally:
                os.close(lock)
