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
from training.errors import RecipeError, TrainingError

__all__ = ["run_in_processes", "share_devices"]

log = get_logger(__name__)


def run_in_processes(
    work: Callable[..., None],
    arguments: Sequence[tuple[Any, ...]],
    *,
    max_workers: int,
    devices: Sequence[str] = (),
) -> None:
    """Call a function once for each of the arguments, in processes of their own.

    Args:
        work: The function; it and its arguments must be picklable.
        arguments: Positional arguments of each call.
        max_workers: Processes at a time.
        devices: What each of them sees of the machine's GPUs (`CUDA_VISIBLE_DEVICES`); as many as
            workers, or none = everything.

    Raises:
        TrainingError: A process ended otherwise than by returning; it has said why itself.
    """
    # Spawned, not forked: torch and gRPC have threads that a fork would lose.
    spawn = multiprocessing.get_context("spawn")
    waiting = list(arguments)
    free = list(devices)
    running: dict[SpawnProcess, str | None] = {}
    try:
        while waiting or running:
            while waiting and len(running) < max_workers:
                device = free.pop(0) if devices else None
                worker = spawn.Process(target=_run_worker, args=(work, waiting.pop(0), device))
                running[worker] = device
                worker.start()
            multiprocessing.connection.wait([worker.sentinel for worker in running])
            for worker in [worker for worker in running if worker.exitcode is not None]:
                device = running.pop(worker)
                if device is not None:
                    free.append(device)
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


def share_devices(visible: Sequence[str], workers: int, each: int) -> list[str]:
    """Divide a machine's GPUs among workers.

    Args:
        visible: The GPUs by their numbers or names, as in `CUDA_VISIBLE_DEVICES`.
        workers: Processes at a time.
        each: GPUs that each of them uses.

    Returns:
        The value of `CUDA_VISIBLE_DEVICES` for each worker.

    Raises:
        RecipeError: There are too few.
    """
    if workers * each > len(visible):
        raise RecipeError(
            f"is {workers}, of {each} GPUs each, and {len(visible)} are here: two of them on one "
            "would each take most of its memory. Lower it",
            field="max_workers",
        )
    return [",".join(visible[number * each : (number + 1) * each]) for number in range(workers)]


def _run_worker(work: Callable[..., None], arguments: tuple[Any, ...], devices: str | None) -> None:
    """Do the work in the new process, and end when the program does."""
    if devices is not None:
        # CUDA reads it at its first use in a process, and nothing has used it here yet.
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
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
