"""One episode's window: a browser context with tabs, its door to the network, and its time.

Invariant: after `settle` nothing that an action caused is still under way, or a limit was reached;
between two calls no timer of a page runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar, cast

from env_servers.environments.webarena.browser.errors import BrowserLost, TabLost
from env_servers.environments.webarena.browser.gate import Door
from env_servers.environments.webarena.browser.process import BrowserProcess
from env_servers.environments.webarena.browser.protocol import ProtocolSession
from env_servers.environments.webarena.browser.tab import Limits, Tab

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Page

_Result = TypeVar("_Result")

__all__ = ["MOST_TABS", "Time", "Window", "WindowOptions"]

MOST_TABS: Final = 20
_MOST_PAGES: Final = 3 * MOST_TABS
"""That may be opened in one step, though closed at once; whoever goes on is ended."""
_MOST_DIALOGS: Final = 20
"""In one step; then the page's script is ended."""
_MOST_DIALOGS_AT_ALL: Final = 3 * _MOST_DIALOGS
"""In one step; then the page is ended."""
_ROUNDS: Final = 8
"""So many documents may follow one another in one step."""
_START_OF_TIME: Final = 1_700_000_000_000
"""What a page's clock says at first: milliseconds, in November 2023."""
_QUIET = """new Promise(done => {
  const start = performance.now();
  let last = start;
  const watch = new MutationObserver(() => { last = performance.now(); });
  watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  const look = () => {
    const now = performance.now();
    if (now - last < %d && now - start < %d) return setTimeout(look, 20);
    watch.disconnect();
    done(now - start);
  };
  look();
})"""


