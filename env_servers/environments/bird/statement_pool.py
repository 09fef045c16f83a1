"""The processes that run statements, seen from the process whose episodes ask them.

One pool serves all databases and episodes of a process. A worker that dies, or that takes longer
than it may, costs its statement and nothing else: it is ended, and the next statement finds
another one. Workers end with their parent, however that ends. Safe to use from several threads.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from env_servers.environments.bird.guard import Limits
from env_servers.environments.bird.statement_worker import HEADER
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["StatementPool", "StatementTooSlow", "WorkerDied", "process_statement_pool"]

_PACKAGE: Final = __name__.rpartition(".")[0]
_START: Final = """
import sys, types
from importlib import import_module
name, folder, packages = sys.argv[1], sys.argv[2], sys.argv[1].split(".")
for depth in range(len(packages) - 1, 0, -1):
    folder = folder.rpartition("/")[0] if depth < len(packages) - 1 else folder
    package = types.ModuleType(".".join(packages[:depth]))
    package.__path__ = [folder]
    sys.modules[package.__name__] = package
import_module(name).main()
"""
"""Runs a module without its packages' own code, which would import all that a server needs."""
_INHERITED: Final = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH")
"""Of the environment: what Python may need to start. No tokens, no keys."""
_LARGEST_ANSWER: Final = 32 * 2**20
_READ_BYTES: Final = 1 << 18
_START_SECONDS: Final = 10.0
_IDLE: Final = 16
"""Workers that wait for statements, at most."""
_OPEN_FILES: Final = 8
"""Databases that a worker keeps open."""


class WorkerDied(Exception):
    """Raised when a worker ends while it executes a statement."""


class StatementTooSlow(Exception):
    """Raised when a statement took longer than it may; its worker was ended."""


class StatementWorker:
    """One process, which executes one statement at a time."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            EnvironmentUnavailable: The system lets no process start.
        """
        command = [sys.executable, "-I", "-S", "-c", _START]
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            self._process = subprocess.Popen(
                [*command, f"{_PACKAGE}.statement_worker", str(Path(__file__).parent)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                # One arena: others take address space in large pieces.
                env=environment | {"LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "1"},
                # Its own session: Ctrl-C in a terminal goes to the server alone.
                start_new_session=True,
            )
        except (OSError, MemoryError) as error:
            raise EnvironmentUnavailable(f"no process for statements starts: {error}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(self._stdin, select.POLLOUT)
        self._readable.register(self._stdout, select.POLLIN)
        self.files: deque[str] = deque(maxlen=_OPEN_FILES)
        """Databases that it opened last."""
        try:
            self._read(time.monotonic() + _START_SECONDS)
        except (OSError, WorkerDied, StatementTooSlow) as error:
            # Before it has seen a statement: no statement is to blame.
            self.end()
            status = self._process.returncode
            raise EnvironmentUnavailable(
                f"no process for statements starts: it ended with status {status}"
            ) from error

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, request: bytes, deadline: float) -> dict[str, Any]:
        """Return the answer to a request; the worker is of no use after any exception.

        Raises:
            StatementTooSlow: There was none by the deadline.
            WorkerDied: There will be none.
        """
        try:
            self._write(HEADER.pack(len(request)) + request, deadline)
            return json.loads(self._read(deadline))
        except (OSError, ValueError) as error:
            raise WorkerDied from error

    def end(self) -> None:
        """End the process, whatever it does, and wait until it is gone."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()
        self._process.wait()

    def _write(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._stdin.fileno(), rest) :]
            except BlockingIOError:
                _wait(self._writable, deadline)

    def _read(self, deadline: float) -> bytes:
        """Return the body of the answer: a worker says nothing after it."""
        data, size = bytearray(), HEADER.size
        while len(data) < size:
            _wait(self._readable, deadline)
            chunk = os.read(self._stdout.fileno(), _READ_BYTES)
            data += chunk
            if len(data) >= HEADER.size:
                size = HEADER.size + HEADER.unpack_from(data)[0]
            if not chunk or size > _LARGEST_ANSWER:
                raise WorkerDied
        return bytes(data[HEADER.size :])


class StatementPool:
    """Workers, started on demand and used again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[StatementWorker] = []

    def ask(
        self, path: str, limits: Limits, statement: str, *, heavy: bool, seconds: float
    ) -> dict[str, Any]:
        """Return what a worker answered.

        Raises:
            StatementTooSlow: There was no answer after so many seconds by the clock.
            WorkerDied: The statement's worker died, by it or by chance.
            EnvironmentUnavailable: No worker can be started.
        """
        # A longer text is refused by its length, whatever it says.
        text = statement[: limits.statement_bytes + 1]
        request = json.dumps([path, _limit_values(limits), heavy, text]).encode()
        worker = self._take(path)
        try:
            answer = worker.ask(request, time.monotonic() + seconds)
        except BaseException:
            worker.end()
            raise
        if path not in worker.files:
            worker.files.append(path)
        self._put_back(worker, fit="worn" not in answer)
        return answer

    def close(self) -> None:
        """End the workers that wait for statements; later statements start others."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def idle_pids(self) -> list[int]:
        """Return the process ids of the workers that wait for statements."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    def _take(self, path: str) -> StatementWorker:
        """Return a worker that knows the file, else any, else a new one."""
        with self._lock:
            for index in reversed(range(len(self._idle))):
                if path in self._idle[index].files:
                    return self._idle.pop(index)
            if self._idle:
                return self._idle.pop()
        return StatementWorker()

    def _put_back(self, worker: StatementWorker, *, fit: bool) -> None:
        with self._lock:
            fit = fit and len(self._idle) < _IDLE
            if fit:
                self._idle.append(worker)
        if not fit:
            worker.end()


def process_statement_pool() -> StatementPool:
    """Return the pool that all databases of this process share."""
    return _statement_pool(os.getpid())


@cache
def _statement_pool(_process_id: int) -> StatementPool:
    """Return a pool by process: a forked child must not talk to its parent's workers."""
    pool = StatementPool()
    atexit.register(pool.close)
    return pool


def _wait(poll: select.poll, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise StatementTooSlow


@cache
def _limit_values(limits: Limits) -> tuple[int | float, ...]:
    return tuple(getattr(limits, name) for name in limits.__slots__)
