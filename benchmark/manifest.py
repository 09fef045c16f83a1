"""Where, when and with what a measurement was made, and the file that says so.

Invariant: everything that is needed to judge or repeat a figure, and nothing that names a user or
a path. Knows no benchmark.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import psutil

__all__ = ["PACKAGES", "Manifest", "read_manifest", "write_result"]

PACKAGES: Final = (
    "agentgym-grpc",
    "aiohttp",
    "fastapi",
    "grpcio",
    "httptools",
    "msgpack",
    "orjson",
    "protobuf",
    "pydantic",
    "requests",
    "starlette",
    "uvicorn",
    "uvloop",
    "websockets",
)
"""Distributions whose versions move the figures."""
_ABSOLUTE: Final = re.compile(r"(?:^|(?<==))/(?:.*/)?(?=[^/])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The circumstances of a run, written beside its figures."""

    date: str
    """UTC, ISO 8601."""
    command: str
    git_commit: str
    """Empty outside a checkout; ends in `+changes` where the checkout was not clean."""
    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    load_average: float
    """Of the minute before the run; see `busy`."""
    packages: dict[str, str]

    @property
    def busy(self) -> bool:
        """Whether others used the machine."""
        return self.load_average > 0.5 * self.cores

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def read_manifest(packages: Iterable[str] = PACKAGES) -> Manifest:
    """Ask the machine, the interpreter and the checkout."""
    return Manifest(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        command=" ".join(["python", *_arguments()]),
        git_commit=_git_commit(),
        cpu=_cpu(),
        cores=os.cpu_count() or 0,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        load_average=round(os.getloadavg()[0], 2),
        packages={name: found for name in packages if (found := _version(name))},
    )


def _arguments() -> list[str]:
    """The interpreter's arguments; of an absolute path only its last part."""
    return [_ABSOLUTE.sub("", word) for word in sys.orig_argv[1:]]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git_commit() -> str:
    root = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=20)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        changed = commit and git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{commit}+changes" if changed else commit


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def write_result(out: str, result: Mapping[str, Any]) -> None:
    """Write a result as JSON to a file; - = standard output."""
    text = json.dumps(result, indent=2) + "\n"
    if out == "-":
        sys.stdout.write(text)
    else:
        Path(out).write_text(text, encoding="utf-8")
