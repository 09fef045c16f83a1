"""How requests get to a model server: within its limits, again where that helps, while it is up.

One sender per server owns what all its requests share: places in flight, the rates per minute, the
budget of repeats and the breaker. Every request gives its place back while it pauses. The decisions
are those of `agent_runtime.request_retry` and `agent_runtime.concurrency`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from asyncio_throttle.throttler import Throttler

from agent_runtime.answer_time import note_answer
from agent_runtime.concurrency import ConcurrencyController, Load
from agent_runtime.errors import PolicyError, PolicyOverloaded, PolicyUnavailable, Trouble
from agent_runtime.logs import get_logger
from agent_runtime.request_retry import (
    Breaker,
    Outage,
    Overdue,
    Patience,
    RequestCounts,
    RequestRetries,
    RequestRetry,
    Stop,
)

__all__ = ["RequestSender"]

_MINUTE: Final = 60.0
_THROTTLE_INTERVAL: Final = 0.05
_TOKEN_STEPS: Final = 600
"""Into how many steps a minute's tokens are divided: the throttle counts events, not amounts."""
_NO_REQUESTS_FAULT: Final = frozenset({Trouble.DOWN, Trouble.REFUSED})
"""Anything else that only one request meets may be of that request's own making."""

T = TypeVar("T")
log = get_logger(__name__)


