"""Worker processes seen from the server: calls, the watchdog, and rebuilding after a death.

A worker executes its calls in order, so the oldest unanswered call is the one executing. When that
takes longer than the step limit, the worker is killed: the culprit's episode fails, every other
episode of the worker is rebuilt from its journal on a fresh worker the next time it is used, and
its call is sent again. A worker that dies by itself is treated alike, except that the call which
was executing may try once more: it may have been an innocent bystander of a kill.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import structlog

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Advisor, EnvironmentConfig
from env_servers.server.errors import CommandError
from env_servers.server.frames import HEADER, Op, pack, read_result, unpack
from env_servers.server.live import Family, Input, Opening, Result
from env_servers.server.runners import Advised, Host, Runner, hung

__all__ = ["ProcessHost", "WorkerPool"]

log: structlog.stdlib.BoundLogger = structlog.get_logger("env_servers.processes")

_OPEN_LIMIT_SECONDS = 180.0
"""Opening may load an engine or a large index; stepping may not."""
_WATCH_SECONDS = 0.25


class WorkerDied(Exception):
    """When a call's worker is gone; `executing` tells whether this call was being executed."""

    def __init__(self, *, executing: bool) -> None:
        super().__init__("the worker process died")
        self.executing = executing


class Call:
    """A call that a worker has not answered yet."""

    __slots__ = ("future", "limit", "name")

    def __init__(self, future: asyncio.Future[Any], name: str, limit: float) -> None:
        self.future = future
        self.name = name
        self.limit = limit


