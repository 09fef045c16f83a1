"""Which Chromium runs: the one that a setting names, Playwright's own, or the distribution's.

Contains the choice and its clear errors; opens no window.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

__all__ = ["AUTO", "OLDEST_VERSION", "check_version", "find_chromium", "require_chromium"]

AUTO: Final = "auto"
"""The headless shell that Playwright installed, else the distribution's Chromium."""
OLDEST_VERSION: Final = 150
"""Major version; trees of older ones differ from those that were compared with the original."""
_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_INSTALL: Final = (
    "run `playwright install chromium`, or install your distribution's package "
    "(Debian: `apt-get install chromium-headless-shell fonts-liberation`)"
)
_VERSION_SECONDS: Final = 30.0


def find_chromium(choice: str) -> Path:
    """Return the executable; `choice` is AUTO, a name on the PATH, or a path.

    Raises EnvironmentUnavailable, saying what to install.
    """
    if choice != AUTO:
        found = shutil.which(os.path.expanduser(choice))  # noqa: PTH111 - a name stays a name
        if found is None:
            raise EnvironmentUnavailable(f"no browser at {choice!r}: {_INSTALL}")
        return Path(found)
    if (newest := _installed_by_playwright()) is not None:
        return newest
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


@cache
def require_chromium(choice: str) -> None:
    """Raise EnvironmentUnavailable where there is no browser that can be used; starts none.

    Asked when tasks are loaded, so that a server says it when it starts and not when it is asked to
    play.
    """
    if find_spec("playwright") is None:
        raise EnvironmentUnavailable(f"playwright is not installed: {install_command('webarena')}")
    path = find_chromium(choice)
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, timeout=_VERSION_SECONDS, check=False
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnavailable(f"{path} does not start ({error}): {_INSTALL}") from error
    version = re.search(r"\d+(?:\.\d+){3}", told)
    check_version(version[0] if version else f"of no version ({told[:100]!r})", path)


def _installed_by_playwright() -> Path | None:
    """The newest headless shell in Playwright's folder of browsers."""
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    caches = "Library/Caches" if sys.platform == "darwin" else ".cache"
    folder = Path(named) if named else Path.home() / caches / "ms-playwright"
    found = [
        (int(path.parents[1].name.rpartition("-")[2]), path)
        for path in folder.glob("chromium_headless_shell-*/*/*headless?shell")
        if path.parents[1].name.rpartition("-")[2].isdigit() and os.access(path, os.X_OK)
    ]
    return max(found)[1] if found else None
