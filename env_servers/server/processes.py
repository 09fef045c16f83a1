"""Worker processes seen from the server: calls, the watchdog, and rebuilding after a death.

A worker notes the number of the call that it executes in memory shared with the server, so that
the server knows the culprit of a hang or a death although answers are coalesced. A call that takes
longer than its limit gets its worker killed: the culprit's episode fails, every other episode of
the worker is rebuilt from its journal on another worker the next time it is used, and its call is
sent again. A worker that dies by itself is treated alike, except that the call which was executing
may try once more: it may have been an innocent bystander of a kill.

The calls of environments that wait for others execute side by side. They are timed from when they
were sent, and where a worker dies by itself, any of them may be the culprit: they are sent again
one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from env_servers.sdk import Advisor, EnvironmentConfig, MediaType, View
from env_servers.server import errors
from env_servers.server.errors import CommandError
from env_servers.server.frames import (
    HEADER,
    MARKER,
    Op,
    decode_result,
    encode_reset,
    pack,
    unpack,
)
from env_servers.server.inputs import StepInput, encode_input
from env_servers.server.instance import AdvisedReply, LoadedEnvironment, ResetSpec, Result
from env_servers.server.journal import Journal
from env_servers.server.logs import LogConfig, get_logger
from env_servers.server.respawn import RespawnPolicy
from env_servers.server.runners import Host, Runner

__all__ = ["ProcessHost", "ProcessRunner", "WorkerPool"]

log = get_logger("env_servers.processes")

_WORKER_COMMAND = (sys.executable, "-m", "env_servers.server.worker")
_OPEN_LIMIT_SECONDS = 180.0
"""Opening may load an engine or a large index; stepping may not."""
_WATCH_SECONDS = 0.25
_STALL_SECONDS = 20.0
"""A worker that has executed before begins the next call at once, however busy the machine is."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_EXIT_POLLS = 50
_EXIT_POLL_SECONDS = 0.02
"""A dead worker's socket closes a little before its exit status can be read."""


class WorkerDied(Exception):
    """Raised when a call's worker is gone; `executing`: this very call was being executed."""

    def __init__(self, *, executing: bool) -> None:
        super().__init__("the worker process died")
        self.executing = executing


class Call:
    """A call that a worker has not answered yet."""

    __slots__ = ("environment", "episode_id", "future", "limit", "sent")

    def __init__(
        self, future: asyncio.Future[Any], environment: str, episode_id: str, limit: float
    ) -> None:
        """`limit` in seconds of execution."""
        self.sent = time.monotonic()
        self.future = future
        self.environment = environment
        self.episode_id = episode_id
        self.limit = limit