class WorkerProcess:
    """One worker process and the calls in its hands, oldest first."""

    def __init__(self, pool: WorkerPool, config: EnvironmentConfig) -> None:
        self._pool = pool
        self._config = config
        self._numbers = itertools.count()
        self._calls: dict[int, Call] = {}
        self._outgoing: list[list[Any]] = []
        self._head_since = 0.0
        self._writer: asyncio.StreamWriter | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self.dead = False
        self.episodes = 0

    async def start(self) -> None:
        """Spawn the process."""
        ours, theirs = socket.socketpair()
        config = {
            "data_dir": str(self._config.data_dir or ""),
            "settings": dict(self._config.settings),
        }
        with theirs:
            command = [sys.executable, "-m", "env_servers.server.worker"]
            command += ["--fd", str(theirs.fileno()), "--config", json.dumps(config)]
            # Starting takes a millisecond; asyncio's own subprocesses would need a child watcher.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._reader_task = asyncio.create_task(self._read(reader))

    async def call(self, op: int, handle: int, *arguments: Any, name: str, limit: float) -> Any:
        """Execute an operation; raises CommandError, or WorkerDied."""
        if self.dead:
            raise WorkerDied(executing=False)
        number = next(self._numbers)
        call = Call(asyncio.get_running_loop().create_future(), name, limit)
        self._enter(number, call)
        self._send([op, number, handle, *arguments])
        return await asyncio.shield(call.future)

    def tell(self, op: int, handle: int) -> None:
        """Send an operation whose answer nobody awaits; it is watched all the same."""
        if self.dead:
            return
        number = next(self._numbers)
        if op != Op.CANCEL:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._enter(number, Call(future, "?", self._pool.step_limit))
        self._send([op, number, handle])

    def overdue(self, now: float) -> Call | None:
        """The call that is executing for longer than its limit."""
        head = next(iter(self._calls.values()), None)
        return head if head is not None and now - self._head_since > head.limit else None

    def kill(self) -> None:
        """End the process at once; its death is noticed as any other."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    async def stop(self) -> None:
        """End the process and wait for it."""
        self.kill()
        if self._reader_task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader_task
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    def _enter(self, number: int, call: Call) -> None:
        # Whoever waited may be gone by the time the answer, or the worker's death, arrives.
        call.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not self._calls:
            self._head_since = time.monotonic()
        self._calls[number] = call

    def _send(self, message: list[Any]) -> None:
        self._outgoing.append(message)
        if len(self._outgoing) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        messages, self._outgoing = self._outgoing, []
        if self._writer is not None and not self.dead:
            self._writer.write(pack(messages))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = HEADER.unpack(await reader.readexactly(HEADER.size))
                for answer in unpack(await reader.readexactly(size)):
                    self._settle(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._bury()

    def _settle(self, answer: list[Any]) -> None:
        call = self._calls.pop(answer[0], None)
        self._head_since = time.monotonic()
        if call is None or call.future.done():
            return
        if answer[1]:
            call.future.set_result(answer[2])
        else:
            _, _, reason, text, metadata = answer
            call.future.set_exception(CommandError(reason, text, **metadata))

    def _bury(self) -> None:
        """Fail the calls of a dead worker: the first was executing, the others were waiting."""
        self.dead = True
        if self._writer is not None:
            self._writer.close()
        self._pool.forget(self)
        for position, call in enumerate(self._calls.values()):
            if not call.future.done():
                call.future.set_exception(WorkerDied(executing=position == 0))
        self._calls.clear()


class WorkerPool:
    """Worker processes, started on demand, watched, least-loaded first."""

    def __init__(self, size: int, config: EnvironmentConfig, step_limit: float) -> None:
        """`size` processes at most; `step_limit` in seconds."""
        self.size = size
        self.step_limit = step_limit
        self._config = config
        self._workers: list[WorkerProcess] = []
        self._handles = itertools.count(1)
        self._starting = asyncio.Lock()
        self._watch_task: asyncio.Task[None] | None = None
        self._closing = False
        self.restarts = 0
        """Workers that died or were killed so far."""

    def next_handle(self) -> int:
        """A number that names an environment on whichever worker it lives."""
        return next(self._handles)

    async def acquire(self) -> WorkerProcess:
        """The worker with the fewest episodes; starts one while there are fewer than `size`."""
        async with self._starting:
            if self._watch_task is None:
                self._watch_task = asyncio.create_task(self._watch())
            if len(self._workers) < self.size:
                worker = WorkerProcess(self, self._config)
                await worker.start()
                self._workers.append(worker)
                return worker
            return min(self._workers, key=lambda worker: worker.episodes)

    def forget(self, worker: WorkerProcess) -> None:
        """Drop a dead worker."""
        if worker in self._workers:
            self._workers.remove(worker)
            if not self._closing:
                self.restarts += 1
                log.warning("worker process died", episodes=worker.episodes)

    async def close(self) -> None:
        """End all workers."""
        self._closing = True
        if self._watch_task is not None:
            self._watch_task.cancel()
        await asyncio.gather(*(worker.stop() for worker in list(self._workers)))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = time.monotonic()
            for worker in self._workers:
                call = worker.overdue(now)
                if call is not None and not call.future.done():
                    log.error("environment hung, killing its worker", environment=call.name)
                    call.future.set_exception(hung(call.name, call.limit))
                    worker.kill()


class ProcessRunner(Runner):
    """An episode on a worker; its journal rebuilds it on another."""

    def __init__(self, host: ProcessHost, opening: Opening) -> None:
        self._host = host
        self._opening = opening
        self._handle = 0
        self._worker: WorkerProcess | None = None
        self._closed = False
        self._journal: Sequence[Input] = ()
        self._hashes: Sequence[bytes] = ()

    def bind(self, journal: Sequence[Input], hashes: Sequence[bytes]) -> None:
        self._journal, self._hashes = journal, hashes

    async def open(self, journal: Sequence[Input], hashes: Sequence[bytes]) -> list[Result]:
        """Place the episode on a worker and play the journal."""
        retried = False
        while True:
            try:
                return await self._place(list(journal), list(hashes))
            except WorkerDied as death:
                if death.executing and retried:
                    raise self._killer() from death
                retried = retried or death.executing

    async def step(self, given: Input) -> Result:
        return read_result(await self._call(Op.STEP, given))

    async def consult(self, advisor: Advisor, seed: int) -> Advised:
        action, thought, reply = await self._call(Op.CONSULT, int(advisor), seed)
        return action, thought, reply

    async def fork(self) -> Runner:
        copy = ProcessRunner(self._host, self._opening)
        copy._handle = self._host.pool.next_handle()
        await self._call(Op.FORK, copy._handle)
        copy._worker = self._worker
        if copy._worker is not None:
            copy._worker.episodes += 1
        return copy

    def cancel(self) -> None:
        if self._worker is not None:
            self._worker.tell(Op.CANCEL, self._handle)

    def close(self) -> None:
        if self._worker is not None and not self._closed:
            self._closed = True
            self._worker.episodes -= 1
            self._worker.tell(Op.CLOSE, self._handle)

    async def _call(self, op: int, *arguments: Any) -> Any:
        """Execute on the episode's worker, rebuilding the episode where its worker died."""
        retried = False
        while True:
            if self._worker is None or self._worker.dead:
                await self._rebuild()
            worker = self._worker
            assert worker is not None
            try:
                return await worker.call(
                    op,
                    self._handle,
                    *arguments,
                    name=self._opening.environment,
                    limit=self._host.pool.step_limit,
                )
            except WorkerDied as death:
                if death.executing and retried:
                    raise self._killer() from death
                retried = retried or death.executing

    async def _rebuild(self) -> None:
        if not self._host.spec.deterministic:
            raise CommandError(
                pb.ERROR_REASON_WORKER_LOST,
                f"the worker of this {self._opening.environment} episode died, and the environment "
                "is not deterministic: play the episode again",
            )
        await self.open(self._journal, self._hashes)

    async def _place(self, journal: list[Input], hashes: list[bytes]) -> list[Result]:
        pool = self._host.pool
        worker = await pool.acquire()
        self._handle, self._worker = pool.next_handle(), worker
        worker.episodes += 1
        # Workers resolve environments as this server did, by the name that it was given.
        opening = [self._host.family.name, *self._opening[1:4]]
        opening += [int(self._opening.action_format), self._opening.options]
        results = await worker.call(
            Op.OPEN,
            self._handle,
            opening,
            journal,
            hashes,
            name=self._opening.environment,
            limit=max(_OPEN_LIMIT_SECONDS, pool.step_limit),
        )
        return [read_result(result) for result in results]

    def _killer(self) -> CommandError:
        return CommandError(
            pb.ERROR_REASON_ENVIRONMENT_CRASHED,
            f"environment {self._opening.environment} killed its worker process twice",
        )


class ProcessHost(Host):
    """Executes environments in worker processes."""

    def __init__(self, family: Family, pool: WorkerPool) -> None:
        super().__init__(family)
        self.pool = pool

    async def open(
        self, opening: Opening, journal: Sequence[Input], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        runner = ProcessRunner(self, opening)
        return runner, await runner.open(journal, hashes)
