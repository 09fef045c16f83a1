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
import socket
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from env_servers.sdk import Advisor, EnvironmentConfig
from env_servers.server.errors import CommandError
from env_servers.server.frames import (
    HEADER,
    MARKER,
    Op,
    frame,
    pack_message,
    read_input,
    read_opening,
    unpack,
    write_result,
)
from env_servers.server.live import Family, LiveEnvironment
from env_servers.server.logs import configure_logs
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
        self._families: dict[str, Family] = {}
        self._live: dict[int, LiveEnvironment] = {}
        self._queue: SimpleQueue[list[Any] | None] = SimpleQueue()

    def run(self) -> None:
        """Execute until the server closes the socket."""
        threading.Thread(target=self._read, daemon=True).start()
        answers: list[bytes] = []
        sent = 0.0
        while (message := self._queue.get()) is not None:
            self._marker[:] = MARKER.pack(message[1])
            answers.append(self._answer(message))
            self._marker[:] = _NONE
            now = time.monotonic()
            if self._queue.empty() or len(answers) >= _MAX_ANSWERS or now - sent > _MAX_DELAY:
                self._connection.sendall(frame(answers))
                answers.clear()
                sent = now

    def _read(self) -> None:
        with self._connection.makefile("rb") as stream:
            while header := stream.read(HEADER.size):
                (size,) = HEADER.unpack(header)
                for message in unpack(stream.read(size)):
                    if message[0] == Op.CANCEL:
                        self._cancel(message[2])
                    else:
                        self._queue.put(message)
        # The server is gone: nobody needs an answer, and nobody watches a step that hangs.
        self._queue.put(None)
        time.sleep(_LAST_SECONDS)
        os._exit(1)

    def _cancel(self, handle: int) -> None:
        live = self._live.get(handle)
        if live is not None:
            with contextlib.suppress(CommandError), boundary(live.environment.spec.name):
                live.environment.cancel()

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
        live = self._live.get(handle)
        return live.environment.spec.name if live else "?"

    def _execute(self, op: int, handle: int, arguments: list[Any]) -> Any:
        if op == Op.OPEN:
            return self._open(handle, arguments)
        if op == Op.CLOSE:
            live = self._live.pop(handle, None)
            if live is not None:
                live.environment.close()
            return None
        live = self._live[handle]
        if op == Op.STEP:
            return write_result(live.step(read_input(arguments[0])))
        if op == Op.CONSULT:
            return live.consult(Advisor(arguments[0]), arguments[1])
        self._live[arguments[0]] = live.fork()
        return None

    def _open(self, handle: int, arguments: list[Any]) -> list[Any]:
        opening = read_opening(arguments[0])
        if opening.environment not in self._families:
            self._families[opening.environment] = Family(opening.environment, self._config)
        journal = [read_input(value) for value in arguments[1]]
        live, results = self._families[opening.environment].open(opening, journal, arguments[2])
        self._live[handle] = live
        return [write_result(result) for result in results]


def main() -> None:
    """Run a worker on the inherited socket."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--marker-fd", type=int, required=True)
    parser.add_argument("--config", required=True, help="EnvironmentConfig as JSON")
    arguments = parser.parse_args()
    configure_logs()
    values = json.loads(arguments.config)
    data_dir = Path(values["data_dir"]) if values["data_dir"] else None
    connection = socket.socket(fileno=arguments.fd)
    marker = mmap.mmap(arguments.marker_fd, MARKER.size)
    os.close(arguments.marker_fd)
    Worker(connection, marker, EnvironmentConfig(data_dir, values["settings"])).run()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
