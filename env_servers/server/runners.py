"""Where environments execute: on the loop and in threads (worker processes: `processes`).

A `Host` opens episodes of one environment; a `Runner` is one open episode. The operations of one
runner never overlap and happen in the order in which they were asked for; what is asked for after
`close` is refused.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Advisor, SdkError, View
from env_servers.server import errors
from env_servers.server.errors import CommandError
from env_servers.server.guard import InlineGuard, StepOverrun
from env_servers.server.inputs import StepInput
from env_servers.server.instance import (
    AdvisedReply,
    EnvironmentInstance,
    LoadedEnvironment,
    ReplayDiverged,
    ResetSpec,
    Result,
)
from env_servers.server.journal import Journal
from env_servers.server.logs import get_logger
from env_servers.server.threads import AbandonableThreadPool

__all__ = ["Host", "InlineHost", "Runner", "ThreadHost", "boundary"]

T = TypeVar("T")

log = get_logger("env_servers.runners")

_REPLAY_CHUNK = 64
"""Journal entries that are played inline before other episodes get their turn."""


def boundary(name: str) -> AbstractContextManager[None]:
    """Turn whatever an environment raises into an error of its episode: the one place for that."""
    return _Boundary(name)


class _Boundary:
    """A context manager by hand: every episode passes through half a dozen."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, CommandError | StepOverrun):
            return
        if isinstance(error, SdkError):
            raise CommandError.from_sdk(error) from error
        if isinstance(error, ReplayDiverged):
            raise errors.replay_diverged(str(error), error.at_seq) from error
        # Foreign code may raise anything.
        log.warning("environment crashed", environment=self._name, exc_info=error)
        raise errors.crashed(self._name, error) from error


class Runner(ABC):
    """One open episode, wherever it executes."""

    __slots__ = ()

    instance: EnvironmentInstance | None = None
    """Set only by inline runners: `step_now`, `consult_now` and `render_now` work, without a task
    switch."""

    def step_now(self, step_input: StepInput) -> Result:
        """Execute one step before returning; only where `instance` is set. Raises CommandError."""
        raise NotImplementedError

    def consult_now(self, advisor: Advisor, seed: int) -> AdvisedReply:
        """Ask a scripted player before returning; only where `instance` is set."""
        raise NotImplementedError

    def render_now(self) -> Sequence[View]:
        """Draw the state before returning; only where `instance` is set."""
        raise NotImplementedError

    def bind(self, episode_id: str, journal: Journal) -> None:
        """Remember the episode's growing journal, for runners that may have to rebuild it."""

    @abstractmethod
    async def step(self, step_input: StepInput) -> Result:
        """Execute one step; raises CommandError."""

    @abstractmethod
    async def consult(self, advisor: Advisor, seed: int) -> AdvisedReply:
        """Ask a scripted player for advice; raises CommandError."""

    @abstractmethod
    async def render(self) -> Sequence[View]:
        """Draw the state; raises CommandError."""

    @abstractmethod
    def fork(self) -> Awaitable[Runner]:
        """Return an independent copy of the state that this call finds; raises CommandError.

        Steps that are asked for later do not change the copy, even if it is awaited after them.
        """

    def cancel(self) -> None:
        """Ask a step that is executing to return early."""

    @abstractmethod
    def close(self) -> None:
        """Release the environment."""


class Host(ABC):
    """Opens episodes of one environment."""

    def __init__(self, loaded: LoadedEnvironment) -> None:
        self.loaded = loaded
        self.spec = loaded.spec
        self.steps = 0
        """Steps executed so far, for metrics."""
        self.observe: Callable[[float], None] | None = None
        """Hears of the seconds of every step; None = nobody measures, and no clock is read."""

    async def prepare(self) -> None:
        """Wait until the task set is prepared, away from the loop; raises CommandError."""
        if not self.loaded.prepared:
            with boundary(self.spec.name):
                await asyncio.to_thread(self.loaded.prepare)

    @abstractmethod
    async def open(
        self, reset: ResetSpec, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        """Start an episode and play a journal; raises CommandError."""

    def open_now(
        self, reset: ResetSpec, hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]] | None:
        """Start an episode before returning; None = only `open` can. Raises CommandError."""
        return None

    async def step(self, runner: Runner, step_input: StepInput) -> Result:
        """Execute a step of one of this host's runners away from the loop; raises CommandError."""
        self.steps += 1
        if self.observe is None:
            return await runner.step(step_input)
        started = time.perf_counter()
        try:
            return await runner.step(step_input)
        finally:
            self.observe(time.perf_counter() - started)