class Time(Enum):
    """How time passes for pages."""

    TOLD = "told"
    """Only within steps, and always equally much: the same actions give the same pages."""
    REAL = "real"
    """As it does: for sites that are elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """What differs between windows."""

    time: Time = Time.TOLD
    step_milliseconds: int = 1500
    """How much time passes for a page in a step, as the original slept."""
    quiet_milliseconds: int = 150
    """In real time: how long a page must be unchanged."""
    limits: Limits = field(default_factory=Limits)


@cache
def page_clock() -> str:
    """Return the script that gives pages a clock."""
    source = files(__package__ or "").joinpath("page_clock.js").read_text(encoding="utf-8")
    return source.replace("(START)", f"({_START_OF_TIME})")


@dataclass(slots=True, eq=False)
class Window:
    """The tabs of one episode."""

    context: BrowserContext
    process: BrowserProcess
    door: Door
    options: WindowOptions
    closed: Callable[[Window], None]
    tabs: list[Tab] = field(default_factory=list[Tab])
    notices: list[str] = field(default_factory=list[str])
    """What was done to pages in this step, to be said."""
    _pages: list[Page] = field(default_factory=lambda: list["Page"]())
    """Opened by pages and not yet watched."""
    _opened: int = 0
    """Pages that pages opened in this step."""
    _made: int = 0
    _making: int = 0
    _background: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def start(self) -> None:
        """Prepare the context; opens no tab."""
        if self.options.time is Time.TOLD:
            await self.context.add_init_script(page_clock())
        # Playwright marks bound methods' objects, and a slotted one cannot be marked.
        self.context.on("page", lambda page: self._page_opened(page))
        self.context.on("dialog", lambda dialog: self._dismiss(dialog))

    async def close(self) -> None:
        """Close all tabs and forget all cookies; a lost browser has nothing to close."""
        from playwright.async_api import Error

        self.closed(self)
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(self.options.limits.answer):
                await self.context.close()

    def begin_step(self) -> None:
        """Forget what the last step did."""
        self.notices.clear()
        self.door.shut = ""
        self._opened = 0
        for tab in self.tabs:
            tab.dialogs = tab.windows_opened = 0

    async def new_tab(self) -> Tab:
        """Open a blank tab."""
        self._making += 1
        try:
            page = await self.guarded(self.context.new_page())
        finally:
            self._making -= 1
        if page in self._pages:
            self._pages.remove(page)
        return await self._watch(page, opened_by_page=False)

    def drop_closed(self) -> None:
        """Forget the tabs that closed themselves."""
        self.tabs = [tab for tab in self.tabs if not tab.page.is_closed()]

    def drop(self, tabs: Sequence[Tab]) -> None:
        """Close tabs, whatever their pages do, and forget them and what they have just opened."""
        while self._pages:
            self._in_background(self._pages.pop().close())
        for tab in tabs:
            if tab in self.tabs:
                self.tabs.remove(tab)
                self._in_background(tab.page.close())

    async def settle(self, current: Tab) -> None:
        """Wait until what was begun has ended, and let the step's time pass.

        Raises:
            TabLost: The current page crashed or did not answer.
            BrowserLost: The browser is gone.
            SiteFailed: A site of this process raised an exception.
        """
        left = float(self.options.step_milliseconds)
        deadline = asyncio.get_running_loop().time() + self.options.limits.settled
        for _ in range(_ROUNDS):
            await self._until_loaded(current, deadline)
            document = current.document
            left -= await self._pass_time(current, left)
            self.door.raise_failure()
            if not self._busy() and document == current.document and left <= 0:
                return
            if asyncio.get_running_loop().time() > deadline:
                break
        else:
            await self._until_loaded(current, deadline)
        if self._busy() and self.options.time is Time.TOLD:
            # Else it would go on while the agent thinks.
            self.notices.append("The page did not come to rest and was stopped.")
            await current.halt()

    async def _until_loaded(self, current: Tab, deadline: float) -> None:
        clock = asyncio.get_running_loop().time
        loaded = await current.wait_until(
            lambda: bool(current.lost) or bool(self._pages) or not self._busy(),
            deadline - clock(),
        )
        for tab in self.tabs:
            tab.windows_opening = 0 if self._pages or not loaded else tab.windows_opening
        while self._pages:
            page = self._pages.pop(0)
            if self.door.shut or clock() > deadline or any(tab.lost for tab in self.tabs):
                # Whoever opened it was ended, and often shares its process.
                self._in_background(page.close())
                continue
            await self._take_in(page)
            await current.wait_until(
                lambda: bool(self._pages) or not self._busy(), deadline - clock()
            )
        if current.lost:
            raise TabLost(current.lost)

    async def _pass_time(self, current: Tab, left: float) -> float:
        """Let time pass; return how much did. None passes while a page is being left."""
        if left <= 0:
            return 0.0
        if self.options.time is Time.TOLD:
            passed = await current.evaluate(f"window.pageClock ? pageClock({left}) : {left}")
        else:
            quiet = self.options.quiet_milliseconds
            passed = await current.evaluate(_QUIET % (quiet, left))
            passed = None if passed is None else left
        return float(passed or 0.0)

    def _busy(self) -> bool:
        return self.door.in_flight > 0 or any(
            tab.busy for tab in self.tabs if not tab.lost and not tab.page.is_closed()
        )

    def _page_opened(self, page: Page) -> None:
        for tab in self.tabs:
            tab.windows_opening = max(0, tab.windows_opening - 1)
        if self._making:
            self._pages.append(page)
        else:
            self._opened += 1
            if len(self.tabs) + len(self._pages) < MOST_TABS:
                self._pages.append(page)
            else:
                self._in_background(page.close())
                self._refuse_pages()
        self.door.changed.set()

    def _refuse_pages(self) -> None:
        """Stop those who open pages, and end them if they go on."""
        openers = [tab for tab in self.tabs if tab.windows_opened and not tab.lost]
        told = f"A page opened more than {MOST_TABS} tabs; the others were closed."
        if told not in self.notices:
            self.notices.append(told)
            for tab in openers:
                self._in_background(tab.session.send("Runtime.terminateExecution"))
        if self._opened > _MOST_PAGES and not self.door.shut:
            # Their pages may do the same, before they are closed.
            self.door.shut = "its page opened one tab after another"
            for tab in openers:
                self._in_background(tab.end("The page opened one tab after another and was ended."))

    def _dismiss(self, dialog: Dialog) -> None:
        tab = next((tab for tab in self.tabs if tab.page is dialog.page), None)
        if tab is not None:
            tab.dialogs += 1
            if tab.dialogs == _MOST_DIALOGS:
                self.notices.append("The page opened one dialog after another and was stopped.")
                self._in_background(tab.session.send("Runtime.terminateExecution"))
            elif tab.dialogs > _MOST_DIALOGS_AT_ALL and not tab.lost:
                self._in_background(tab.end("The page opened one dialog after another."))
        # Leaving a page is never held up.
        ends = dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss()
        self._in_background(ends)

    def _in_background(self, awaited: Awaitable[object]) -> None:
        async def finish() -> None:
            from playwright.async_api import Error

            with suppress(Error):
                await awaited

        task = asyncio.ensure_future(finish())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _take_in(self, page: Page) -> None:
        """Watch a page that another one opened; one that does not answer is closed."""
        try:
            await self._watch(page, opened_by_page=True)
        except TabLost:
            # Not the agent's tab: that one goes on.
            self.tabs = [tab for tab in self.tabs if tab.page is not page]
            self.notices.append("A tab that a page opened did not answer and was closed.")
            self._in_background(page.close())

    async def _watch(self, page: Page, *, opened_by_page: bool) -> Tab:
        session = cast("ProtocolSession", await self.guarded(self.context.new_cdp_session(page)))
        self._made += 1
        tab = Tab(
            page,
            session,
            self.process,
            self.options.limits,
            self.door.changed,
            self.notices,
            opened_by_page=opened_by_page,
            number=self._made,
        )
        self.tabs.append(tab)
        await tab.attach()
        if opened_by_page and await tab.evaluate("document.readyState") != "complete":
            await tab.ask(page.wait_for_load_state("load"))
        return tab

    async def guarded(self, awaited: Awaitable[_Result]) -> _Result:
        """Wait for what the browser is to do, whatever its pages do; raises BrowserLost."""
        from playwright.async_api import Error

        try:
            async with asyncio.timeout(self.options.limits.navigation):
                return await awaited
        except TimeoutError as error:
            self.process.kill()
            raise BrowserLost("the browser did not answer and was ended") from error
        except Error:
            await self.process.require_alive()
            raise
