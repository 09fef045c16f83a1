"""The same work several times over, each in a process of its own.

At most so many run at a time, none outlives the program, and one that fails ends them all. The work
reports through files.
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

from agent_runtime.logs import get_logger
from orchestrator.command_line import guarded
from training.errors import TrainingError

__all__ = ["run_in_processes"]

log = get_logger(__name__)


def run_in_processes(
    work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], *, max_workers: int
) -> None:
    """Call a function once for each of the arguments, in processes of their own.

    Args:
        work: The function; it and its arguments must be picklable.
        arguments: Positional arguments of each call.
        max_workers: Processes at a time.

    Raises:
        TrainingError: A process ended otherwise than by returning; it has said why itself.
    """
    # Spawned, not forked: torch and gRPC have threads that a fork would lose.
    spawn = multiprocessing.get_context("spawn")
    waiting = [spawn.Process(target=_run_worker, args=(work, each)) for each in arguments]
    running: list[SpawnProcess] = []
    try:
        while waiting or running:
            while waiting and len(running) < max_workers:
                running.append(waiting.pop(0))
                running[-1].start()
            multiprocessing.connection.wait([worker.sentinel for worker in running])
            for worker in [worker for worker in running if worker.exitcode is not None]:
                running.remove(worker)
                if worker.exitcode:
                    log.error("worker process failed", pid=worker.pid, status=worker.exitcode)
                    raise TrainingError(
                        f"a process ended with {worker.exitcode}: see above; what is finished is "
                        "kept, go on with --resume"
                    )
    finally:
        for worker in running:
            worker.terminate()
            worker.join()


def _run_worker(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Do the work in the new process, and end when the program does."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A parent that was killed cannot terminate its workers: each watches it by itself.
        threading.Thread(target=_exit_with_parent, args=(parent.sentinel,), daemon=True).start()

    def act() -> int:
        work(*arguments)
        return 0

    sys.exit(guarded(act))


def _exit_with_parent(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)  # without clean-up: nobody is left to tell