class InlineRunner(Runner):
    """Executes on the loop, under the guard."""

    # Thousands of episodes do not fit a cache: with slots a step reaches for fewer places.
    __slots__ = ("_cell", "_cells", "_guard", "_host", "_instance", "_item_id", "instance")

    def __init__(self, host: InlineHost, instance: EnvironmentInstance, item_id: str) -> None:
        self._host = host
        self._guard = host.guard
        self._cells, self._cell = host.guard.cells, host.cell
        self._instance = instance
        self._item_id = item_id
        self.instance = instance

    def step_now(self, step_input: StepInput) -> Result:
        host, guard, cells, cell = self._host, self._guard, self._cells, self._cell
        if host.observe is not None:
            return self._timed(step_input, host.observe)
        # `InlineHost.call` without its overhead: what it costs every step would be felt.
        guard.serial = serial = guard.serial + 1
        cells[cell] = serial
        try:
            result = self._instance.step(step_input)
        except BaseException as error:
            cells[cell] = 0
            raise host.classify_error(error, self._item_id) from error
        cells[cell] = 0
        host.steps += 1
        return result

    def _timed(self, step_input: StepInput, observe: Callable[[float], None]) -> Result:
        started = time.perf_counter()
        try:
            return self._host.call(lambda: self._instance.step(step_input), self._item_id)
        finally:
            self._host.steps += 1
            observe(time.perf_counter() - started)

    async def step(self, step_input: StepInput) -> Result:
        return self.step_now(step_input)

    def consult_now(self, advisor: Advisor, seed: int) -> AdvisedReply:
        return self._host.call(lambda: self._instance.consult(advisor, seed), self._item_id)

    async def consult(self, advisor: Advisor, seed: int) -> AdvisedReply:
        return self.consult_now(advisor, seed)

    def render_now(self) -> Sequence[View]:
        return self._host.call(self._instance.render, self._item_id)

    async def render(self) -> Sequence[View]:
        return self.render_now()

    def fork(self) -> Awaitable[Runner]:
        # Copied now, not when the answer is awaited: later steps must not be in the copy.
        copy = self._host.call(self._instance.fork, self._item_id)
        return _done(InlineRunner(self._host, copy, self._item_id))

    def close(self) -> None:
        self._host.call(self._instance.environment.close, self._item_id)


async def _done(value: T) -> T:
    return value