class WorkerProcess:
    """One worker process and the calls that it has not answered, oldest first."""

    def __init__(self, pool: WorkerPool, config: EnvironmentConfig, log_config: LogConfig) -> None:
        self._pool = pool
        self._config = config
        self._log_config = log_config
        self._numbers = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._side_by_side: dict[int, Call] = {}
        """Calls that do not wait for those before them."""
        self._outgoing: list[list[Any]] = []
        self._head_since = 0.0
        self._seen = 0
        self._seen_since = 0.0
        self._marker = mmap.mmap(-1, MARKER.size)
        self._writer: asyncio.StreamWriter | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._culprit_known = False
        self.dead = False
        self.has_executed = False
        """It has answered at least one call: it started well."""
        self.episodes = 0

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Spawn the process."""
        ours, theirs = socket.socketpair()
        marker = tempfile.TemporaryFile()  # noqa: SIM115 - closed below, the mapping stays
        marker.truncate(MARKER.size)
        self._marker = mmap.mmap(marker.fileno(), MARKER.size)
        config = {
            "data_dir": str(self._config.data_dir or ""),
            "settings": dict(self._config.settings),
            # More than the watch allows: it comes first where memory grows step by step, and the
            # worker's other episodes are rebuilt. This stops a single step that asks for too much.
            "memory_limit": self._pool.memory_limit * 3 // 2,
            "log_level": self._log_config.level,
            "log_json": self._log_config.json,
        }
        with theirs, marker:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - asyncio cannot pass fds
                [
                    *_WORKER_COMMAND,
                    *("--fd", str(theirs.fileno()), "--marker-fd", str(marker.fileno())),
                    *("--config", json.dumps(config)),
                ],
                pass_fds=[theirs.fileno(), marker.fileno()],
                stdin=subprocess.DEVNULL,
                # Its own session: Ctrl-C in a terminal goes to the server alone, which drains.
                start_new_session=True,
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._reader_task = asyncio.create_task(self._read(reader))

    async def call(
        self,
        op: int,
        handle: int,
        *arguments: Any,
        environment: str,
        episode_id: str,
        limit: float,
        side_by_side: bool = False,
    ) -> Any:
        """Execute an operation; raises CommandError, or WorkerDied."""
        if self.dead:
            raise WorkerDied(executing=False)
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._enter(number, Call(future, environment, episode_id, limit), side_by_side)
        self._send([op, number, handle, *arguments])
        # Shielded: the answer has to be taken off the wire also when nobody waits any more.
        return await asyncio.shield(future)

    def tell(
        self, op: int, handle: int, environment: str, episode_id: str, *, side_by_side: bool = False
    ) -> None:
        """Send an operation whose answer nobody awaits; it is watched all the same."""
        if self.dead:
            return
        number = next(self._numbers)
        if op != Op.CANCEL:
            future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            call = Call(future, environment, episode_id, self._pool.step_limit)
            self._enter(number, call, side_by_side)
        self._send([op, number, handle])

    def overdue(self, now: float) -> Call | None:
        """Return the call that executes for longer than its limit; has to be asked regularly."""
        for call in self._side_by_side.values():
            if now - call.sent > call.limit:
                return call
        number = self._executing()
        if number != self._seen:
            self._seen, self._seen_since = number, now
        call = self._calls.get(number)
        if call is not None:
            return call if now - self._seen_since > call.limit else None
        # Nothing executes: the worker is starting, unless that takes for ever.
        head = next(iter(self._calls.values()), None)
        waited = now - self._head_since
        return head if head is not None and waited > max(head.limit, _OPEN_LIMIT_SECONDS) else None

    def stalled(self, now: float) -> bool:
        """Tell whether it leaves its calls lying, stopped for example; asked after `overdue`."""
        idle_since = max(self._head_since, self._seen_since)
        waits = bool(self._calls) and self.has_executed and self._seen == 0
        return waits and now - idle_since > _STALL_SECONDS

    @property
    def executing(self) -> Call | None:
        """The call that the worker executes."""
        return self._calls.get(self._executing())

    def resident(self) -> int:
        """Return the bytes of memory that the process holds; 0 where that cannot be told."""
        try:
            fields = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()
        except OSError:  # it has just ended, or there is no such file system
            return 0
        return int(fields[1]) * _PAGE_BYTES if len(fields) > 1 else 0

    def kill(self, *, culprit_known: bool = False) -> None:
        """End the process at once; its death is noticed as any other.

        With `culprit_known` the calls that wait side by side are none of its causes.
        """
        self._culprit_known = culprit_known
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

    def _enter(self, number: int, call: Call, side_by_side: bool) -> None:
        # Whoever waited may be gone by the time the answer, or the worker's death, arrives.
        call.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if side_by_side:
            self._side_by_side[number] = call
            return
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
            pass
        except Exception:  # boundary: native code of an environment may write to any descriptor
            log.exception("worker sent what is no answer", worker=self.pid)
            self.kill()
        self._on_exit()
        await self._log_exit()

    def _settle(self, answer: list[Any]) -> None:
        call = self._side_by_side.pop(answer[0], None)
        if call is None:
            call = self._calls.pop(answer[0], None)
            self._head_since = time.monotonic()
        if not self.has_executed:
            self.has_executed = True
            self._pool.respawn.record_success()
        if call is None or call.future.done():
            return
        if answer[1]:
            call.future.set_result(answer[2])
        else:
            _, _, reason, text, metadata = answer
            call.future.set_exception(CommandError(reason, text, **metadata))

    def _on_exit(self) -> None:
        """Fail the calls of a dead worker: one was executing, the others were waiting.

        All that were side by side were executing, as far as anybody knows.
        """
        self.dead = True
        if self._writer is not None:
            self._writer.close()
        executing = self._executing()
        self._marker.close()  # a descriptor that would stay until the collector comes by
        self._pool.on_exit(self, started=self.has_executed or executing != 0)
        for number, call in self._calls.items():
            if not call.future.done():
                call.future.set_exception(WorkerDied(executing=number == executing))
        for call in self._side_by_side.values():
            if not call.future.done():
                call.future.set_exception(WorkerDied(executing=not self._culprit_known))
        self._calls.clear()
        self._side_by_side.clear()

    async def _log_exit(self) -> None:
        """Reap the process, and log how it ended."""
        assert self._process is not None
        for polls in itertools.count():
            if self._process.poll() is not None:
                break
            if polls == _EXIT_POLLS:
                self._process.kill()  # it has left its server, but does not end by itself
            await asyncio.sleep(_EXIT_POLL_SECONDS)
        if not self._pool.closing:
            log.warning(
                "worker died",
                worker=self.pid,
                exit_status=self._process.returncode,
                episodes=self.episodes,
                has_executed=self.has_executed,
            )


class WorkerPool:
    """Worker processes, started on demand, watched, least-loaded first."""

    def __init__(
        self,
        size: int,
        config: EnvironmentConfig,
        step_limit: float,
        log_config: LogConfig,
        memory_limit: int,
    ) -> None:
        """`size` processes at most; `step_limit` in seconds, `memory_limit` in bytes of each."""
        self.size = size
        self.step_limit = step_limit
        self.memory_limit = memory_limit
        self.respawn = RespawnPolicy()
        self.closing = False
        self.deaths = 0
        """Workers that died or were killed so far."""
        self._config = config
        self._log_config = log_config
        self._workers: list[WorkerProcess] = []
        self._handles = itertools.count(1)
        self._starting = asyncio.Lock()
        self.suspects = asyncio.Lock()
        """Held by a call that is sent again after a death beside others: one at a time executes, so
        that the next death tells which of them was the culprit."""

    def next_handle(self) -> int:
        """Return a number that names an environment on whichever worker it lives."""
        return next(self._handles)

    async def acquire(self) -> WorkerProcess:
        """Return the worker with the fewest episodes; starts one while there are fewer than `size`.

        Raises CommandError where no worker can be started.
        """
        async with self._starting:
            now = time.monotonic()
            if not self.closing and len(self._workers) < self.size:
                delay = self.respawn.delay(now)
                if not delay:
                    return await self._spawn()
                if not self._workers:
                    if self.respawn.given_up:
                        raise errors.workers_unavailable(self.respawn.failures)
                    await asyncio.sleep(delay)
                    return await self._spawn()
            if not self._workers or self.closing:
                raise errors.workers_stopped()
            return min(self._workers, key=lambda worker: worker.episodes)

    async def _spawn(self) -> WorkerProcess:
        if self.closing:
            raise errors.workers_stopped()
        worker = WorkerProcess(self, self._config, self._log_config)
        await worker.start()
        self._workers.append(worker)
        event = "worker respawned" if self.deaths else "worker started"
        log.info(event, worker=worker.pid, workers=len(self._workers), deaths=self.deaths)
        return worker

    def on_exit(self, worker: WorkerProcess, *, started: bool) -> None:
        """Drop a dead worker; `started`: it lived to execute something."""
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        if self.closing:
            return
        self.deaths += 1
        if started:
            return
        now = time.monotonic()
        self.respawn.record_failure(now)
        failures, delay = self.respawn.failures, round(self.respawn.delay(now), 3)
        if self.respawn.given_up:
            log.error("worker respawn given up", failed_starts=failures, retry_after=delay)
        else:
            log.warning("worker respawn delayed", failed_starts=failures, delay=delay)

    async def close(self) -> None:
        """End all workers."""
        self.closing = True
        await asyncio.gather(*(worker.stop() for worker in list(self._workers)))

    async def watch(self) -> None:
        """Kill workers that hang, take no calls or hold too much memory, for ever."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            now = time.monotonic()
            for worker in list(self._workers):
                self._check_memory(worker)
                call = worker.overdue(now)
                if worker.stalled(now):
                    # Nobody's fault: its calls are sent again, to another worker.
                    log.error("worker killed, it takes no calls", worker=worker.pid)
                    worker.kill(culprit_known=True)
                    continue
                if call is not None and not call.future.done():
                    log.error(
                        "worker killed for a hung step",
                        environment=call.environment,
                        episode_id=call.episode_id,
                        worker=worker.pid,
                        limit=call.limit,
                    )
                    call.future.set_exception(errors.hung(call.environment, call.limit))
                    worker.kill(culprit_known=True)

    def _check_memory(self, worker: WorkerProcess) -> None:
        """Kill a worker that holds more than it may; it is treated as one that died by itself."""
        held = worker.resident()
        if held <= self.memory_limit:
            return
        call = worker.executing
        log.error(
            "worker killed for its memory",
            worker=worker.pid,
            held=held,
            limit=self.memory_limit,
            environment=call.environment if call else "",
            episode_id=call.episode_id if call else "",
        )
        worker.kill()


