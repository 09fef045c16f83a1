"""A worker process: executes environments for a server that may kill it at any time.

Reads operations from an inherited socket, executes them one after another, answers in order, and
notes in shared memory which one it executes. The reader thread only queues, except for
cancellations, which must reach a step that is executing.
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

__all__ = ["main"]


_MAX_ANSWERS = 64
_MAX_DELAY = 0.005
"""Seconds that an answer may wait for others while more operations are queued."""
_LAST_SECONDS = 2.0
"""For the operation that executes when the server goes away."""
_NONE = MARKER.pack(0)


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

    def run(self) -> None:
        """Execute until the server closes the socket."""
        threading.Thread(target=self._read, daemon=True).start()
        answers: list[bytes] = []
        sent = 0.0
        while (message := self._queue.get()) is not None:
            # Written before executing: if this process dies now, the server knows the culprit.
            self._marker[:] = MARKER.pack(message[1])
            answers.append(self._answer(message))
            self._marker[:] = _NONE
            now = time.monotonic()
            if self._queue.empty() or len(answers) >= _MAX_ANSWERS or now - sent > _MAX_DELAY:
                self._connection.sendall(frame(answers))
                answers.clear()
                sent = now

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
        """[call, True, value] or [call, False, reason, text, metadata], packed."""
        op, call, handle, *arguments = message
        try:
            with boundary(self._name(op, handle, arguments)):
                return pack_message([call, True, self._execute(op, handle, arguments)])
        except CommandError as error:
            return pack_message([call, False, int(error.reason), error.message, error.metadata])

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
        self._instances[arguments[0]] = instance.fork()
        return None

    def _open(self, handle: int, arguments: list[Any]) -> list[Any]:
        reset = decode_reset(arguments[0])
        if reset.environment not in self._loaded:
            self._loaded[reset.environment] = LoadedEnvironment(reset.environment, self._config)
        journal = [decode_input(values) for values in arguments[1]]
        instance, results = self._loaded[reset.environment].open(reset, journal, arguments[2])
        self._instances[handle] = instance
        return [encode_result(result) for result in results]


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