class InlineHost(Host):
    """Executes environments on the loop."""

    def __init__(self, loaded: LoadedEnvironment, guard: InlineGuard) -> None:
        super().__init__(loaded)
        self.guard = guard
        self.limit = guard.limit
        self.cell = guard.cell(self.spec.name)
        self.on_overrun: Callable[[InlineHost, str], None] | None = None
        """Hears of a call that was interrupted: this host, and the item that was played."""
        self.successor: Host | None = None
        """Where the environment runs since a call was interrupted."""

    async def open(
        self, reset: ResetSpec, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        successor = self.successor
        if successor is None:
            try:
                return await self._open(reset, journal, hashes)
            except CommandError as error:
                successor = self._moved_by(error)
        return await successor.open(reset, journal, hashes)

    def open_now(
        self, reset: ResetSpec, hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]] | None:
        if not self.loaded.prepared or self.successor is not None:
            return None
        try:
            instance, first = self.call(lambda: self.loaded.begin(reset, hashes), reset.item_id)
        except CommandError as error:
            self._moved_by(error)
            return None
        return InlineRunner(self, instance, reset.item_id), [first]

    def _moved_by(self, error: CommandError) -> Host:
        """Return where the environment runs since the call that raised this; else raise it."""
        if error.reason != pb.ERROR_REASON_ENVIRONMENT_HUNG or self.successor is None:
            raise error
        return self.successor

    async def _open(
        self, reset: ResetSpec, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        await self.prepare()
        instance, first = self.call(lambda: self.loaded.begin(reset, hashes), reset.item_id)
        results = [first]
        try:
            for start in range(0, len(journal), _REPLAY_CHUNK):
                await asyncio.sleep(0)
                chunk = self._replay(instance, journal, hashes, start)
                results += self.call(chunk, reset.item_id)
        except BaseException:
            instance.abandon()
            raise
        return InlineRunner(self, instance, reset.item_id), results

    def _replay(
        self,
        instance: EnvironmentInstance,
        journal: Sequence[StepInput],
        hashes: Sequence[bytes],
        start: int,
    ) -> Callable[[], list[Result]]:
        chunk = journal[start : start + _REPLAY_CHUNK]
        return lambda: instance.replay(chunk, hashes, start + 1)

    def classify_error(self, error: BaseException, item_id: str) -> CommandError:
        """Return the error of an episode whose environment raised this.

        Raises what is not the environment's fault, such as a cancellation.
        """
        try:
            with boundary(self.spec.name):
                raise error
        except StepOverrun:
            return self._overrun(item_id)
        except CommandError as classified:
            return classified

    def _overrun(self, item_id: str) -> CommandError:
        if self.on_overrun is not None:
            self.on_overrun(self, item_id)
        return errors.hung(self.spec.name, self.limit)

    def call(self, work: Callable[[], T], item_id: str) -> T:
        """Run environment code now; raises CommandError."""
        guard, cell = self.guard, self.cell
        guard.serial += 1
        guard.cells[cell] = guard.serial
        try:
            with boundary(self.spec.name):
                return work()
        except StepOverrun:
            guard.cells[cell] = 0
            raise self._overrun(item_id) from None
        finally:
            guard.cells[cell] = 0


class ThreadRunner(Runner):
    """Executes in threads of the pool, one operation at a time."""

    def __init__(self, host: ThreadHost, instance: EnvironmentInstance) -> None:
        self._host = host
        # Not `instance`: that would promise that it may be used on the loop.
        self._environment_instance = instance
        self._turn = asyncio.Lock()
        self._closed = False
        self._hung = False

    async def step(self, step_input: StepInput) -> Result:
        return await self._call(lambda: self._environment_instance.step(step_input))

    async def consult(self, advisor: Advisor, seed: int) -> AdvisedReply:
        return await self._call(lambda: self._environment_instance.consult(advisor, seed))

    async def render(self) -> Sequence[View]:
        return await self._call(self._environment_instance.render)

    async def fork(self) -> Runner:
        return ThreadRunner(self._host, await self._call(self._environment_instance.fork))

    def cancel(self) -> None:
        with boundary(self._host.spec.name):
            self._environment_instance.environment.cancel()

    def close(self) -> None:
        self._closed = True
        if not self._turn.locked():
            self._release()
            return
        task = asyncio.get_running_loop().create_task(self._close_later())
        self._host.closing.add(task)
        task.add_done_callback(self._host.closing.discard)

    async def _close_later(self) -> None:
        async with self._turn:
            self._release()

    def _release(self) -> None:
        """Close the environment, unless a thread that never came back may still be inside it."""

        def close() -> None:
            with boundary(self._host.spec.name):
                self._environment_instance.environment.close()

        if not self._hung:
            self._host.pool.submit(close)

    async def _call(self, work: Callable[[], T]) -> T:
        async with self._turn:
            if self._closed:
                raise errors.closed()
            if self._hung:
                raise errors.hung(self._host.spec.name, self._host.step_limit)
            try:
                return await self._host.call(work)
            except CommandError as error:
                self._hung = error.reason == pb.ERROR_REASON_ENVIRONMENT_HUNG
                raise


class ThreadHost(Host):
    """Executes environments in threads."""

    def __init__(
        self, loaded: LoadedEnvironment, pool: AbandonableThreadPool, step_limit: float
    ) -> None:
        super().__init__(loaded)
        self.pool = pool
        self.step_limit = step_limit
        self.closing: set[asyncio.Task[None]] = set()
        """Closes that wait for an operation to end."""

    async def open(
        self, reset: ResetSpec, journal: Sequence[StepInput], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        instance, results = await self.call(lambda: self.loaded.open(reset, journal, hashes))
        return ThreadRunner(self, instance), results

    async def call(self, work: Callable[[], T]) -> T:
        """Run environment code in a thread; raises CommandError."""
        item = self.pool.submit(work)
        future = asyncio.wrap_future(item.future)
        remaining = self.step_limit
        while not (await asyncio.wait({future}, timeout=max(remaining, 0.01)))[0]:
            remaining = self.step_limit - item.running_for()
            if remaining <= 0 and self.pool.abandon(item):
                raise errors.hung(self.spec.name, self.step_limit)
        with boundary(self.spec.name):
            return future.result()
