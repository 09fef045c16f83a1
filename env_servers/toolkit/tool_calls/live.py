"""Calls of real services from synchronous code, slowly enough and without ever hanging.

Each service has one event loop in a thread of its own, on which requests run under a rate limit
(asyncio-throttle) and a deadline; a step waits for them in its own thread and can be cancelled. A
service that is down, slow, or refuses for now raises `ServiceUnavailable`, so that no reward is
ever made of it.

Vendors' synchronous clients are called through `LiveService.guarded`, plain HTTP through `get`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import aiohttp
from asyncio_throttle.throttler import Throttler

from env_servers.toolkit.tool_calls.backends import ServiceUnavailable

__all__ = ["Answer", "LiveService", "Rate"]

T = TypeVar("T")

_TOO_MANY: Final = 429
_SERVER_FAULT: Final = 500
_REFUSED_KEY: Final = (401, 403)
_CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `calls` per `seconds`."""

    calls: int
    seconds: float = 1.0


class Answer(NamedTuple):
    """What a service answered: 2xx, or a 4xx that speaks of the question."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """The status is 200."""
        return self.status == 200


class LiveService:
    """One real service, shared by all episodes of a process; started at its first call."""

    def __init__(
        self,
        title: str,
        *,
        rate: Rate,
        timeout: float = 20.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`timeout` in seconds, of one call with its wait for the rate limit."""
        self.title = title
        self._rate = rate
        self._timeout = timeout
        self._headers = dict(headers or {})
        # Steps of live environments run in several threads, and `cancel` comes from another one.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._throttler: Throttler | None = None
        self._session: aiohttp.ClientSession | None = None
        self._waiting: dict[object, Future[Any]] = {}

    def get(
        self, url: str, params: Mapping[str, str | int | float], *, owner: object = None
    ) -> Answer:
        """GET; raises ServiceUnavailable. `owner` names the episode for `cancel`."""
        return self._wait(self._get(url, params), owner)

    def guarded(self, call: Callable[[], T], *, owner: object = None) -> T:
        """Run a synchronous client's call here, once the rate limit allows it.

        The client's own exceptions pass through: who knows the client translates them with
        `unavailable`.
        """
        self._wait(self._take_turn(), owner)
        return call()

    def unavailable(self, problem: str, retry_after: float | None = None) -> ServiceUnavailable:
        """Return the error of a service that cannot be used now; `retry_after` in seconds."""
        return ServiceUnavailable(f"{self.title} {problem}", retry_after=retry_after)

    def cancel(self, owner: object) -> None:
        """Let the call of an episode that waits return early; from any thread."""
        with self._lock:
            future = self._waiting.get(owner)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """End the loop and its connections."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            done = asyncio.run_coroutine_threadsafe(self._close_session(), loop)
            try:
                done.result(_CLOSE_SECONDS)
            except (TimeoutError, CancelledError):
                done.cancel()  # a connection that does not close must not keep the server alive
            loop.call_soon_threadsafe(loop.stop)

    def _wait(self, work: Coroutine[Any, Any, T], owner: object) -> T:
        future = asyncio.run_coroutine_threadsafe(self._in_time(work), self._running_loop())
        with self._lock:
            self._waiting[owner] = future
        try:
            return future.result()
        except CancelledError:
            raise self.unavailable("was asked in a step that was cancelled") from None
        finally:
            with self._lock:
                # Calls without an owner share the key None: only the own entry is taken away.
                if self._waiting.get(owner) is future:
                    del self._waiting[owner]

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except TimeoutError:
            raise self.unavailable(f"did not answer within {self._timeout:g} s") from None

    async def _take_turn(self) -> None:
        throttler = self._throttler
        if throttler is None:  # made here because it belongs to the loop on which it waits
            throttler = Throttler(self._rate.calls, self._rate.seconds)
            self._throttler = throttler
        await throttler.acquire()

    async def _get(self, url: str, params: Mapping[str, str | int | float]) -> Answer:
        await self._take_turn()
        if self._session is None:
            self._session = aiohttp.ClientSession(headers=self._headers, trust_env=True)
        try:
            async with self._session.get(url, params=dict(params)) as response:
                text = await response.text()
                return self._checked(response, text)
        except aiohttp.ClientError as error:
            raise self.unavailable(f"cannot be reached at {url}: {error}") from error

    def _checked(self, response: aiohttp.ClientResponse, text: str) -> Answer:
        status = response.status
        if status == _TOO_MANY:
            after = response.headers.get("Retry-After", "")  # seconds, or a date
            wait = float(after) if after.isascii() and after.isdigit() else None
            note = f"; it asks to wait until {after}" if after and wait is None else ""
            note = f"; it asks to wait {after} s" if wait is not None else note
            raise self.unavailable(f"refuses more calls for now (429{note})", wait)
        if status >= _SERVER_FAULT:
            raise self.unavailable(f"answers with {status}: {text[:200]}")
        if status in _REFUSED_KEY:
            raise self.unavailable(f"refuses the key ({status}): {text[:200]}")
        return Answer(status, text)

    async def _close_session(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                name = f"live-{self.title}"
                threading.Thread(target=_run, args=(loop,), name=name, daemon=True).start()
                self._loop = loop
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
