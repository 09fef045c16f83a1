"""The same work several times over, each in a process of its own.

Owns the processes: so many at a time, none outlives the program, and one that fails fails them all.
Knows nothing of the work, which reports through files.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.context import SpawnProcess
from typing import Any

from orchestrator.command_line import guarded
from training.errors import TrainingError

__all__ = ["run_apart"]


def run_apart(
    work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *, at_once: int
) -> None:
    """Call `work` with each of the arguments, at most `at_once` at a time; both must be picklable.

    Raises TrainingError after the first that ends otherwise than by returning; it has said why.
    """
    spawn = multiprocessing.get_context("spawn")
    waiting = [spawn.Process(target=_attend, args=(work, each)) for each in arguments]
    running: list[SpawnProcess] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                running[-1].start()
            multiprocessing.connection.wait([it.sentinel for it in running])
            for process in [it for it in running if it.exitcode is not None]:
                running.remove(process)
                if process.exitcode:
                    raise TrainingError(
                        f"a process ended with {process.exitcode}: see above; what is finished is "
                        "kept, go on with --resume"
                    )
    finally:
        for process in running:
            process.terminate()
            process.join()


def _attend(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """In the new process: do the work, and end when the program does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()

    def done() -> int:
        work(*arguments)
        return 0

    sys.exit(guarded(done))


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)  # nobody is left to tell
