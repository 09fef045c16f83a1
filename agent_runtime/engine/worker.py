"""The thread that steps the engine, and how coroutines reach it.

Only that thread touches the engine; all other work is queued and done between two steps.
Invariant: every accepted request is answered once, also when the engine dies or the thread is
closed. Thousands of requests may wait; those that end in one step wake their event loop once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.engine import FinishedGeneration, InferenceEngine, load_engine
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.scheduling import Generation
from agent_runtime.errors import AgentRuntimeError, PolicyUnavailable
from agent_runtime.logs import get_logger
from agent_runtime.sampling import FinishReason

__all__ = ["EngineThread", "start_engine"]

_CLOSED: Final = "the embedded engine is closed"
T = TypeVar("T")
Outcome = GenerationResult | AgentRuntimeError
Progress = Callable[[GenerationResult], None]
log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _WorkItem:
    """Work for the engine's thread between two steps."""

    run: Callable[[InferenceEngine], None]
    fail: Callable[[AgentRuntimeError], None] = lambda _error: None
    """Called instead where the engine has stopped."""


@dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request and the coroutine that waits for it."""

    request: GenerationRequest
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[GenerationResult]
    progress: Progress | None = None
    wanted: Callable[[], bool] = lambda: True
    generation: Generation | None = None
    """Only for the engine's thread."""
    started_at: float | None = None
    """When it got a cache slot, by time.monotonic; None = it waits for one."""
    reported: int = 0
    """Tokens that `progress` was called with."""


