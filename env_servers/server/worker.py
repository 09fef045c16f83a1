"""A worker process: executes environments for a server that may kill it at any time.

Reads operations from an inherited socket, executes them one after another, answers in order, and
notes in shared memory which one it executes. The reader thread only queues, except for
cancellations, which must reach a step that is executing.

The operations of environments that wait for others are handed to threads instead: those of one
episode stay in order, those of different episodes wait side by side and are answered as they end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import resource
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

import structlog

from env_servers.sdk import Advisor, EnvironmentConfig
from env_servers.server.errors import CommandError
from env_servers.server.frames import (
    HEADER,
    MARKER,
    Op,
    decode_reset,
    encode_result,
    frame,
    pack_message,
    unpack,
)
from env_servers.server.inputs import decode_input
from env_servers.server.instance import EnvironmentInstance, LoadedEnvironment
from env_servers.server.logs import LogConfig, configure_logs
from env_servers.server.runners import boundary
from env_servers.server.threads import AbandonableThreadPool

__all__ = ["main"]


_MAX_ANSWERS = 64
_MAX_DELAY = 0.005
"""Seconds that an answer may wait for others while more operations are queued."""
_LAST_SECONDS = 2.0
"""For the operation that executes when the server goes away."""
_MOST_WAITING = 256
"""Operations that wait side by side; a thread each."""
_NONE = MARKER.pack(0)


class SideBySide:
    """Executes the operations of one episode one after another, those of different ones at once."""

    def __init__(self, execute: Callable[[list[Any]], None]) -> None:
        self._execute = execute
        self._lock = threading.Lock()
        self._waiting: dict[int, deque[list[Any]]] = {}
        """By handle, for every episode that executes something: what comes next."""
        self._threads = AbandonableThreadPool(_MOST_WAITING)

    def submit(self, message: list[Any]) -> None:
        """Execute an operation after all those of its episode that were submitted before."""
        handle = message[2]
        with self._lock:
            if handle in self._waiting:
                self._waiting[handle].append(message)
                return
            self._waiting[handle] = deque([message])
        self._threads.submit(lambda: self._execute_all(handle))

    def _execute_all(self, handle: int) -> None:
        while (message := self._next(handle)) is not None:
            self._execute(message)

    def _next(self, handle: int) -> list[Any] | None:
        with self._lock:
            if self._waiting[handle]:
                return self._waiting[handle].popleft()
            del self._waiting[handle]
            return None


class Worker:
    """Live environments by handle, and the socket to the server."""

    def __init__(
        self, connection: socket.socket, marker: mmap.mmap, config: EnvironmentConfig
    ) -> None:
        self._connection = connection
        self._marker = marker
        self._config = config
        self._loaded: dict[str, LoadedEnvironment] = {}
        self._instances: dict[int, EnvironmentInstance] = {}
        self._queue: SimpleQueue[list[Any] | None] = SimpleQueue()
        self._side_by_side = SideBySide(lambda message: self._send([self._answer(message)]))
        self._handed_over: set[int] = set()
        """Handles of episodes that were handed to `_side_by_side`."""
        self._sending = threading.Lock()

    def run(self) -> None:
        """Execute until the server closes the socket."""
        threading.Thread(target=self._read, daemon=True).start()
        answers: list[bytes] = []
        sent = 0.0
        while (message := self._queue.get()) is not None:
            # Written before executing: if this process dies now, the server knows the culprit.
            self._marker[:] = MARKER.pack(message[1])
            if (answer := self._begin(message)) is not None:
                answers.append(answer)
            self._marker[:] = _NONE
            now = time.monotonic()
            due = self._queue.empty() or len(answers) >= _MAX_ANSWERS or now - sent > _MAX_DELAY
            if answers and due:
                self._send(answers)
                answers.clear()
                sent = now

    def _send(self, answers: list[bytes]) -> None:
        # One at a time: threads answer too.
        with self._sending:
            self._connection.sendall(frame(answers))

    def _begin(self, message: list[Any]) -> bytes | None:
        """Execute an operation; None = its environment waits, and the threads will answer."""
        op, call, handle, *arguments = message
        if op == Op.OPEN:
            # Loaded here, once, and not by whichever threads come first.
            name: str = arguments[0][0]
            try:
                with boundary(name):
                    waits = self._load(name).waits
            except CommandError as error:
                return _refuse(call, error)
            if waits:
                self._handed_over.add(handle)
        if handle not in self._handed_over:
            return self._answer(message)
        if op == Op.FORK:
            self._handed_over.add(arguments[0])
        elif op == Op.CLOSE:
            self._handed_over.discard(handle)
        self._side_by_side.submit(message)
        return None

    def _read(self) -> None:
        try:
            # A server that goes away before it has read its answers resets the socket.
            with contextlib.suppress(ConnectionError), self._connection.makefile("rb") as stream:
                self._take(stream)
        finally:
            # The server is gone: nobody needs an answer, and nobody watches a step that hangs. A
            # worker that stayed would be an orphan for ever, so it ends even inside a step.
            self._queue.put(None)
            time.sleep(_LAST_SECONDS)
            os._exit(1)

    def _take(self, stream: BinaryIO) -> None:
        """Take what the server sends until it closes the socket."""
        while header := stream.read(HEADER.size):
            (size,) = HEADER.unpack(header)
            for message in unpack(stream.read(size)):
                if message[0] == Op.CANCEL:
                    self._cancel(message[2])
                else:
                    self._queue.put(message)

    def _cancel(self, handle: int) -> None:
        instance = self._instances.get(handle)
        if instance is not None:
            with contextlib.suppress(CommandError), boundary(instance.environment.spec.name):
                instance.environment.cancel()

    def _answer(self, message: list[Any]) -> bytes:
        """[call, True, value], packed; or what `_refuse` says."""
        op, call, handle, *arguments = message
        try:
            with boundary(self._name(op, handle, arguments)):
                return pack_message([call, True, self._execute(op, handle, arguments)])
        except CommandError as error:
            return _refuse(call, error)

    def _name(self, op: int, handle: int, arguments: list[Any]) -> str:
        if op == Op.OPEN:
            return arguments[0][0]
        instance = self._instances.get(handle)
        return instance.environment.spec.name if instance else "?"

    def _execute(self, op: int, handle: int, arguments: list[Any]) -> Any:
        if op == Op.OPEN:
            return self._open(handle, arguments)
        if op == Op.CLOSE:
            instance = self._instances.pop(handle, None)
            if instance is not None:
                instance.environment.close()
            return None
        instance = self._instances[handle]
        if op == Op.STEP:
            return encode_result(instance.step(decode_input(arguments[0])))
        if op == Op.CONSULT:
            return instance.consult(Advisor(arguments[0]), arguments[1])
        if op == Op.RENDER:
            return [tuple(view) for view in instance.render()]
        self._instances[arguments[0]] = instance.fork()
        return None

    def _open(self, handle: int, arguments: list[Any]) -> list[Any]:
        reset = decode_reset(arguments[0])
        journal = [decode_input(values) for values in arguments[1]]
        instance, results = self._load(reset.environment).open(reset, journal, arguments[2])
        self._instances[handle] = instance
        return [encode_result(result) for result in results]

    def _load(self, name: str) -> LoadedEnvironment:
        if name not in self._loaded:
            self._loaded[name] = LoadedEnvironment(name, self._config)
        return self._loaded[name]


def _refuse(call: int, error: CommandError) -> bytes:
    """[call, False, reason, text, metadata], packed."""
    return pack_message([call, False, int(error.reason), error.message, error.metadata])


def main() -> None:
    """Run a worker on the inherited socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--marker-fd", type=int, required=True)
    parser.add_argument("--config", required=True, help="EnvironmentConfig and LogConfig as JSON")
    arguments = parser.parse_args()
    values = json.loads(arguments.config)
    configure_logs(LogConfig(values["log_level"], values["log_json"]))
    structlog.contextvars.bind_contextvars(worker=os.getpid())
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # Not RLIMIT_AS: a JVM reserves far more addresses than it uses.
    with contextlib.suppress(ValueError, OSError):  # whoever started the server allows less
        resource.setrlimit(resource.RLIMIT_DATA, (values["memory_limit"], hard))
    data_dir = Path(values["data_dir"]) if values["data_dir"] else None
    connection = socket.socket(fileno=arguments.fd)
    marker = mmap.mmap(arguments.marker_fd, MARKER.size)
    os.close(arguments.marker_fd)
    Worker(connection, marker, EnvironmentConfig(data_dir, values["settings"])).run()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
