"""Where environments execute: on the loop, in threads, in worker processes.

A `Host` opens episodes of one environment; a `Runner` is one open episode. Runners execute and
report; they know nothing of sequence numbers, leases or streams. Invariant: the operations of one
runner never overlap and happen in the order in which they were asked for; what is asked for after
`close` is refused.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import structlog

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.sdk import Advisor, SdkError
from env_servers.server.errors import CommandError
from env_servers.server.guard import InlineGuard, StepOverrun
from env_servers.server.live import (
    Family,
    Input,
    LiveEnvironment,
    Opening,
    ReplayDiverged,
    Result,
)
from env_servers.server.threads import ThreadCrew

__all__ = [
    "Advised",
    "Host",
    "InlineHost",
    "Runner",
    "ThreadHost",
    "boundary",
    "closed",
    "crashed",
    "hung",
]

T = TypeVar("T")
Advised = tuple[str, str, str]
"""A scripted player's (action, thought, rendered reply)."""

log: structlog.stdlib.BoundLogger = structlog.get_logger("env_servers.runners")

_REPLAY_CHUNK = 64
"""Journal entries that are played inline before other episodes get their turn."""


def crashed(name: str, error: BaseException) -> CommandError:
    """The error of an environment whose code raised."""
    return CommandError(
        pb.ERROR_REASON_ENVIRONMENT_CRASHED,
        f"environment {name} raised {type(error).__name__}: {error}",
    )


def hung(name: str, limit: float) -> CommandError:
    """The error of an environment that was reclaimed."""
    return CommandError(
        pb.ERROR_REASON_ENVIRONMENT_HUNG,
        f"environment {name} did not answer within {limit:g} s and was reclaimed",
    )


def closed() -> CommandError:
    """The error of an operation that its episode did not live to see."""
    return CommandError(
        pb.ERROR_REASON_CANCELLED, "the episode was closed", may_have_been_applied="true"
    )


@contextmanager
def boundary(name: str) -> Generator[None]:
    """The one place where whatever an environment raises becomes an error of its episode."""
    try:
        yield
    except (CommandError, StepOverrun):
        raise
    except SdkError as error:
        raise CommandError.from_sdk(error) from error
    except ReplayDiverged as error:
        raise CommandError(
            pb.ERROR_REASON_REPLAY_DIVERGED, str(error), at_seq=error.at_seq
        ) from error
    except Exception as error:  # boundary: foreign code may raise anything
        log.warning("environment crashed", environment=name, exc_info=True)
        raise crashed(name, error) from error


class Runner(ABC):
    """One open episode, wherever it executes."""

    live: LiveEnvironment | None = None
    """Set only by inline runners: `step_now` works, and the hot path needs no task switch."""

    def step_now(self, given: Input) -> Result:
        """Execute one step before returning; only where `live` is set. Raises CommandError."""
        raise NotImplementedError

    def bind(self, journal: Sequence[Input], hashes: Sequence[bytes]) -> None:
        """Remember the episode's growing journal, for runners that may have to rebuild it."""

    @abstractmethod
    async def step(self, given: Input) -> Result:
        """Execute one step; raises CommandError."""

    @abstractmethod
    async def consult(self, advisor: Advisor, seed: int) -> Advised:
        """A scripted player's advice; raises CommandError."""

    @abstractmethod
    def fork(self) -> Awaitable[Runner]:
        """An independent copy of the state that this call finds; raises CommandError.

        Steps that are asked for later do not change the copy, even if it is awaited after them.
        """

    def cancel(self) -> None:
        """Ask a step that is executing to return early."""

    @abstractmethod
    def close(self) -> None:
        """Release the environment."""


class Host(ABC):
    """Opens episodes of one environment."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.spec = family.spec
        self.steps = 0
        """Steps executed so far, for metrics."""

    @abstractmethod
    async def open(
        self, opening: Opening, journal: Sequence[Input], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        """Start an episode and play a journal; raises CommandError."""

    async def timed_step(self, runner: Runner, given: Input) -> Result:
        """A step of one of this host's runners; metrics wrap it."""
        self.steps += 1
        return await runner.step(given)


