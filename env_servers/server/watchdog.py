"""Ends a server whose inline call nothing can interrupt: a process that looks from outside.

Native code that keeps the interpreter's lock stops every thread and every signal handler of its
process. The server writes into shared memory which environment executes which call. Where one call
stays for too long, this process notes the environment in a file and aborts the server, whose log
then shows where it hung. Whoever started the server starts it again, with that file: the
environment runs in worker processes from then on. Run as a file, with the standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import mmap
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

__all__ = ["CELL_BYTES", "main"]

CELL_BYTES: Final = 8
"""Shared memory of an environment: the number of the call that it executes, 0 = none."""
_WATCH_SECONDS = 0.5


def _stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: then its calls do not go on, and do not hang."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


def _find_stuck(server: int, cells: memoryview, limit: float) -> int | None:
    """Return the number of the environment whose call does not end; None = the server has ended."""
    since = [(0, 0.0)] * len(cells)
    while os.getppid() == server:
        time.sleep(_WATCH_SECONDS)
        now = time.monotonic()
        stopped = _stopped(server)
        for number, call in enumerate(cells):
            if not call or stopped or since[number][0] != call:
                since[number] = call, now
            elif now - since[number][1] > limit:
                return number
    return None


def main() -> None:
    """Watch the parent process until it ends."""
    parser = argparse.ArgumentParser()
    # Told, not asked for: a server that was killed meanwhile is no parent any more.
    parser.add_argument("--server", type=int, required=True)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--stuck-file", default="")
    parser.add_argument("environments", nargs="+")
    arguments = parser.parse_args()
    server, names = arguments.server, arguments.environments
    memory = mmap.mmap(arguments.fd, CELL_BYTES * len(names))
    number = _find_stuck(server, memoryview(memory).cast("Q"), arguments.limit)
    if number is None:
        return
    if arguments.stuck_file:
        with Path(arguments.stuck_file).open("a", encoding="utf-8") as file:
            file.write(f"{names[number]}\n")
    story = {
        "timestamp": datetime.datetime.now(datetime.UTC).isoformat(),
        "level": "error",
        "logger": "env_servers.watchdog",
        "event": "server ended, for an inline call cannot be interrupted",
        "environment": names[number],
        "limit": arguments.limit,
        "server": server,
    }
    sys.stderr.write(json.dumps(story) + "\n")
    sys.stderr.flush()
    with contextlib.suppress(ProcessLookupError):
        os.kill(server, signal.SIGABRT)


if __name__ == "__main__":
    main()
