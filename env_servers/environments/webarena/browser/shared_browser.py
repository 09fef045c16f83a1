"""One browser for many episodes: started when first needed, replaced before it bloats.

Invariant: a window lives in one process from its start to its end. A process that has served
enough windows, or grew too large, gets no new ones and ends with its last one. When a process dies,
every operation on its windows raises BrowserLost, and the next window starts a new process.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from env_servers.environments.webarena.browser.chromium import AUTO
from env_servers.environments.webarena.browser.gate import Door, Gate
from env_servers.environments.webarena.browser.process import BrowserProcess, start_browser
from env_servers.environments.webarena.browser.turns import Turns
from env_servers.environments.webarena.browser.window import Window, WindowOptions
from env_servers.environments.webarena.observation.rectangles import WINDOW_HEIGHT, WINDOW_WIDTH

__all__ = ["NOWHERE", "BrowserOptions", "SharedBrowser"]

NOWHERE: Final = "MAP * ~NOTFOUND"
"""No host is anywhere; other rules may follow, which make exceptions."""
_SIZED_EVERY: Final = 16
"""Windows between two looks at how much memory a browser holds, which takes a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """How the browser's process is run."""

    chromium: str = AUTO
    """The executable: a path, a name, or what is found."""
    resolver_rules: str = NOWHERE
    """Chromium's own rules of which host is where; by default nothing is anywhere."""
    windows_per_process: int = 500
    """After so many windows a new process is started."""
    spare_bytes: int = 1 << 30
    """A browser gets no new windows when it is larger than this and what its windows explain."""
    window_bytes: int = 64 << 20
    """What one window explains; most need less than half of it."""
    page_bytes: int = 2 << 30
    """A page that needs more crashes; what Chromium itself needs for a page, 0.6 GiB, is in it."""
    sandbox: bool = False
    """Chromium's own sandbox; needs user namespaces, which containers rarely have."""


@dataclass(slots=True, eq=False)
class _Shared:
    """A browser and who uses it."""

    process: BrowserProcess
    gate: Gate
    windows: set[Window] = field(default_factory=set[Window])
    opened: int = 0
    retired: bool = False
    ended: bool = False


class SharedBrowser:
    """Opens windows."""

    def __init__(self, options: BrowserOptions | None = None) -> None:
        self.options = options or BrowserOptions()
        self.processes_started = 0
        self.turns = Turns()
        """For whoever lets a window work: too many at once would wait longer than pages may."""
        self._current: _Shared | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    async def open_window(self, door: Door, options: WindowOptions | None = None) -> Window:
        """Return a new window, without a tab, that nothing of another one can be seen in.

        Raises:
            EnvironmentUnavailable: No browser is installed, or one that is too old.
            BrowserLost: The browser died while it opened the window.
        """
        from playwright.async_api import Error

        shared = await self._running()
        process = shared.process
        shared.opened += 1
        try:
            context = await process.browser.new_context(
                viewport={"width": WINDOW_WIDTH, "height": WINDOW_HEIGHT},
                device_scale_factor=1,
                locale="en-US",
                timezone_id="UTC",
                color_scheme="light",
                reduced_motion="reduce",
                service_workers="block",
                accept_downloads=False,
                extra_http_headers=door.headers,
            )
            window = Window(
                context,
                process,
                door,
                options or WindowOptions(),
                lambda closed: self._closed(shared, closed),
            )
            shared.windows.add(window)
            shared.gate.open(door)
            await window.start()
        except Error:
            await process.require_alive()
            raise
        return window

    async def process_id(self) -> int:
        """Return the number of the browser's main process."""
        return (await self._running()).process.number

    async def close(self) -> None:
        """End the browser, and with it all windows."""
        shared, self._current = self._current, None
        if shared is not None:
            await shared.process.end()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _running(self) -> _Shared:
        async with self._starting:
            shared = self._current
            if shared is not None and not await shared.process.is_alive():
                # It may only be stuck: nobody gets an answer of it any more.
                shared.process.kill()
                self._end(shared)
                self._current = shared = None
            if shared is not None and await self._is_spent(shared):
                shared.retired = True
                self._end_if_unused(shared)
                self._current = shared = None
            if shared is None:
                shared = self._current = await self._start()
            return shared

    async def _is_spent(self, shared: _Shared) -> bool:
        options = self.options
        if shared.opened >= options.windows_per_process:
            return True
        if shared.opened % _SIZED_EVERY != _SIZED_EVERY - 1:
            return False
        explained = options.window_bytes * len(shared.windows)
        return await shared.process.size() > options.spare_bytes + explained

    async def _start(self) -> _Shared:
        options = self.options
        process = await start_browser(
            options.chromium,
            resolver_rules=options.resolver_rules,
            sandbox=options.sandbox,
            page_bytes=options.page_bytes,
        )
        gate = Gate(process.session, reaches_nothing=options.resolver_rules == NOWHERE)
        await gate.start()
        self.processes_started += 1
        return _Shared(process, gate)

    def _closed(self, shared: _Shared, window: Window) -> None:
        shared.windows.discard(window)
        shared.gate.close(window.door)
        self._end_if_unused(shared)

    def _end_if_unused(self, shared: _Shared) -> None:
        if shared.retired and not shared.windows:
            self._end(shared)

    def _end(self, shared: _Shared) -> None:
        if shared.ended:
            return
        shared.ended = True
        task = asyncio.ensure_future(shared.process.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
