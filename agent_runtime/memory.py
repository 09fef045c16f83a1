"""How much of this machine's memory a process may still take, inside a container too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["available_memory"]

_VERSION_2: Final = ("memory.max", "memory.current")
_VERSION_1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes")

_UNKNOWN: Final = 4 * 2**30


def available_memory(
    *,
    unknown: int = _UNKNOWN,
    proc: Path = Path("/proc"),
    cgroup_root: Path = Path("/sys/fs/cgroup"),
) -> int:
    """Return the bytes that this process may still allocate.

    The least of what the machine has left and what the limit of each control group leaves that
    holds this process.

    Args:
        unknown: What is returned on systems that do not say.
        proc: Where the kernel shows processes and memory.
        cgroup_root: Where it shows control groups, of version 2 or 1.
    """
    version_1 = cgroup_root / "memory"
    return min(
        [
            _machine_memory(proc, unknown),
            *_cgroup_memory(cgroup_root / _own_group(proc, ""), cgroup_root, _VERSION_2),
            *_cgroup_memory(version_1 / _own_group(proc, "memory"), version_1, _VERSION_1),
        ]
    )


def _machine_memory(proc: Path, unknown: int) -> int:
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = (proc / "meminfo").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return unknown


def _cgroup_memory(group: Path, root: Path, files: tuple[str, str]) -> Iterator[int]:
    """Yield what each limit leaves, from the process' own group up to the root.

    In a container the root is usually the container's own group, but a process may have been put
    into a group below it, and the tightest limit may be any ancestor's.
    """
    for folder in (group, *group.parents):
        if folder != root and root not in folder.parents:
            return
        with contextlib.suppress(OSError, ValueError):  # "max" = no limit
            limit, used = (int((folder / name).read_text(encoding="ascii")) for name in files)
            # Pages of files count as used, but the kernel drops them when memory is asked for:
            # the weights that were just read would otherwise count twice.
            yield max(0, limit - used + min(used, _inactive_file(folder)))


def _own_group(proc: Path, controller: str) -> str:
    """Return the path of this process' group; version 2 has no controller in its line."""
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controller in controllers.split(","):
                return path.strip("/")
    return ""


def _inactive_file(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "inactive_file":
                return int(value)
    return 0
