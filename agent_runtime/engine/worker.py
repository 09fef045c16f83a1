"""A thread that steps the engine, and how coroutines reach it.

Owns the only thread that touches the engine: everything else is an order that the thread carries
out between two steps. Invariant: every accepted request is answered once, also when the engine dies
or the thread is closed. Thousands of requests may wait; what ends in one step wakes the event loop
once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from agent_runtime.engine.checkpoint import digest
from agent_runtime.engine.engine import Ended, Engine
from agent_runtime.engine.generation import GenerationRequest, GenerationResult
from agent_runtime.engine.scheduling import Generation
from agent_runtime.errors import AgentRuntimeError, PolicyUnavailable
from agent_runtime.sampling import FinishReason

__all__ = ["EngineThread"]

_CLOSED: Final = "the embedded engine is closed"
T = TypeVar("T")
Answer = GenerationResult | AgentRuntimeError
Progress = Callable[[GenerationResult], None]


@dataclass(frozen=True, slots=True)
class _Order:
    """Something to do between two steps."""

    run: Callable[[Engine], None]
    fail: Callable[[AgentRuntimeError], None] = lambda _error: None
    """Called instead where the engine is no more."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """One request and who waits for it; `generation` is the engine thread's."""

    request: GenerationRequest
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[GenerationResult]
    progress: Progress | None = None
    generation: Generation | None = field(default=None)
    started: float | None = None
    """When it got a slot, by time.monotonic; None = it waits."""
    shown: int = 0
    """Tokens of which `progress` was told."""


