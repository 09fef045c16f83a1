"""One tab: its protocol session, what it is loading, and questions that are always answered.

Invariant: nothing waits for a page without a limit. A page that does not answer is interrupted,
then ended, and the tab is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from env_servers.environments.webarena.browser.errors import TabLost
from env_servers.environments.webarena.browser.process import BrowserProcess
from env_servers.environments.webarena.browser.protocol import ProtocolSession
from env_servers.environments.webarena.browser.text_session import TextSession

if TYPE_CHECKING:
    from playwright.async_api import Page

__all__ = ["Limits", "Tab"]

_Result = TypeVar("_Result")
_NAVIGATED: Final = (
    "Inspected target navigated or closed",
    "Promise was collected",
    "Execution context was destroyed",
    "Cannot find context with specified id",
    "Cannot find default execution context",
)
_MOST_DELAY: Final = 1.5
"""Seconds after which a redirection by a page's head is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long pages are waited for, in seconds of real time."""

    answer: float = 10.0
    """For a page to do what it is told; then its script is interrupted."""
    settled: float = 10.0
    """For a page to be loaded and quiet; then it is shown as it is."""
    navigation: float = 30.0
    """For an address to open; then the action fails."""
    interrupted: float = 2.0
    """For a page whose script was interrupted; then its process is ended."""
    step: float = 50.0
    """For a whole step; then all tabs are closed. Servers wait for a minute."""


@dataclass(slots=True, eq=False)
class Tab:
    """One page of a window."""

    page: Page
    session: ProtocolSession
    process: BrowserProcess
    limits: Limits
    changed: asyncio.Event
    """Set whenever something happened that may end a wait."""
    notices: list[str]
    """Where it is said what was done to the page."""
    opened_by_page: bool = False
    number: int = 0
    """Unique in the window, in the order of creation."""
    document: int = 0
    """Counts the documents; element ids live as long as one."""
    windows_opening: int = 0
    windows_opened: int = 0
    """In this step."""
    dialogs: int = 0
    """In this step."""
    lost: str = ""
    """Why the page is gone; empty while it is there."""
    crashed: bool = False
    """It ended by itself, or was killed from outside."""
    _reports: TextSession = field(init=False)
    _loading: set[str] = field(default_factory=set[str])
    _scheduled: set[str] = field(default_factory=set[str])

    async def attach(self) -> None:
        """Begin to watch the page."""
        session = self.session
        session.on("Page.frameStartedLoading", lambda event: self._start(event["frameId"]))
        session.on("Page.frameStoppedLoading", lambda event: self._stop(event["frameId"]))
        session.on("Page.frameDetached", lambda event: self._stop(event["frameId"]))
        session.on("Page.frameScheduledNavigation", lambda event: self._schedule(event))
        session.on("Page.frameClearedScheduledNavigation", lambda event: self._unschedule(event))
        session.on("Page.frameNavigated", lambda event: self._navigated(event))
        session.on("Page.windowOpen", lambda event: self._window_open(event))
        self.page.on("crash", lambda _: self._crashed())
        self.page.on("close", lambda _: self._reports.end("The page was closed."))
        self._reports = TextSession(session)
        await self.ask(self._reports.open())
        await self.send("Page.enable")
        await self.send("Accessibility.enable")

    @property
    def busy(self) -> bool:
        """Whether a navigation or a resource of the page is pending."""
        return bool(self._loading or self._scheduled or self.windows_opening > 0)

    async def ask(self, awaited: Awaitable[_Result]) -> _Result:
        """Wait for what the page is to do.

        Raises:
            TabLost: The page is gone, or was ended because it did not answer.
            BrowserLost: The browser is gone.
        """
        from playwright.async_api import Error

        task = asyncio.ensure_future(awaited)
        try:
            if self.lost:
                raise TabLost(self.lost)
            done, _ = await asyncio.wait([task], timeout=self.limits.answer)
            if not done:
                await self._interrupt(task)
            return await task
        except Error as error:
            await self.raise_lost(error)
            raise
        finally:
            task.cancel()

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command of the protocol; raises as `ask` does."""
        return await self.ask(self.session.send(method, parameters))

    async def read(self, method: str, report: type[_Result], **parameters: Any) -> _Result:
        """Return the report that a command of the protocol answers with; raises as `ask` does."""
        return await self.ask(self._reports.read(method, report, parameters))

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, awaited; None where the page went away meanwhile."""
        from playwright.async_api import Error

        try:
            answer = await self.send(
                "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
            )
        except Error as error:
            if any(text in error.message for text in _NAVIGATED):
                return None
            raise
        return answer.get("result", {}).get("value")

    async def _interrupt(self, task: asyncio.Future[Any]) -> None:
        """End the script that holds the page; if that does not help, the page's process."""
        await self.process.require_alive()
        self.notices.append(
            f"The page did not answer within {self.limits.answer:g} seconds; its script was ended."
        )
        await self._tell("Runtime.terminateExecution")
        done, _ = await asyncio.wait([task], timeout=self.limits.interrupted)
        if done:
            return
        await self.end("The page did not answer and was ended.")
        raise TabLost(self.lost)

    async def halt(self) -> None:
        """End what the page runs and loads; the page stays."""
        await self._tell("Runtime.terminateExecution")
        await self._tell("Page.stopLoading")

    async def end(self, why: str) -> None:
        """End the page's process."""
        self.lost = self.lost or why
        self.changed.set()
        await self._tell("Page.crash")

    async def _tell(self, method: str) -> None:
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.limits.interrupted):
                await self.session.send(method)

    async def raise_lost(self, error: Exception) -> None:
        """Raise what an error means, if it means that the page or the browser is gone."""
        if self.lost:
            raise TabLost(self.lost) from error
        if "closed" in str(error):
            await self.process.require_alive()
        if self.page.is_closed():
            raise TabLost("The page closed itself.") from error
        if "crashed" in str(error):
            self._crashed()
            raise TabLost(self.lost) from error

    def _crashed(self) -> None:
        if not self.lost:
            self.lost = "The page crashed."
            self.crashed = True
        self._reports.end(self.lost)
        self.changed.set()

    def _start(self, frame: str) -> None:
        self._loading.add(frame)
        self.changed.set()

    def _stop(self, frame: str) -> None:
        self._loading.discard(frame)
        self._scheduled.discard(frame)
        self.changed.set()

    def _schedule(self, event: dict[str, Any]) -> None:
        if event.get("delay", 0) <= _MOST_DELAY:
            self._scheduled.add(event["frameId"])

    def _unschedule(self, event: dict[str, Any]) -> None:
        self._scheduled.discard(event["frameId"])
        self.changed.set()

    def _navigated(self, event: dict[str, Any]) -> None:
        self._scheduled.discard(event["frame"]["id"])
        if "parentId" not in event["frame"]:
            self.document += 1
        self.changed.set()

    def _window_open(self, event: dict[str, Any]) -> None:
        self.windows_opening += 1
        self.windows_opened += 1
        self.changed.set()

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so; return whether it became so in time."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not condition():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self.changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self.changed.wait()
            except TimeoutError:
                return condition()
        return True
