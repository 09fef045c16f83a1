"""Runs a module as `python -m` does and says which part of the program its CPU went to.

`python split.py FILE MODULE ARGUMENTS...`: a signal on every 2 ms of the process's CPU looks at
what the main thread executes and counts the CPU of that thread since the last signal for the part
whose file is innermost. Other threads' CPU is read from their clocks when they end. FILE gets
seconds by part.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

__all__ = ["PARTS", "part_of"]

PARTS: Final = (
    ("/env_servers/environments/", "environment"),
    ("/env_servers/toolkit/", "environment"),
    ("/env_servers/", "server"),
    ("/orchestrator/store", "store"),
    ("/orchestrator/records", "store"),
    ("/agent_runtime/connection", "client"),
    ("/agent_runtime/episode", "client"),
    ("/agent_runtime/channel", "client"),
    ("/agent_runtime/", "orchestrator"),
    ("/orchestrator/", "orchestrator"),
    ("/benchmark/whole_path/replies", "orchestrator"),
)
"""A piece of a file's path, and the part that it belongs to; the first that fits."""
LOOP: Final = "event loop"
THREADS: Final = "other threads"
GRPC: Final = "gRPC's threads"
STORE_THREAD: Final = "episode-writer"
_SECONDS: Final = 0.002
_part_by_file: dict[str, str | None] = {}


def part_of(file: str) -> str | None:
    """Return the part that a file belongs to; None for libraries, which work for their caller."""
    if file not in _part_by_file:
        _part_by_file[file] = next((part for piece, part in PARTS if piece in file), None)
    return _part_by_file[file]


class _Sampler:
    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0
        self._threads: defaultdict[str, float] = defaultdict(float)
        """Seconds of Python's threads that have ended, by part."""

    def start(self) -> None:
        run, threads = threading.Thread.run, self._threads

        def timed(self: threading.Thread) -> None:
            try:
                run(self)
            finally:
                part = "store" if self.name == STORE_THREAD else THREADS
                threads[part] += time.thread_time()

        threading.Thread.run = timed
        self._last = time.thread_time()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)

    def _sample(self, signum: int, frame: FrameType | None) -> None:
        now = time.thread_time()
        part: str | None = None
        while frame is not None and part is None:
            # What the loop does by itself is right below the function that runs it.
            runs_loop = frame.f_code.co_name == "run_loop"
            part = LOOP if runs_loop else part_of(frame.f_code.co_filename)
            frame = frame.f_back
        self.seconds[part or LOOP] += now - self._last
        self._last = now

    def finish(self) -> dict[str, float]:
        """Return seconds of CPU by part; those of gRPC's own threads are what is left over."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        for part, seconds in self._threads.items():
            self.seconds[part] += seconds
        others = time.process_time() - time.thread_time() - sum(self._threads.values())
        return {**self.seconds, GRPC: max(0.0, others)}


def main() -> None:
    """Run the module; its exit status is this process's."""
    file, module, *arguments = sys.argv[1:]
    sampler = _Sampler()
    leave: Callable[[int], NoReturn] = os._exit

    def write_and_leave(status: int) -> NoReturn:
        Path(file).write_text(json.dumps(sampler.finish()))
        leave(status)

    os._exit = write_and_leave  # a server ends by it
    sys.argv = [module, *arguments]
    status = 0
    sampler.start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    write_and_leave(status)


if __name__ == "__main__":
    main()
