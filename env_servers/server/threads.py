"""Threads for environments that wait, and that may never come back.

Unlike concurrent.futures' pool, a thread that hangs can be given up: it no longer counts, a new one
takes its place, and, being a daemon, it does not keep the process alive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

__all__ = ["AbandonableThreadPool", "WorkItem"]

T = TypeVar("T")


class WorkItem(Generic[T]):
    """One piece of work that the pool has taken."""

    __slots__ = ("abandoned", "done", "future", "started", "work")

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.future: Future[T] = Future()
        self.started: float | None = None
        self.abandoned = False
        self.done = False

    def running_for(self) -> float:
        """Seconds since a thread took it up; 0 while it is queued."""
        return 0.0 if self.started is None else time.monotonic() - self.started

    def run(self) -> None:
        """Do the work and settle the future."""
        self.started = time.monotonic()
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001 - boundary: handed to the waiter
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class AbandonableThreadPool:
    """At most `size` working threads, started on demand."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._queue: SimpleQueue[WorkItem[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0
        self.abandoned = 0
        """Threads given up so far."""

    def submit(self, work: Callable[[], T]) -> WorkItem[T]:
        """Queue work; the item's future settles when it is done."""
        item = WorkItem(work)
        with self._lock:
            self._outstanding += 1
            start = self._outstanding > self._threads and self._threads < self._size
            self._threads += start
        self._queue.put(item)
        if start:
            threading.Thread(target=self._work, name="environment", daemon=True).start()
        return item

    def abandon(self, item: WorkItem[Any]) -> bool:
        """Give up the thread that is stuck in this item.

        Returns False where the thread has come back in the meantime: its result counts.
        """
        with self._lock:
            if item.done:
                return False
            item.abandoned = True
            self._threads -= 1
            self._outstanding -= 1
            self.abandoned += 1
        return True

    def close(self) -> None:
        """Let idle threads end; stuck ones die with the process."""
        for _ in range(self._threads):
            self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            item.run()
            with self._lock:
                if item.abandoned:
                    # Another thread has taken this one's place in the count: it must end.
                    return
                item.done = True
                self._outstanding -= 1
