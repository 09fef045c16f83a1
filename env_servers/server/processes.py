"""Worker processes seen from the server: calls, the watchdog, and rebuilding after a death.

A worker notes the number of the call that it executes in memory shared with the server, so that
the server knows the culprit of a hang or a death although answers are coalesced. A call that takes
longer than its limit gets its worker killed: the culprit's episode fails, every other episode of
the worker is rebuilt from its journal on another worker the next time it is used, and its call is
sent again. A worker that dies by itself is treated alike, except that the call which was executing
may try once more: it may have been an innocent bystander of a kill.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import mmap
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import structlog

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Advisor, EnvironmentConfig
from env_servers.server.errors import CommandError
from env_servers.server.frames import HEADER, MARKER, Op, pack, read_result, unpack
from env_servers.server.live import Family, Input, Opening, Result
from env_servers.server.runners import Advised, Host, Runner, closed, hung

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
        self._numbers = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._outgoing: list[list[Any]] = []
        self._head_since = 0.0
        self._seen = 0
        self._seen_since = 0.0
        self._marker = mmap.mmap(-1, MARKER.size)
        self._writer: asyncio.StreamWriter | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self.dead = False
        self.episodes = 0

    async def start(self) -> None:
        """Spawn the process."""
        ours, theirs = socket.socketpair()
        marker = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, the mapping stays
        marker.truncate(MARKER.size)
        self._marker = mmap.mmap(marker.fileno(), MARKER.size)
        config = {
            "data_dir": str(self._config.data_dir or ""),
            "settings": dict(self._config.settings),
        }
        with theirs, marker:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - asyncio cannot pass fds
                [
                    *(sys.executable, "-m", "env_servers.server.worker"),
                    *("--fd", str(theirs.fileno()), "--marker-fd", str(marker.fileno())),
                    *("--config", json.dumps(config)),
                ],
                pass_fds=[theirs.fileno(), marker.fileno()],
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

    def tell(self, op: int, handle: int, name: str) -> None:
        """Send an operation whose answer nobody awaits; it is watched all the same."""
        if self.dead:
            return
        number = next(self._numbers)
        if op != Op.CANCEL:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._enter(number, Call(future, name, self._pool.step_limit))
        self._send([op, number, handle])

    def overdue(self, now: float) -> Call | None:
        """The call that is executing for longer than its limit; ask regularly."""
        number = self._executing()
        if number != self._seen:
            self._seen, self._seen_since = number, now
        call = self._calls.get(number)
        if call is not None:
            return call if now - self._seen_since > call.limit else None
        # Nothing executes: the worker is starting, unless it takes for ever.
        head = next(iter(self._calls.values()), None)
        waited = now - self._head_since
        return head if head is not None and waited > max(head.limit, _OPEN_LIMIT_SECONDS) else None

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

    def _executing(self) -> int:
        """Number of the call that the worker executes; 0 = none."""
        (number,) = MARKER.unpack(self._marker[:])
        return number

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
        """Fail the calls of a dead worker: one was executing, the others were waiting."""
        self.dead = True
        if self._writer is not None:
            self._writer.close()
        self._pool.forget(self)
        executing = self._executing()
        for number, call in self._calls.items():
            if not call.future.done():
                call.future.set_exception(WorkerDied(executing=number == executing))
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
            if self._closing:
                raise CommandError(
                    pb.ERROR_REASON_WORKER_LOST, "the server is stopping: its workers are gone"
                )
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
        self._placing = asyncio.Lock()
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
        values, _ = await self._call(Op.STEP, given)
        return read_result(values)

    async def consult(self, advisor: Advisor, seed: int) -> Advised:
        (action, thought, reply), _ = await self._call(Op.CONSULT, int(advisor), seed)
        return action, thought, reply

    async def fork(self) -> Runner:
        handle = self._host.pool.next_handle()
        _, worker = await self._call(Op.FORK, handle)
        return self._host.adopt(self._opening, worker, handle)

    def settle(self, worker: WorkerProcess, handle: int) -> None:
        """Live on a worker from now on, under a handle that it knows."""
        self._worker, self._handle = worker, handle
        worker.episodes += 1

    def cancel(self) -> None:
        if self._worker is not None:
            self._worker.tell(Op.CANCEL, self._handle, self._opening.environment)

    def close(self) -> None:
        self._closed = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.episodes -= 1
            worker.tell(Op.CLOSE, self._handle, self._opening.environment)

    async def _call(self, op: int, *arguments: Any) -> tuple[Any, WorkerProcess]:
        """Execute on the episode's worker; returns the answer and who gave it.

        Rebuilds the episode where its worker died; raises CommandError.
        """
        retried = False
        while True:
            worker = self._worker
            if worker is None or worker.dead:
                worker = await self._rebuild()
            try:
                answer = await worker.call(
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
            else:
                return answer, worker

    async def _rebuild(self) -> WorkerProcess:
        """The worker that holds the episode again; one rebuild at a time."""
        async with self._placing:
            if self._closed:
                raise closed()
            if self._worker is not None and not self._worker.dead:
                return self._worker
            if not self._host.spec.deterministic:
                raise CommandError(
                    pb.ERROR_REASON_WORKER_LOST,
                    f"the worker of this {self._opening.environment} episode died, and the "
                    "environment is not deterministic: play the episode again",
                )
            await self.open(self._journal, self._hashes)
            if self._worker is None:  # closed meanwhile
                raise closed()
            return self._worker

    async def _place(self, journal: list[Input], hashes: list[bytes]) -> list[Result]:
        pool, name = self._host.pool, self._opening.environment
        worker = await pool.acquire()
        handle = pool.next_handle()
        # Workers resolve environments as this server did, by the name that it was given.
        opening = [self._host.family.name, *self._opening[1:4]]
        opening += [int(self._opening.action_format), self._opening.options]
        worker.episodes += 1
        try:
            results = await worker.call(
                Op.OPEN,
                handle,
                opening,
                journal,
                hashes,
                name=name,
                limit=max(_OPEN_LIMIT_SECONDS, pool.step_limit),
            )
        finally:
            worker.episodes -= 1
        if self._closed:
            worker.tell(Op.CLOSE, handle, name)
        else:
            self.settle(worker, handle)
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

    def adopt(self, opening: Opening, worker: WorkerProcess, handle: int) -> Runner:
        """The runner of an environment that a worker holds already."""
        runner = ProcessRunner(self, opening)
        runner.settle(worker, handle)
        return runner