class RequestSender:
    """Sends the requests of one policy to one server."""

    def __init__(
        self,
        server: str,
        retry: RequestRetry,
        concurrency: ConcurrencyController,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        watch: bool = True,
    ) -> None:
        """Describe the limits.

        Args:
            server: Its address, for logs.
            retry: How requests are repeated.
            concurrency: Says how many may be in flight.
            requests_per_minute: Requests started in any minute; None = no limit.
            tokens_per_minute: Tokens asked for in any minute; None = no limit.
            watch: Find out by requests whether the server is down, or has forgotten one; not for
                engines that are asked how they are.
        """
        self.counts = RequestCounts(limit=concurrency.limit)
        self._server = server
        self._retry = retry
        self._retries = RequestRetries(retry)
        self._breaker = Breaker(retry)
        self._victims = 0
        """Requests that have failed since the last good answer."""
        self._patience = Patience()
        self._watching = watch and retry.seconds > 0
        self._back = asyncio.Event()
        """Set, and replaced, when waiting requests are to look at the breaker again."""
        self._concurrency = concurrency
        self._limiter = CapacityLimiter(concurrency.limit)
        self._requests = _throttle(requests_per_minute)
        self._tokens = _throttle(tokens_per_minute and min(tokens_per_minute, _TOKEN_STEPS))
        self._token_step = max(1.0, (tokens_per_minute or 1) / _TOKEN_STEPS)
        # Throttles poll: under the lock one request polls at a time, in order of arrival.
        self._throttle_lock = asyncio.Lock()

    @property
    def concurrency_limit(self) -> int:
        """Requests that may be in flight at once."""
        return int(self._limiter.total_tokens)

    @property
    def in_flight(self) -> int:
        """Requests in flight; above the limit for a while after it was lowered."""
        return self._limiter.borrowed_tokens

    @property
    def waiting(self) -> int:
        """Requests that wait for others to end."""
        return self._limiter.statistics().tasks_waiting

    def outage(self) -> Outage | None:
        """Return since when and why the server is down; None = it is up, or a probe is due."""
        now, breaker = time.monotonic(), self._breaker
        if not breaker.open:
            return None
        seconds = breaker.down_seconds(now)
        servers_own = breaker.trouble in _NO_REQUESTS_FAULT or self._victims > 1
        over = servers_own and seconds >= self._retry.seconds
        if not over and not breaker.blocked(now):
            return None
        return Outage(self._server, breaker.reason, seconds, over)

    def observe(self, load: Load) -> None:
        """Adapt the number of requests in flight to what engines report."""
        self.set_limit(self._concurrency.observe(load, self.in_flight), **load.as_fields())

    def set_limit(self, limit: int, **fields: Any) -> None:
        """Change the number of requests in flight, and log the change with what caused it."""
        before = self.concurrency_limit
        if limit == before:
            return
        self._limiter.total_tokens = self.counts.limit = limit
        log.info(
            "concurrency limit changed",
            server=self._server,
            before=before,
            limit=limit,
            signal=self._concurrency.signal.value,
            in_flight=self.in_flight,
            **fields,
        )

    async def send(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        before: Callable[[], Awaitable[object]] | None = None,
        tokens: int = 0,
        repeats: Counter[str] | None = None,
    ) -> T:
        """Send a request until it is answered, or given up.

        Args:
            attempt: Sends it once and reads the answer. An error that has a `trouble` is repeated.
            before: Awaited before each attempt, without holding a place.
            tokens: What it may cost, for the limit of tokens per minute.
            repeats: Counts the repeats by reason.

        Returns:
            What `attempt` returned.

        Raises:
            PolicyError: The last error: it is not to be repeated, or was often enough.
        """
        troubles: Counter[Trouble] = Counter()
        failing_since = 0.0
        while True:
            if before is not None:
                await before()
            try:
                return await self._send_once(attempt, tokens, troubles, repeats)
            except PolicyError as error:
                if error.trouble is None or not self._retry.seconds:
                    raise
                now = time.monotonic()
                self._victims += not failing_since
                failing_since = failing_since or now
                troubles[error.trouble] += 1
                elapsed = now - failing_since
                decision = self._retries.decide(
                    troubles, elapsed=elapsed, retry_after=error.retry_after
                )
                if isinstance(decision, Stop):
                    raise self._give_up(error, decision, troubles, elapsed) from error
                self._count_repeat(error.trouble, str(error), repeats, delay=decision.delay)
            await asyncio.sleep(decision.delay)

    def _count_repeat(
        self, trouble: Trouble, reason: str, repeats: Counter[str] | None, *, delay: float
    ) -> None:
        self.counts.resent[trouble.value] += 1
        if repeats is not None:
            repeats[trouble.value] += 1
        log.info("request resent", trouble=trouble.value, reason=reason, delay=round(delay, 3))

    def _give_up(
        self, error: PolicyError, why: Stop, troubles: Counter[Trouble], elapsed: float
    ) -> PolicyError:
        """Return what to raise: an error that playing the episode anew would only repeat."""
        self.counts.given_up += 1
        sent = troubles.total()
        reasons = ", ".join(f"{name} {count}" for name, count in troubles.most_common())
        log.warning("request given up", why=why.value, sends=sent, reason=str(error))
        text = f"{error} (the last of {sent} answers in {elapsed:.0f} s: {reasons}; {why})"
        final = type(error)(text)
        final.retriable = False
        return final

    async def _send_once(
        self,
        attempt: Callable[[], Awaitable[T]],
        tokens: int,
        troubles: Counter[Trouble],
        repeats: Counter[str] | None,
    ) -> T:
        async with self._place():
            probe = await self._pass_breaker()
            try:
                answer, seconds = await self._ask(attempt, tokens, troubles, repeats)
            except PolicyError as error:
                self._note_failure(error, probe=probe)
                raise
            except BaseException:  # given up by whoever asked: it says nothing of the server
                if probe:
                    self._breaker.left()
                    self._wake()
                raise
            self._note_answer(seconds)
            return answer

    async def _ask(
        self,
        attempt: Callable[[], Awaitable[T]],
        tokens: int,
        troubles: Counter[Trouble],
        repeats: Counter[str] | None,
    ) -> tuple[T, float]:
        """Send a request, at once again when its answer is late; returns the answer's seconds, too.

        It keeps its place meanwhile: the connection of the one before is closed, so that no more
        are in flight, and it has waited for its turn already.
        """
        while True:
            await self._keep_rates(tokens)
            started = time.monotonic()
            watch = _Watch(partial(self._look, troubles, self._breaker.pauses))
            try:
                async with watch:
                    return await attempt(), time.monotonic() - started
            except TimeoutError:
                if watch.overdue is None:
                    raise
                waited = time.monotonic() - started
            text = f"{self._server} did not answer within {waited:.1f} s, and never took so long"
            if watch.overdue is Overdue.SILENT:
                raise PolicyUnavailable(text, trouble=Trouble.TIMEOUT)
            # A server that answers others so quickly is not down: the breaker is told nothing.
            troubles[Trouble.TIMEOUT] += 1
            self._count_repeat(Trouble.TIMEOUT, text, repeats, delay=0.0)

    def _look(self, troubles: Mapping[Trouble, int], pauses: int, waited: float) -> Overdue | float:
        if not self._watching:
            return math.inf
        return self._patience.look(
            waited,
            timeouts=troubles.get(Trouble.TIMEOUT, 0),
            pauses=pauses,
            hurry=lambda: not self._breaker.open and self._retries.hurry(troubles),
        )

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[None]:
        # Not on behalf of the task: an abandoned stream may be closed by another one.
        borrower = object()
        await self._limiter.acquire_on_behalf_of(borrower)
        try:
            yield
        finally:
            self._limiter.release_on_behalf_of(borrower)

    async def _pass_breaker(self) -> bool:
        """Wait while the server is down; returns whether this request is to find out."""
        while blocked := self._breaker.blocked(now := time.monotonic()):
            outage = self.outage()
            if outage is not None and outage.over:
                text = f"{self._server} has been down for {outage.seconds:.0f} s: {outage.reason}"
                raise PolicyUnavailable(text)
            left = self._retry.seconds - self._breaker.down_seconds(now)
            pause = min(blocked, left if left > 0 else math.inf)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if pause == math.inf else pause):
                    await self._back.wait()
        return self._breaker.enter()

    def _wake(self) -> None:
        """Let the requests that wait for the server look again."""
        self._back.set()
        self._back = asyncio.Event()

    def _note_answer(self, seconds: float) -> None:
        self.counts.answered += 1
        note_answer(seconds)
        self._retries.answered()
        self._patience.answered(seconds)
        self.set_limit(self._concurrency.answered(seconds, self.in_flight))
        self._note_alive()

    def _note_alive(self) -> None:
        self._victims = 0
        down = self._breaker.down_seconds(time.monotonic())
        if self._breaker.answered():
            log.warning("model server is back", server=self._server, seconds=round(down, 3))
            self._wake()

    def _note_failure(self, error: PolicyError, *, probe: bool) -> None:
        if isinstance(error, PolicyOverloaded):
            self.set_limit(self._concurrency.refused(self.in_flight))
        trouble = error.trouble
        if trouble in (None, Trouble.INVALID, Trouble.STALE):
            self._note_alive()  # it refused this request, or said nonsense: it is there
            return
        if not self._watching:
            return
        if probe and trouble in (Trouble.BROKEN, Trouble.TIMEOUT):
            # The server is still down: that is no fault of the request which found out.
            error.trouble = trouble = Trouble.DOWN
        opened = self._breaker.failed(
            trouble, str(error), time.monotonic(), probe=probe, retry_after=error.retry_after
        )
        if opened:
            log.warning("model server is down", server=self._server, reason=str(error))
        if probe:
            self._wake()

    async def _keep_rates(self, tokens: int) -> None:
        if self._requests is None and self._tokens is None:
            return
        async with self._throttle_lock:
            if self._requests is not None:
                await self._requests.acquire()
            if self._tokens is not None:
                steps = math.ceil(tokens / self._token_step)
                # A request beyond a whole minute's tokens goes alone in its minute.
                for _ in range(min(steps, self._tokens.rate_limit)):
                    await self._tokens.acquire()


class _Watch:
    """Looks at a request now and then, and ends it with a TimeoutError when it is overdue."""

    def __init__(self, look: Callable[[float], Overdue | float]) -> None:
        """`look` is given the seconds since the request was sent, as `Patience.look` is."""
        self.overdue: Overdue | None = None
        """Why it was ended."""
        self._judge = look
        self._limit = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._since = self._loop.time()
        self._look()

    async def __aexit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._limit.__aexit__(*error)

    def _look(self) -> None:
        now = self._loop.time()
        verdict = self._judge(now - self._since)
        if isinstance(verdict, Overdue):
            self.overdue = verdict
            self._limit.reschedule(now)
        elif verdict < math.inf:
            self._timer = self._loop.call_later(verdict, self._look)


def _throttle(per_minute: int | None) -> Throttler | None:
    return None if per_minute is None else Throttler(per_minute, _MINUTE, _THROTTLE_INTERVAL)
