"""One browser's processes: Chromium, and the driver that speaks with it.

Invariant: either may be killed at any time; `is_alive` tells. A page's process may hold so much
memory and no more: a page that asks for more crashes, and nobody else does.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from env_servers.environments.webarena.browser.chromium import check_version, find_chromium
from env_servers.environments.webarena.browser.errors import BrowserLost
from env_servers.environments.webarena.browser.protocol import ProtocolSession
from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

__all__ = ["BrowserProcess", "start_browser"]

_FLAGS: Final = (
    "--disable-smooth-scrolling",
    "--no-pings",
    "--disable-quic",
    # Peers are reached through a proxy, and there is none: else WebRTC sends datagrams to any
    # address that a page names.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
"""Beside Playwright's own; a `--disable-features` here would replace the list of its own."""
_SECOND_WALL: Final = "--host-resolver-rules="
_UNWANTED: Final = ("--disable-ipc-flooding-protection",)
"""Of Playwright's: a page that pushes history states without end would hold up all others."""
_ANSWERS: Final = 10.0
"""Seconds after which a browser that says nothing is not there."""


@dataclass(slots=True, eq=False)
class BrowserProcess:
    """A running browser."""

    playwright: Playwright
    browser: Browser
    session: ProtocolSession
    """With the whole browser."""
    number: int
    """Of the main process."""
    network: int
    """Of the process that keeps the cookies of all windows."""

    async def is_alive(self) -> bool:
        """Whether the browser answers and has what its windows left in it.

        Playwright does not tell when its own driver is gone, and the browser not when its network
        process is: it starts another one, which has no cookies.
        """
        from playwright.async_api import Error

        if not self.browser.is_connected():
            return False
        try:
            async with asyncio.timeout(_ANSWERS):
                processes = await _list_processes(self.session)
        except (Error, TimeoutError):
            return False
        return self.network in [each["id"] for each in processes]

    async def require_alive(self) -> None:
        """Raise BrowserLost where `is_alive` is false."""
        if not await self.is_alive():
            raise BrowserLost("a process of the browser ended")

    def kill(self) -> None:
        """End it at once, with all pages."""
        with suppress(ProcessLookupError):
            os.kill(self.number, signal.SIGKILL)

    async def end(self) -> None:
        """End it in order, whatever of it is still there."""
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_ANSWERS):
                await self.browser.close()
        await self.playwright.stop()

    async def size(self) -> int:
        """Return the bytes of all its processes, as far as the system tells; 0 elsewhere."""
        return sum(_process_size(each["id"]) for each in await _list_processes(self.session))


async def start_browser(
    chromium: str, *, resolver_rules: str, sandbox: bool, page_bytes: int
) -> BrowserProcess:
    """Start a browser and its driver; see `shared_browser.BrowserOptions`.

    Raises:
        EnvironmentUnavailable: None is installed, one that is too old, or it does not start.
    """
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError as error:
        raise EnvironmentUnavailable(
            f"playwright is not installed: {install_command('webarena')}"
        ) from error
    playwright = await async_playwright().start()
    try:
        path = find_chromium(chromium)
        try:
            browser = await playwright.chromium.launch(
                executable_path=path,
                args=[*_FLAGS, *([_SECOND_WALL + resolver_rules] if resolver_rules else [])],
                ignore_default_args=list(_UNWANTED),
                chromium_sandbox=sandbox,
            )
        except Error as error:
            raise EnvironmentUnavailable(f"{path} does not start: {error.message[:500]}") from error
        check_version(browser.version, path)
        session = cast("ProtocolSession", await browser.new_browser_cdp_session())
        # Asked for cookies, it starts the process that keeps them.
        await session.send("Storage.getCookies")
        processes = await _list_processes(session)
    except BaseException:
        await playwright.stop()
        raise
    number, network = (
        next(each["id"] for each in processes if each["type"] == kind)
        for kind in ("browser", "network.mojom.NetworkService")
    )
    _limit_pages(number, page_bytes)
    return BrowserProcess(playwright, browser, session, number, network)


async def _list_processes(session: ProtocolSession) -> Sequence[dict[str, Any]]:
    return (await session.send("SystemInfo.getProcessInfo"))["processInfo"]


def _process_size(number: int) -> int:
    try:
        rollup = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    lines = rollup.splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _limit_pages(browser: int, most: int) -> None:
    """Limit the memory of pages: on Linux, where they are forked from processes called zygotes."""
    children = Path(f"/proc/{browser}/task/{browser}/children")
    if not children.exists():
        return
    for child in map(int, children.read_text(encoding="ascii").split()):
        if b"--type=zygote" in Path(f"/proc/{child}/cmdline").read_bytes():
            resource.prlimit(child, resource.RLIMIT_DATA, (most, most))