class EngineThread:
    """An engine that runs in a thread of its own; use `start_engine`."""

    def __init__(self, make: Callable[[], InferenceEngine]) -> None:
        """Start the thread, which calls `make` first; see `ready`."""
        self._wake = threading.Condition()
        self._work: deque[_WorkItem] = deque()
        self._pending: dict[Generation, _PendingRequest] = {}
        self._watched: set[_PendingRequest] = set()
        """Those with a `progress` callback."""
        self._paused = False
        self._closing = False
        self._death: PolicyUnavailable | None = None
        self._ready: concurrent.futures.Future[InferenceEngine] = concurrent.futures.Future()
        self._stopped: concurrent.futures.Future[PolicyUnavailable] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=self._run, args=(make,), name="embedded-engine", daemon=True
        )
        self._thread.start()

    async def ready(self) -> InferenceEngine:
        """Wait until the engine is made, and return it; raises what making it raised.

        Read only what never changes of the engine here; everything else goes through `call`.
        """
        # Shielded: a caller that gives up waiting must not cancel the future for the others.
        return await asyncio.shield(asyncio.wrap_future(self._ready))

    async def wait_stopped(self) -> PolicyUnavailable:
        """Wait until the thread has stopped; return the reason."""
        return await asyncio.shield(asyncio.wrap_future(self._stopped))

    async def generate(
        self,
        request: GenerationRequest,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> GenerationResult:
        """Generate one reply; cancelling the call aborts it in the engine.

        Args:
            request: What to generate.
            timeout: Seconds since the request got a cache slot; waiting for one does not count.
            progress: Called in the event loop after each step that sampled a token, with the
                result as if the reply was aborted now.
            wanted: Asked by the engine's thread before it tells the progress of a step.

        Raises:
            PolicyUnavailable: The timeout is over or the engine has stopped.
            PolicyMisbehaved: The weights give logits that are not finite.
            ContextOverflow, PolicyMisconfigured: See `InferenceEngine.submit`.
        """
        loop = asyncio.get_running_loop()
        pending = _PendingRequest(request, loop, loop.create_future(), progress, wanted)
        self._enqueue(
            lambda engine: self._submit(engine, pending),
            lambda error: _resolve_all([(pending, error)]),
        )
        try:
            return await self._wait(pending, timeout)
        finally:
            if not pending.future.done() or pending.future.cancelled():
                pending.future.cancel()
                self._enqueue_quietly(lambda engine: self._abort(engine, pending))

    async def call(self, work: Callable[[InferenceEngine], T]) -> T:
        """Run `work` in the engine's thread between two steps; returns or raises what it does."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def settle(attempt: Callable[[], T]) -> None:
            if done.set_running_or_notify_cancel():
                _settle(done, attempt)

        self._enqueue(
            lambda engine: settle(lambda: work(engine)),
            lambda error: settle(lambda: _throw(error)),
        )
        return await asyncio.wrap_future(done)

    def release(self, episode_id: str) -> None:
        """Note that the episode is over; never blocks, and does nothing after the engine's end."""
        self._enqueue_quietly(lambda engine: engine.release(episode_id))

    async def pause(self) -> None:
        """Stop stepping after the current step; requests wait, `call` still works."""
        await self.call(lambda _engine: self._set_paused(True))

    async def resume(self) -> None:
        """Start stepping again."""
        await self.call(lambda _engine: self._set_paused(False))

    async def abort(self, matches: Callable[[GenerationRequest], bool] = lambda _: True) -> None:
        """End the requests that wait or run now and match; each returns the tokens it has."""
        await self.call(lambda engine: self._abort_matching(engine, matches))

    async def update_weights(
        self,
        weights: str | Path | Mapping[str, Any],
        *,
        version: str = "",
        keep_cache: bool = False,
        abort: bool = False,
    ) -> str:
        """Replace the weights between two steps; returns their version.

        Running generations continue with the new weights, each token under the version that
        sampled it.

        Args:
            weights: A checkpoint folder, or the backend's tensors by name.
            version: Needed for tensors; a folder's default is its digest.
            keep_cache: Go on using keys and values of the old weights.
            abort: End all requests afterwards; each returns the tokens it has.

        Raises:
            PolicyMisconfigured: Weights of another model, or no version; nothing has changed then.
            PolicyUnavailable: The engine has stopped.
        """
        if isinstance(weights, str | Path):
            folder = Path(weights)
            version = version or await asyncio.to_thread(weights_digest, folder)
            backend = (await self.ready()).backend
            weights = await asyncio.to_thread(backend.read_weights, folder)
        tensors = weights

        def swap(engine: InferenceEngine) -> None:
            engine.update_weights(tensors, version, keep_cache=keep_cache)
            if abort:
                self._abort_matching(engine, lambda _request: True)

        await self.call(swap)
        log.info("weights updated", version=version, keep_cache=keep_cache, aborted=abort)
        return version

    async def close(self) -> None:
        """Stop the thread; requests under way fail with PolicyUnavailable."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    async def _wait(self, pending: _PendingRequest, timeout: float | None) -> GenerationResult:
        if timeout is None:
            return await pending.future
        while not pending.future.done():
            started_at = pending.started_at
            left = timeout if started_at is None else started_at + timeout - time.monotonic()
            if left <= 0:
                raise PolicyUnavailable(f"no reply within {timeout:g} s of generating")
            await asyncio.wait({pending.future}, timeout=left)
        return pending.future.result()

    def _enqueue(
        self,
        run: Callable[[InferenceEngine], None],
        fail: Callable[[AgentRuntimeError], None] = lambda _error: None,
    ) -> None:
        with self._wake:
            if self._death is not None:
                raise PolicyUnavailable(str(self._death))
            if self._closing:
                raise PolicyUnavailable(_CLOSED)
            self._work.append(_WorkItem(run, fail))
            self._wake.notify()

    def _enqueue_quietly(self, run: Callable[[InferenceEngine], None]) -> None:
        """Queue work that needs no answer and is pointless once the engine has stopped."""
        with contextlib.suppress(PolicyUnavailable):
            self._enqueue(run)

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused

    def _run(self, make: Callable[[], InferenceEngine]) -> None:
        try:
            engine = make()
        except Exception as error:  # noqa: BLE001 (boundary: it is raised where `ready` is awaited)
            self._end(PolicyUnavailable(f"the embedded engine did not start: {error}"))
            self._ready.set_exception(error)
            return
        self._ready.set_result(engine)
        try:
            self._loop(engine)
            self._end(PolicyUnavailable(_CLOSED))
            engine.close()
        except Exception as error:
            log.exception("embedded engine died", pending=len(self._pending))
            self._end(PolicyUnavailable(f"the embedded engine died: {error!r}"))

    def _loop(self, engine: InferenceEngine) -> None:
        idle = True
        while True:
            with self._wake:
                while idle and not self._work and not self._closing:
                    self._wake.wait()
                if self._closing:
                    return
            for _ in range(len(self._work)):
                # Removed only when done: work that kills the engine has to fail like the rest.
                self._work[0].run(engine)
                self._work.popleft()
            if not self._paused:
                self._deliver(engine.step())
                self._mark_started()
                self._publish_progress()
            idle = self._paused or not self._pending

    def _submit(self, engine: InferenceEngine, pending: _PendingRequest) -> None:
        if pending.future.cancelled():
            return
        try:
            generation = engine.submit(pending.request)
        except AgentRuntimeError as error:
            _resolve_all([(pending, error)])
            return
        pending.generation = generation
        self._pending[generation] = pending
        if pending.progress is not None:
            self._watched.add(pending)

    def _abort(self, engine: InferenceEngine, pending: _PendingRequest) -> None:
        """End a request whose caller was cancelled or timed out."""
        if pending.generation is not None:
            engine.abort(pending.generation)
            self._pending.pop(pending.generation, None)
            self._watched.discard(pending)

    def _abort_matching(
        self, engine: InferenceEngine, matches: Callable[[GenerationRequest], bool]
    ) -> None:
        finished: list[FinishedGeneration] = []
        for generation in list(self._pending):
            result = engine.abort(generation) if matches(generation.request) else None
            if result is not None:
                finished.append(FinishedGeneration(generation, result))
        self._deliver(finished)

    def _publish_progress(self) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Progress, GenerationResult]]] = {}
        # Asked first, and of all at once: in a run, most have a callback that nobody wants called.
        for pending in [pending for pending in self._watched if pending.wanted()]:
            generation, progress = pending.generation, pending.progress
            if generation is None or progress is None or generation.length == pending.reported:
                continue
            pending.reported = generation.length
            partial = generation.result(FinishReason.ABORT)
            by_loop.setdefault(pending.loop, []).append((progress, partial))
        for loop, partials in by_loop.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_report_progress, partials)

    def _mark_started(self) -> None:
        now = time.monotonic()
        for generation, pending in self._pending.items():
            if pending.started_at is None and generation.slot is not None:
                pending.started_at = now

    def _deliver(self, finished: Sequence[FinishedGeneration]) -> None:
        outcomes = [
            (pending, each.outcome)
            for each in finished
            if (pending := self._pending.pop(each.generation, None)) is not None
        ]
        self._watched.difference_update(pending for pending, _ in outcomes)
        _resolve_all(outcomes)

    def _end(self, error: PolicyUnavailable) -> None:
        """Fail whatever waits for the thread, now and later."""
        with self._wake:
            self._death = error
            work = list(self._work)
            self._work.clear()
        _resolve_all([(pending, error) for pending in self._pending.values()])
        self._pending.clear()
        self._watched.clear()
        for item in work:
            item.fail(error)
        self._stopped.set_result(error)


async def start_engine(
    folder: Path, options: EmbeddedOptions, decode: Callable[[Sequence[int]], str]
) -> EngineThread:
    """Load a checkpoint folder into an engine and return its thread, ready for requests.

    Args:
        folder: `config.json` and safetensors files.
        options: Backend, device and sizes.
        decode: Gives the text of ids.

    Raises:
        PolicyMisconfigured: The folder holds no usable model, or the backend's extra is missing.
    """
    thread = EngineThread(lambda: load_engine(folder, options, decode))
    try:
        await thread.ready()
    except BaseException:
        await thread.close()
        raise
    return thread


def _throw(error: AgentRuntimeError) -> NoReturn:
    raise error


def _settle(done: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001 (boundary: it is raised where the call is awaited)
        done.set_exception(error)


def _report_progress(partials: Sequence[tuple[Progress, GenerationResult]]) -> None:
    for progress, result in partials:
        progress(result)


def _resolve_all(outcomes: Sequence[tuple[_PendingRequest, Outcome]]) -> None:
    """Answer requests, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_PendingRequest, Outcome]]] = {}
    for pending, outcome in outcomes:
        by_loop.setdefault(pending.loop, []).append((pending, outcome))
    for loop, own in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(outcomes: Sequence[tuple[_PendingRequest, Outcome]]) -> None:
    for pending, outcome in outcomes:
        if pending.future.done():
            continue
        if isinstance(outcome, GenerationResult):
            pending.future.set_result(outcome)
        else:
            pending.future.set_exception(outcome)