class InlineRunner(Runner):
    """Executes on the loop, under the guard."""

    def __init__(self, host: InlineHost, live: LiveEnvironment) -> None:
        self._host = host
        self._guard = host.guard
        self._live = live
        self.live = live

    def step_now(self, given: Input) -> Result:
        host, guard = self._host, self._guard
        if host.observe is not None:
            return self._timed(given, host.observe)
        # `InlineHost.call` without its overhead: what it costs every step would be felt.
        guard.serial += 1
        guard.active = True
        try:
            result = self._live.step(given)
        except BaseException as error:
            guard.active = False
            raise host.sort(error) from error
        guard.active = False
        host.steps += 1
        return result

    def _timed(self, given: Input, observe: Callable[[float], None]) -> Result:
        started = time.perf_counter()
        try:
            return self._host.call(lambda: self._live.step(given))
        finally:
            self._host.steps += 1
            observe(time.perf_counter() - started)

    async def step(self, given: Input) -> Result:
        return self.step_now(given)

    async def consult(self, advisor: Advisor, seed: int) -> Advised:
        return self._host.call(lambda: self._live.consult(advisor, seed))

    def fork(self) -> Awaitable[Runner]:
        copy = InlineRunner(self._host, self._host.call(self._live.fork))
        return _done(copy)

    def close(self) -> None:
        self._host.call(self._live.environment.close)


async def _done(value: T) -> T:
    return value


class InlineHost(Host):
    """Executes environments on the loop."""

    def __init__(self, family: Family, guard: InlineGuard, step_limit: float) -> None:
        super().__init__(family)
        self.guard = guard
        self.step_limit = step_limit
        self.observe: Callable[[float], None] | None = None
        """Where metrics want to see the seconds of every step."""

    async def open(
        self, opening: Opening, journal: Sequence[Input], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        live, first = self.call(lambda: self.family.begin(opening, hashes))
        results = [first]
        try:
            for start in range(0, len(journal), _REPLAY_CHUNK):
                await asyncio.sleep(0)
                results += self._replay(live, journal, hashes, start)
        except BaseException:
            live.abandon()
            raise
        return InlineRunner(self, live), results

    def _replay(
        self,
        live: LiveEnvironment,
        journal: Sequence[Input],
        hashes: Sequence[bytes],
        start: int,
    ) -> list[Result]:
        chunk = journal[start : start + _REPLAY_CHUNK]
        return self.call(lambda: live.replay(chunk, hashes, start + 1))

    def sort(self, error: BaseException) -> CommandError:
        """The error of an episode whose environment raised this; raises what is not its fault."""
        try:
            with boundary(self.spec.name):
                raise error
        except StepOverrun:
            return hung(self.spec.name, self.step_limit)
        except CommandError as sorted_error:
            return sorted_error

    def call(self, work: Callable[[], T]) -> T:
        """Run environment code now; raises CommandError."""
        guard = self.guard
        guard.serial += 1
        guard.active = True
        try:
            with boundary(self.spec.name):
                return work()
        except StepOverrun:
            raise hung(self.spec.name, self.step_limit) from None
        finally:
            guard.active = False


class ThreadRunner(Runner):
    """Executes in threads of the crew, one operation at a time."""

    def __init__(self, host: ThreadHost, live: LiveEnvironment) -> None:
        self._host = host
        self._live = live
        self._turn = asyncio.Lock()
        self._closed = False
        self._hung = False

    async def step(self, given: Input) -> Result:
        return await self._call(lambda: self._live.step(given))

    async def consult(self, advisor: Advisor, seed: int) -> Advised:
        return await self._call(lambda: self._live.consult(advisor, seed))

    async def fork(self) -> Runner:
        return ThreadRunner(self._host, await self._call(self._live.fork))

    def cancel(self) -> None:
        with boundary(self._host.spec.name):
            self._live.environment.cancel()

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
                self._live.environment.close()

        if not self._hung:
            self._host.crew.submit(close)

    async def _call(self, work: Callable[[], T]) -> T:
        async with self._turn:
            if self._closed:
                raise closed()
            if self._hung:
                raise hung(self._host.spec.name, self._host.step_limit)
            try:
                return await self._host.call(work)
            except CommandError as error:
                self._hung = error.reason == pb.ERROR_REASON_ENVIRONMENT_HUNG
                raise


class ThreadHost(Host):
    """Executes environments in threads."""

    def __init__(self, family: Family, crew: ThreadCrew, step_limit: float) -> None:
        super().__init__(family)
        self.crew = crew
        self.step_limit = step_limit
        self.closing: set[asyncio.Task[None]] = set()
        """Closes that wait for an operation to end."""

    async def open(
        self, opening: Opening, journal: Sequence[Input], hashes: Sequence[bytes]
    ) -> tuple[Runner, list[Result]]:
        live, results = await self.call(lambda: self.family.open(opening, journal, hashes))
        return ThreadRunner(self, live), results

    async def call(self, work: Callable[[], T]) -> T:
        """Run environment code in a thread; raises CommandError."""
        ticket = self.crew.submit(work)
        future = asyncio.wrap_future(ticket.future)
        remaining = self.step_limit
        while not (await asyncio.wait({future}, timeout=max(remaining, 0.01)))[0]:
            remaining = self.step_limit - ticket.running_for()
            if remaining <= 0 and self.crew.abandon(ticket):
                raise hung(self.spec.name, self.step_limit)
        with boundary(self.spec.name):
            return future.result()
