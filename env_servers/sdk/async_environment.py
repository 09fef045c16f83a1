"""The base of environments that wait for others: a browser, a service, a model that judges.

Their operations are coroutines on one event loop of the process, where all its episodes wait side
by side. The loop runs in a thread of its own, so that to the runtime such an environment is like
any other; a worker process starts the next episode's operation while this one waits.
"""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar

from env_servers.sdk.environment import Environment
from env_servers.sdk.types import Advice, Execution, Observation, ResetOptions, Task
from env_servers.sdk.views import View

__all__ = ["AsyncEnvironment"]

T = TypeVar("T")


class _LoopThread:
    """The event loop of this process's environments, started when the first one needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result, in any thread but the loop's own."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: an environment that still waits must not keep the process alive.
                threading.Thread(
                    target=self._loop.run_forever, name="environments", daemon=True
                ).start()
            return self._loop


_LOOP = _LoopThread()


class AsyncEnvironment(Environment):
    """An environment whose operations are coroutines.

    A subclass implements `load_tasks`, `reset_async` and `step_async`, and of the others what it
    needs. The operations of one episode never overlap; those of different episodes do, wherever
    they await. What computes for long, or blocks, holds all of them up: such work belongs into
    `asyncio.to_thread`.

        class Shop(AsyncEnvironment):
            async def reset_async(self, task, options):
                self.page = await (await browser()).new_page()
                return Observation(await self.page.content())

    `spec.execution` is `thread` or `process`: on the server's own loop others would have to wait.
    """

    def __init_subclass__(cls, **values: Any) -> None:
        super().__init_subclass__(**values)
        spec = cls.__dict__.get("spec")
        if spec is not None and spec.execution is Execution.INLINE:
            raise TypeError(f"{cls.__name__} waits for others: its execution is thread or process")

    @abstractmethod
    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        """Start the task; as `Environment.reset`."""

    @abstractmethod
    async def step_async(self, action: str) -> Observation:
        """Apply a native action; as `Environment.step`."""

    async def close_async(self) -> None:
        """Release what this episode holds."""

    async def fork_async(self) -> Self:
        """Return an independent copy of this episode; the default copies the object."""
        return super().fork()

    async def advise_expert_async(self, seed: int) -> Advice:
        """Return the scripted expert's next action; as `Environment.advise_expert`."""
        return super().advise_expert(seed)

    async def render_async(self) -> Sequence[View]:
        """Return pictures of the state; as `Environment.render`."""
        return super().render()

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        return _LOOP.run(self.reset_async(task, options))

    def step(self, action: str) -> Observation:
        return _LOOP.run(self.step_async(action))

    def close(self) -> None:
        _LOOP.run(self.close_async())

    def fork(self) -> Self:
        return _LOOP.run(self.fork_async())

    def render(self) -> Sequence[View]:
        return _LOOP.run(self.render_async())

    def advise_expert(self, seed: int) -> Advice:
        return _LOOP.run(self.advise_expert_async(seed))