class EngineThread:
    """An engine at work."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        """`make` is called in the thread, so that it may set the thread up. See `ready`."""
        self._wake = threading.Condition()
        self._orders: deque[_Order] = deque()
        self._tickets: dict[Generation, _Ticket] = {}
        self._watched: set[_Ticket] = set()
        """Tickets whose progress somebody wants to see."""
        self._paused = False
        self._closing = False
        self._death: PolicyUnavailable | None = None
        self._ready: concurrent.futures.Future[Engine] = concurrent.futures.Future()
        self._over: concurrent.futures.Future[PolicyUnavailable] = concurrent.futures.Future()
        self._thread = threading.Thread(
            target=self._run, args=(make,), name="embedded-engine", daemon=True
        )
        self._thread.start()

    async def ready(self) -> Engine:
        """Wait until the engine is made; raises what making it raised.

        Of the engine, read what never changes; all else goes through `call`.
        """
        # Shielded: whoever gives up waiting must not cancel it for the others and the thread.
        return await asyncio.shield(asyncio.wrap_future(self._ready))

    async def over(self) -> PolicyUnavailable:
        """Wait until the thread works no more; why it does not."""
        return await asyncio.shield(asyncio.wrap_future(self._over))

    async def generate(
        self,
        request: GenerationRequest,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> GenerationResult:
        """One reply; a cancelled call is aborted in the engine.

        `timeout` counts seconds since the request got a slot: waiting for one is no failure.
        `progress` is called in the event loop after each step that sampled a token, with what
        there would be if the reply was aborted now.
        Raises PolicyUnavailable when they are over or the engine has stopped, else what
        `Engine.submit` raises, and PolicyMisbehaved for logits that are no numbers.
        """
        loop = asyncio.get_running_loop()
        ticket = _Ticket(request, loop, loop.create_future(), progress)
        self._order(
            lambda engine: self._submit(engine, ticket),
            lambda error: _answer_all([(ticket, error)]),
        )
        try:
            return await self._answer(ticket, timeout)
        finally:
            if not ticket.answer.done() or ticket.answer.cancelled():
                ticket.answer.cancel()
                self._order_quietly(lambda engine: self._abort(engine, ticket))

    async def call(self, work: Callable[[Engine], T]) -> T:
        """Do something with the engine between two steps. Raises what it raises."""
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def settle(attempt: Callable[[], T]) -> None:
            if done.set_running_or_notify_cancel():
                _settle(done, attempt)

        self._order(
            lambda engine: settle(lambda: work(engine)),
            lambda error: settle(lambda: _throw(error)),
        )
        return await asyncio.wrap_future(done)

    def release(self, episode: str) -> None:
        """The episode is over; never blocks, and is no error after the end."""
        self._order_quietly(lambda engine: engine.release(episode))

    async def pause(self) -> None:
        """Stop stepping after the current step; requests wait, `call` still works."""
        await self.call(lambda _engine: self._set_paused(True))

    async def resume(self) -> None:
        """Go on stepping."""
        await self.call(lambda _engine: self._set_paused(False))

    async def abort(self, wanted: Callable[[GenerationRequest], bool] = lambda _: True) -> None:
        """End what waits or runs now, or those of it for whose request `wanted` holds.

        Each is answered with the tokens that it has.
        """
        await self.call(lambda engine: self._give_back(engine, wanted))

    async def update_weights(
        self,
        weights: str | Path | Mapping[str, Any],
        *,
        version: str = "",
        keep_cache: bool = False,
        abort: bool = False,
    ) -> str:
        """Swap the weights between two steps; see `EmbeddedPolicy.update_weights`."""
        if isinstance(weights, str | Path):
            folder = Path(weights)
            version = version or await asyncio.to_thread(digest, folder)
            backend = (await self.ready()).backend
            weights = await asyncio.to_thread(backend.read, folder)
        tensors = weights

        def swap(engine: Engine) -> None:
            engine.update_weights(tensors, version, keep_cache=keep_cache)
            if abort:
                self._give_back(engine, lambda _request: True)

        await self.call(swap)
        return version

    async def close(self) -> None:
        """End the thread; what is under way fails with PolicyUnavailable."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    async def _answer(self, ticket: _Ticket, timeout: float | None) -> GenerationResult:
        if timeout is None:
            return await ticket.answer
        while not ticket.answer.done():
            started = ticket.started
            left = timeout if started is None else started + timeout - time.monotonic()
            if left <= 0:
                raise PolicyUnavailable(f"no reply within {timeout:g} s of generating")
            await asyncio.wait({ticket.answer}, timeout=left)
        return ticket.answer.result()

    def _order(
        self,
        run: Callable[[Engine], None],
        fail: Callable[[AgentRuntimeError], None] = lambda _error: None,
    ) -> None:
        with self._wake:
            if self._death is not None:
                raise PolicyUnavailable(str(self._death))
            if self._closing:
                raise PolicyUnavailable(_CLOSED)
            self._orders.append(_Order(run, fail))
            self._wake.notify()

    def _order_quietly(self, run: Callable[[Engine], None]) -> None:
        """An order that has no meaning when the engine is no more."""
        with contextlib.suppress(PolicyUnavailable):
            self._order(run)

    def _set_paused(self, paused: bool) -> None:
        self._paused = paused

    def _run(self, make: Callable[[], Engine]) -> None:
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
        except Exception as error:  # noqa: BLE001 (boundary: a dead engine fails all its requests)
            self._end(PolicyUnavailable(f"the embedded engine died: {error!r}"))

    def _loop(self, engine: Engine) -> None:
        idle = True
        while True:
            with self._wake:
                while idle and not self._orders and not self._closing:
                    self._wake.wait()
                if self._closing:
                    return
            for _ in range(len(self._orders)):
                # Taken out when it is done: one that ends the engine is to be failed with the rest.
                self._orders[0].run(engine)
                self._orders.popleft()
            if not self._paused:
                self._deliver(engine.step())
                self._mark_started()
                self._show_progress()
            idle = self._paused or not self._tickets

    def _submit(self, engine: Engine, ticket: _Ticket) -> None:
        if ticket.answer.cancelled():
            return
        try:
            generation = engine.submit(ticket.request)
        except AgentRuntimeError as error:
            _answer_all([(ticket, error)])
            return
        ticket.generation = generation
        self._tickets[generation] = ticket
        if ticket.progress is not None:
            self._watched.add(ticket)

    def _abort(self, engine: Engine, ticket: _Ticket) -> None:
        """Its asker has gone."""
        if ticket.generation is not None:
            engine.abort(ticket.generation)
            self._tickets.pop(ticket.generation, None)
            self._watched.discard(ticket)

    def _give_back(self, engine: Engine, wanted: Callable[[GenerationRequest], bool]) -> None:
        given: list[Ended] = []
        for generation in [it for it in self._tickets if wanted(it.request)]:
            result = engine.abort(generation)
            if result is not None:
                given.append(Ended(generation, result))
        self._deliver(given)

    def _show_progress(self) -> None:
        shown: dict[asyncio.AbstractEventLoop, list[tuple[Progress, GenerationResult]]] = {}
        for ticket in self._watched:
            generation, progress = ticket.generation, ticket.progress
            if generation is None or progress is None or generation.length == ticket.shown:
                continue
            ticket.shown = generation.length
            news = generation.result(FinishReason.ABORT)
            shown.setdefault(ticket.loop, []).append((progress, news))
        for loop, news in shown.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_tell, news)

    def _mark_started(self) -> None:
        now = time.monotonic()
        for generation, ticket in self._tickets.items():
            if ticket.started is None and generation.slot is not None:
                ticket.started = now

    def _deliver(self, ended: Sequence[Ended]) -> None:
        answers = [
            (ticket, it.outcome)
            for it in ended
            if (ticket := self._tickets.pop(it.generation, None)) is not None
        ]
        self._watched.difference_update(ticket for ticket, _ in answers)
        _answer_all(answers)

    def _end(self, error: PolicyUnavailable) -> None:
        """Nobody is to wait for a thread that is no more."""
        with self._wake:
            self._death = error
            orders = list(self._orders)
            self._orders.clear()
        _answer_all([(ticket, error) for ticket in self._tickets.values()])
        self._tickets.clear()
        self._watched.clear()
        for order in orders:
            order.fail(error)
        self._over.set_result(error)


def _throw(error: AgentRuntimeError) -> NoReturn:
    raise error


def _settle(done: concurrent.futures.Future[T], work: Callable[[], T]) -> None:
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001 (boundary: it is raised where the call is awaited)
        done.set_exception(error)


def _tell(news: Sequence[tuple[Progress, GenerationResult]]) -> None:
    for progress, result in news:
        progress(result)


def _answer_all(answers: Sequence[tuple[_Ticket, Answer]]) -> None:
    """Wake each event loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[_Ticket, Answer]]] = {}
    for ticket, answer in answers:
        loops.setdefault(ticket.loop, []).append((ticket, answer))
    for loop, own in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(answers: Sequence[tuple[_Ticket, Answer]]) -> None:
    for ticket, answer in answers:
        if ticket.answer.done():
            continue
        if isinstance(answer, GenerationResult):
            ticket.answer.set_result(answer)
        else:
            ticket.answer.set_exception(answer)
