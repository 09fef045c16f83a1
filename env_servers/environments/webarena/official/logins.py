"""Logins of official sites: made once in a process, looked at before every episode.

An agent may sign out, and a site may forget a session before its cookie ends. So a kept login is
tried on the site itself; one that no longer holds is made anew once, and where that fails, too, the
episode is not played.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from env_servers.environments.webarena.evaluation import Page
from env_servers.environments.webarena.official.accounts import (
    Account,
    expires_soon,
    is_signed_in,
    sign_in,
)
from env_servers.environments.webarena.official.sites import OfficialSites, Site

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

__all__ = ["Logins"]


class Logins:
    """The cookies of this process's logins, by site."""

    def __init__(self, sites: OfficialSites, accounts: Mapping[Site, Account]) -> None:
        self._sites = sites
        self._accounts = accounts
        self._cookies: dict[Site, list[Any]] = {}
        self._signing_in: defaultdict[Site, asyncio.Lock] = defaultdict(asyncio.Lock)
        """So that episodes that begin together share one login."""

    async def admit(self, context: BrowserContext, page: Page, wanted: Iterable[Site]) -> None:
        """Let a window be signed in on sites.

        Args:
            context: The window's cookies.
            page: A page in it.
            wanted: On which sites.

        Raises:
            LoginRefused: A site does not let its account in.
        """
        for site in wanted:
            kept = self._cookies.get(site)
            if await self._holds(context, page, site, kept):
                continue
            async with self._signing_in[site]:
                newer = self._cookies.get(site)
                if newer is kept or not await self._holds(context, page, site, newer):
                    await self._renew(context, page, site)

    async def _holds(
        self, context: BrowserContext, page: Page, site: Site, kept: list[Any] | None
    ) -> bool:
        """Give a window the cookies of a login; return whether the site still knows it."""
        if kept is None or expires_soon({"cookies": kept}, time.time()):
            return False
        await context.add_cookies(kept)
        return await is_signed_in(page, site, self._sites.addresses[site])

    async def _renew(self, context: BrowserContext, page: Page, site: Site) -> None:
        address = self._sites.addresses[site]
        await sign_in(page, site, address, self._accounts.get(site))
        self._cookies[site] = list(await context.cookies(address))
