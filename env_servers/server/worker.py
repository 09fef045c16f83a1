"""A worker process: executes environments for a server that may kill it at any time.

Reads operations from an inherited socket, executes them one after another, answers in order. The
reader thread only queues, except for cancellations, which must reach a step that is executing.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from env_servers.sdk import Advisor, EnvironmentConfig
from env_servers.server.errors import CommandError
from env_servers.server.frames import (
    HEADER,
    Op,
    pack,
    read_input,
    read_opening,
    unpack,
    write_result,
)
from env_servers.server.live import Family, LiveEnvironment
from env_servers.server.logs import configure_logs
from env_servers.server.runners import boundary

__all__ = ["main"]


class Worker:
    """Live environments by handle, and the socket to the server."""

    def __init__(self, connection: socket.socket, config: EnvironmentConfig) -> None:
        self._connection = connection
        self._config = config
        self._families: dict[str, Family] = {}
        self._live: dict[int, LiveEnvironment] = {}
        self._queue: SimpleQueue[list[Any] | None] = SimpleQueue()

    def run(self) -> None:
        """Execute until the server closes the socket."""
        threading.Thread(target=self._read, daemon=True).start()
        answers: list[list[Any]] = []
        while (message := self._queue.get()) is not None:
            answers.append(self._answer(message))
            if self._queue.empty() or len(answers) >= 64:
                self._connection.sendall(pack(answers))
                answers.clear()

    def _read(self) -> None:
        with self._connection.makefile("rb") as stream:
            while header := stream.read(HEADER.size):
                (size,) = HEADER.unpack(header)
                for message in unpack(stream.read(size)):
                    if message[0] == Op.CANCEL:
                        self._cancel(message[2])
                    else:
                        self._queue.put(message)
        self._queue.put(None)

    def _cancel(self, handle: int) -> None:
        live = self._live.get(handle)
        if live is not None:
            live.environment.cancel()

    def _answer(self, message: list[Any]) -> list[Any]:
        """[call, True, value] or [call, False, reason, text, metadata]."""
        op, call, handle, *arguments = message
        try:
            with boundary(self._name(op, handle, arguments)):
                return [call, True, self._execute(op, handle, arguments)]
        except CommandError as error:
            return [call, False, int(error.reason), error.message, error.metadata]

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
            return live.environment.close() if live else None
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
    parser.add_argument("--config", required=True, help="EnvironmentConfig as JSON")
    arguments = parser.parse_args()
    configure_logs()
    values = json.loads(arguments.config)
    data_dir = Path(values["data_dir"]) if values["data_dir"] else None
    connection = socket.socket(fileno=arguments.fd)
    Worker(connection, EnvironmentConfig(data_dir, values["settings"])).run()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
