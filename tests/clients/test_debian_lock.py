"""The packages of the clients in Go, C++ and Java are those that the lock file names."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

LOCK = Path(__file__).with_name("debian.lock")
RELEASE = "bookworm"
_LINE = re.compile(r"(?P<name>[a-z0-9][a-z0-9.+-]+)=(?P<version>[0-9][^\s=]*)")


def _locked() -> dict[str, str]:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    matches = [_LINE.fullmatch(line) for line in lines]
    assert all(matches), "a line is not NAME=VERSION"
    names = [match["name"] for match in matches if match]
    assert names == sorted(set(names)), "packages are named once, in their order"
    return {match["name"]: match["version"] for match in matches if match}


def _installed(names: list[str]) -> dict[str, str]:
    form = "${binary:Package} ${db:Status-Status} ${Version}\n"
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", form, *names], capture_output=True, text=True, check=False
    )
    fields = [line.split() for line in asked.stdout.splitlines()]
    # `libgrpc-dev:amd64` where a package is of one architecture; no version where it was removed.
    return {it[0].partition(":")[0]: it[2] for it in fields if it[1] == "installed"}


def _upstream(version: str) -> str:
    """What its authors call a version: without Debian's epoch and revision."""
    return version.partition(":")[2 if ":" in version else 0].rpartition("-")[0] or version


def test_what_is_installed_is_what_is_locked() -> None:
    locked = _locked()
    if shutil.which("dpkg-query") is None:
        pytest.skip("no Debian system")
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != RELEASE:
        pytest.skip(f"the lock file is of Debian {RELEASE}")
    installed = _installed(list(locked))
    if not installed:
        pytest.skip("no toolchain of a client is installed")
    differing = {name: version for name, version in installed.items() if version != locked[name]}
    moved = {n for n, version in differing.items() if _upstream(version) != _upstream(locked[n])}
    assert not moved, f"clients are built with other versions than {LOCK.name} names: {differing}"
    if differing:  # a security update of the release: to be noted, and no reason to stop
        warnings.warn(f"{LOCK.name} names other revisions than {differing}", stacklevel=1)


@pytest.mark.parametrize(
    ("version", "upstream"),
    [("2:1.19~1", "2:1.19~1"), ("1:4.1.48-7+deb12u2", "4.1.48"), ("0.7.0+dfsg-1", "0.7.0+dfsg")],
)
def test_a_revision_of_debian_is_no_other_version(version: str, upstream: str) -> None:
    assert _upstream(version) == upstream
