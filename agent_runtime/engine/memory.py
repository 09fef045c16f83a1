"""How much of this machine's memory a cache may still take, inside a container too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["available_memory"]

_UNKNOWN: Final = 4 * 2**30
"""Assumed on systems that do not say."""


def available_memory(proc: Path = Path("/proc"), cgroup_root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the bytes that this process may still allocate.

    The least of what the machine has left and what the limit of each control group (version 2) that
    holds this process leaves. The arguments are the kernel's file systems.
    """
    return min([_machine_memory(proc), *_cgroup_memory(proc, cgroup_root)])


def _machine_memory(proc: Path) -> int:
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = (proc / "meminfo").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _UNKNOWN


def _cgroup_memory(proc: Path, root: Path) -> Iterator[int]:
    """Yield what each limit leaves, from the process' own group up to the root.

    In a container the root is usually the container's own group, but a process may have been put
    into a group below it, and the tightest limit may be any ancestor's.
    """
    group = root / _own_group(proc)
    for folder in (group, *group.parents):
        if folder != root and root not in folder.parents:
            return
        with contextlib.suppress(OSError, ValueError):  # "max" = no limit
            limit = int((folder / "memory.max").read_text(encoding="ascii"))
            used = int((folder / "memory.current").read_text(encoding="ascii"))
            # Pages of files count as used, but the kernel drops them when memory is asked for:
            # the weights that were just read would otherwise count twice.
            yield max(0, limit - used + min(used, _inactive_file(folder)))


def _own_group(proc: Path) -> str:
    with contextlib.suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::"):
                return line.removeprefix("0::").strip("/")
    return ""


def _inactive_file(folder: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name == "inactive_file":
                return int(value)
    return 0
