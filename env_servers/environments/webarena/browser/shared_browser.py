"""One browser for many episodes: started when first needed, replaced before it bloats.

Invariant: a window lives in one process from its start to its end. A process that has served
enough windows, or grew too large, gets no new ones and ends with its last one. When a process dies,
every operation on its windows raises BrowserLost, and the next window starts a new process.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from env_servers.environments.webarena.browser.chromium import (
    AUTO,
    check_version,
    find_chromium,
)
from env_servers.environments.webarena.browser.errors import BrowserLost
from env_servers.environments.webarena.browser.gate import Door, Gate
from env_servers.environments.webarena.browser.protocol import ProtocolSession
from env_servers.environments.webarena.browser.window import Window, WindowOptions
from env_servers.environments.webarena.observation.rectangles import WINDOW_HEIGHT, WINDOW_WIDTH
from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

__all__ = ["NOWHERE", "BrowserOptions", "SharedBrowser"]

NOWHERE: Final = "MAP * ~NOTFOUND"
"""No host is anywhere; other rules may follow, which make exceptions."""
_SECOND_WALL: Final = "--host-resolver-rules="
_FLAGS: Final = (
    "--disable-smooth-scrolling",
    "--no-pings",
    "--disable-quic",
)
"""Beside Playwright's own; a `--disable-features` here would replace the list of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """How the browser's process is run."""

    chromium: str = AUTO
    """The executable: a path, a name, or what is found."""
    resolver_rules: str = NOWHERE
    """Chromium's own rules of which host is where; by default nothing is anywhere."""
    windows_per_process: int = 500
    """After so many windows a new process is started."""
    process_bytes: int = 6 << 30
    """A browser larger than this gets no new windows."""
    sandbox: bool = False
    """Chromium's own sandbox; needs user namespaces, which containers rarely have."""


@dataclass(slots=True, eq=False)
class _Process:
    browser: Browser
    session: ProtocolSession
    gate: Gate
    windows: set[Window] = field(default_factory=set[Window])
    opened: int = 0
    retired: bool = False


class SharedBrowser:
    """Opens windows."""

    def __init__(self, options: BrowserOptions | None = None) -> None:
        self.options = options or BrowserOptions()
        self.version = ""
        self.processes_started = 0
        self._playwright: Playwright | None = None
        self._process: _Process | None = None
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    async def open_window(self, door: Door, options: WindowOptions | None = None) -> Window:
        """Return a new window, without a tab, that nothing of another one can be seen in.

        Raises:
            EnvironmentUnavailable: No browser is installed, or one that is too old.
            BrowserLost: The browser died while it opened the window.
        """
        from playwright.async_api import Error

        process = await self._running()
        process.opened += 1
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
                context, door, options or WindowOptions(), lambda w: self._closed(process, w)
            )
            process.windows.add(window)
            process.gate.open(door)
            await window.start()
        except Error as error:
            if not process.browser.is_connected():
                raise BrowserLost("the browser's process ended") from error
            raise
        return window

    async def process_id(self) -> int:
        """Return the number of the browser's main process."""
        process = await self._running()
        answer = await process.session.send("SystemInfo.getProcessInfo")
        return next(each["id"] for each in answer["processInfo"] if each["type"] == "browser")

    async def close(self) -> None:
        """End the browser, and with it all windows."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        if self._ending:
            await asyncio.wait(self._ending)
        playwright, self._playwright = self._playwright, None
        if playwright is not None:
            await playwright.stop()

    async def _running(self) -> _Process:
        async with self._starting:
            process = self._process
            if process is not None and not process.browser.is_connected():
                self._process = process = None
            if process is not None and await self._is_spent(process):
                process.retired = True
                self._end_if_unused(process)
                self._process = process = None
            if process is None:
                process = self._process = await self._launch()
            return process

    async def _is_spent(self, process: _Process) -> bool:
        if process.opened >= self.options.windows_per_process:
            return True
        return process.opened % 16 == 15 and await _size(process) > self.options.process_bytes

    async def _launch(self) -> _Process:
        try:
            from playwright.async_api import Error, async_playwright
        except ImportError as error:
            raise EnvironmentUnavailable(
                f"playwright is not installed: {install_command('webarena')}"
            ) from error
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        chromium = self._playwright.chromium
        path = find_chromium(self.options.chromium)
        rules = self.options.resolver_rules
        try:
            browser = await chromium.launch(
                executable_path=path,
                args=[*_FLAGS, *([_SECOND_WALL + rules] if rules else [])],
                chromium_sandbox=self.options.sandbox,
            )
        except Error as error:
            raise EnvironmentUnavailable(f"{path} does not start: {error.message[:500]}") from error
        self.version = browser.version
        check_version(self.version, path)
        session = cast("ProtocolSession", await browser.new_browser_cdp_session())
        gate = Gate(session, reaches_nothing=rules == NOWHERE)
        await gate.start()
        self.processes_started += 1
        return _Process(browser, session, gate)

    def _closed(self, process: _Process, window: Window) -> None:
        process.windows.discard(window)
        process.gate.close(window.door)
        self._end_if_unused(process)

    def _end_if_unused(self, process: _Process) -> None:
        if process.retired and not process.windows:
            task = asyncio.ensure_future(_end(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _end(process: _Process) -> None:
    from playwright.async_api import Error

    with suppress(Error):
        await process.browser.close()


async def _size(process: _Process) -> int:
    """Bytes of all processes of a browser, as far as the system tells; 0 elsewhere."""
    answer = await process.session.send("SystemInfo.getProcessInfo")
    return sum(_process_size(each["id"]) for each in answer["processInfo"])


def _process_size(number: int) -> int:
    try:
        rollup = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    lines = rollup.splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