class ProcessRunner(Runner):
    """An episode on a worker; its journal rebuilds it on another."""

    def __init__(self, host: ProcessHost, reset: ResetSpec) -> None:
        self._host = host
        self._reset = reset
        self._handle = 0
        self._worker: WorkerProcess | None = None
        self._rebuilding = asyncio.Lock()
        self._closed = False
        self._episode_id = ""
        self._journal: Journal | None = None

    def bind(self, episode_id: str, journal: Journal) -> None:
        self._episode_id, self._journal = episode_id, journal

    async def open(self, journal: Sequence[StepInput], hashes: Sequence[bytes]) -> list[Result]:
        """Open the episode on a worker and play the journal; raises CommandError."""
        retried = False
        while True:
            try:
                async with self._turn(retried=retried):
                    return await self._open_once(journal, hashes)
            except WorkerDied as death:
                retried = self._check_retry(death, retried=retried)

    async def step(self, step_input: StepInput) -> Result:
        values, _ = await self._call(Op.STEP, encode_input(step_input))
        return decode_result(values)

    async def consult(self, advisor: Advisor, seed: int) -> AdvisedReply:
        (action, thought, reply), _ = await self._call(Op.CONSULT, int(advisor), seed)
        return action, thought, reply

    async def render(self) -> Sequence[View]:
        views, _ = await self._call(Op.RENDER)
        return [
            View(name, title, MediaType(media_type), content)
            for name, title, media_type, content in views
        ]

    async def fork(self) -> Runner:
        handle = self._host.pool.next_handle()
        _, worker = await self._call(Op.FORK, handle)
        copy = ProcessRunner(self._host, self._reset)
        copy.settle(worker, handle)
        return copy

    def settle(self, worker: WorkerProcess, handle: int) -> None:
        """Live on a worker from now on, under a handle that it knows."""
        self._worker, self._handle = worker, handle
        worker.episodes += 1

    def cancel(self) -> None:
        self._tell(Op.CANCEL, self._worker)

    def close(self) -> None:
        self._closed = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.episodes -= 1
            self._tell(Op.CLOSE, worker)

    def _tell(self, op: int, worker: WorkerProcess | None) -> None:
        if worker is not None:
            worker.tell(
                op,
                self._handle,
                self._reset.environment,
                self._episode_id,
                side_by_side=self._host.loaded.waits,
            )

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
                async with self._turn(retried=retried):
                    answer = await worker.call(
                        op,
                        self._handle,
                        *arguments,
                        environment=self._reset.environment,
                        episode_id=self._episode_id,
                        limit=self._host.pool.step_limit,
                        side_by_side=self._host.loaded.waits,
                    )
            except WorkerDied as death:
                retried = self._check_retry(death, retried=retried)
            else:
                return answer, worker

    def _turn(self, *, retried: bool) -> AbstractAsyncContextManager[None]:
        """Hold this while a call executes; calls that went on together are sent again in turns."""
        if retried and self._host.loaded.waits:
            return self._host.pool.suspects
        return contextlib.nullcontext()

    def _check_retry(self, death: WorkerDied, *, retried: bool) -> bool:
        """Whether the next death of an executing call is final; raises CommandError if this is.

        A call may be executing when its worker is killed for another one that hung just before:
        once proves nothing, twice does. Calls that were only waiting are always sent again.
        """
        if death.executing and retried:
            raise errors.worker_killed_twice(self._reset.environment) from death
        return retried or death.executing

    async def _rebuild(self) -> WorkerProcess:
        """The worker that holds the episode again; one rebuild at a time."""
        async with self._rebuilding:
            if self._closed:
                raise errors.closed()
            if self._worker is not None and not self._worker.dead:
                return self._worker
            if not self._host.spec.deterministic:
                raise errors.worker_lost(self._reset.environment)
            lost = self._worker.pid if self._worker is not None else 0
            journal = self._journal
            assert journal is not None, "an episode is bound before its first call"
            seq = len(journal)
            await self.open(journal.inputs_to(seq), journal.hashes_to(seq))
            if self._worker is None:  # closed meanwhile
                raise errors.closed()
            log.warning(
                "episode rebuilt",
                environment=self._reset.environment,
                episode_id=self._episode_id,
                seq=seq,
                lost_worker=lost,
                worker=self._worker.pid,
            )
            return self._worker

    async def _open_once(
        self, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> list[Result]:
        pool, environment = self._host.pool, self._reset.environment
        worker = await pool.acquire()
        handle = pool.next_handle()
        worker.episodes += 1
        try:
            results = await worker.call(
                Op.OPEN,
                handle,
                # Workers resolve environments as this server did, by the name it was started with.
                encode_reset(self._host.loaded.name, self._reset),
                [encode_input(step_input) for step_input in journal],
                list(hashes),
                environment=environment,
                episode_id=self._episode_id,
                limit=max(_OPEN_LIMIT_SECONDS, pool.step_limit),
                side_by_side=self._host.loaded.waits,
            )
        finally:
            worker.episodes -= 1
        if self._closed:
            worker.tell(
                Op.CLOSE,
                handle,
                environment,
                self._episode_id,
                side_by_side=self._host.loaded.waits,
            )
        else:
            self.settle(worker, handle)
        return [decode_result(result) for result in results]


class ProcessHost(Host):
    """Executes environments in worker processes."""

    def __init__(self, loaded: LoadedEnvironment, pool: WorkerPool) -> None:
        super().__init__(loaded)
        self.pool = pool

    async def open(
        self, reset: ResetSpec, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        runner = ProcessRunner(self, reset)
        return runner, await runner.open(journal, hashes)
