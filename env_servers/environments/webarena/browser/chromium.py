"""Which Chromium runs: the one that a setting names, Playwright's own, or the distribution's.

Contains the choice and its clear errors; starts nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from env_servers.sdk import EnvironmentUnavailable

__all__ = ["AUTO", "OLDEST_VERSION", "check_version", "find_chromium"]

AUTO: Final = "auto"
"""Playwright's own Chromium if it is installed, else the distribution's."""
OLDEST_VERSION: Final = 150
"""Major version; trees of older ones differ from those that were compared with the original."""
_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_INSTALL: Final = (
    "run `playwright install --only-shell chromium`, or install your distribution's package "
    "(Debian: `apt-get install chromium-headless-shell fonts-liberation`)"
)


def find_chromium(choice: str, playwright_path: str) -> Path:
    """Return the executable; `choice` is AUTO, a name on the PATH, or a path.

    Raises EnvironmentUnavailable, saying what to install.
    """
    if choice != AUTO:
        found = shutil.which(os.path.expanduser(choice))  # noqa: PTH111 - a name stays a name
        if found is None:
            raise EnvironmentUnavailable(f"no browser at {choice!r}: {_INSTALL}")
        return Path(found)
    if shutil.which(playwright_path):
        return Path(playwright_path)
    for name in _NAMES:
        if found := shutil.which(name):
            return Path(found)
    raise EnvironmentUnavailable(f"no Chromium is installed: {_INSTALL}")


def check_version(version: str, path: Path) -> None:
    """Raise EnvironmentUnavailable where a version such as `156.0.8078.79` is too old."""
    major = version.partition(".")[0]
    if not major.isdigit() or int(major) < OLDEST_VERSION:
        raise EnvironmentUnavailable(
            f"{path} is Chromium {version}, at least {OLDEST_VERSION} is needed: {_INSTALL}"
        )
