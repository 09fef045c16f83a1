"""The official sites as the stage of one episode: reserved, signed in on, scored by what they say.

Invariant: what a site fails to do is never a score. An episode that earned nothing counts only if
its sites still answer, and one on a page that a missing site left behind ends as a fault.
"""

from __future__ import annotations

import asyncio
from typing import Final

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.errors import TabLost
from env_servers.environments.webarena.browser.gate import Door
from env_servers.environments.webarena.browser.tab import Limits
from env_servers.environments.webarena.browser.window import Time, Window, WindowOptions
from env_servers.environments.webarena.browsing import Browsing
from env_servers.environments.webarena.evaluation import EvaluationFailed, Score, evaluate
from env_servers.environments.webarena.expert import Follower
from env_servers.environments.webarena.judged_page import JudgedPage
from env_servers.environments.webarena.official.logins import Logins
from env_servers.environments.webarena.official.service import (
    PlainExchange,
    SiteService,
    require_reachable,
)
from env_servers.environments.webarena.official.settings import OfficialSettings
from env_servers.environments.webarena.official.sites import Site
from env_servers.environments.webarena.official.task_file import OfficialTask
from env_servers.environments.webarena.official.turn import Turn
from env_servers.environments.webarena.probe import PlainRequest
from env_servers.sdk import EnvironmentUnavailable

__all__ = ["OfficialStage"]

_NAMES: Final = {
    Site.REDDIT: "forum",
    Site.SHOPPING: "shop",
    Site.SHOPPING_ADMIN: "shop_admin",
    Site.GITLAB: "code",
    Site.WIKIPEDIA: "encyclopedia",
    Site.MAP: "map",
    Site.HOMEPAGE: "home",
}
"""What `addresses.PUBLIC` calls the sites."""
_FAILED: Final = "performance.getEntriesByType('navigation')[0]?.responseStatus >= 500"


class OfficialStage:
    """A `stage.Stage`."""

    follower: Follower | None = None

    def __init__(self, task: OfficialTask, settings: OfficialSettings, logins: Logins) -> None:
        """Raises EnvironmentUnavailable where a site of the task has no address."""
        self._task = task
        self._settings = settings
        self._logins = logins
        self.starts, self._criteria = task.place(settings.sites)
        self.intent = task.intent
        served = settings.sites.addresses
        self.addresses = Addresses({_NAMES[site]: url for site, url in served.items()})
        # What this episode has not reserved, others may be playing on.
        its_own = {*task.sites, *task.logins}
        reachable = {site for site in Site if site in its_own or not site.changeable}
        hosts = settings.sites.hosts(reachable) | settings.hosts
        seconds = settings.site_seconds
        self.door = Door(hosts)
        self.probe = PlainRequest(hosts, PlainExchange(seconds))
        self.window_options = WindowOptions(time=Time.REAL, limits=Limits(navigation=seconds))
        self._turn = Turn(
            settings.reservations.reserve(
                task.changes, task.reads, settings.hooks, settings.wait_seconds
            )
        )

    async def enter(self) -> None:
        await self._turn.begin(self._settings.wait_seconds)
        await self._require_sites()

    async def admit(self, window: Window) -> None:
        context, place = window.context, self._task.geolocation
        if place is not None:
            await window.guarded(context.grant_permissions(["geolocation"]))
            await window.guarded(
                context.set_geolocation({"latitude": place.latitude, "longitude": place.longitude})
            )
        if not self._task.logins:
            return
        browsing = Browsing(window, self.addresses, self.intent)
        browsing.current = await window.new_tab()
        await self._logins.admit(context, JudgedPage(browsing), self._task.logins)
        await window.guarded(browsing.current.page.close())
        window.drop_closed()

    async def look(self, browsing: Browsing) -> None:
        tab = browsing.current
        try:
            failed = await tab.evaluate(_FAILED)
        except TabLost:
            return  # the page's fault, which the next step mends
        if failed or tab.busy or tab.page.url.startswith("chrome-error:"):
            await self._require_sites()

    async def score(self, answer: str, browsing: Browsing) -> Score:
        settings = self._settings
        shop = SiteService(
            settings.sites.addresses.get(Site.SHOPPING, ""),
            settings.accounts.get(Site.SHOPPING_ADMIN),
            seconds=settings.site_seconds,
        )
        try:
            score = await evaluate(
                self._criteria,
                intent=self.intent,
                answer=answer,
                page=JudgedPage(browsing),
                judge=settings.judge,
                shop=shop,
            )
        except EvaluationFailed as error:
            await self._require_sites()
            raise EnvironmentUnavailable(
                f"{self._task.item_id} could not be scored: {error}"
            ) from error
        if score.value == 0:
            await self._require_sites()
        return score

    def digest(self) -> bytes | None:
        return None

    def anew(self) -> OfficialStage:
        raise EnvironmentUnavailable(
            f"{self._task.item_id} is played on official sites, which are as the episode left "
            "them: it cannot be played again up to here"
        )

    def leave(self) -> None:
        self._turn.end()

    async def left(self) -> None:
        """Wait until the sites were set back and are free."""
        await self._turn.over()

    async def _require_sites(self) -> None:
        addresses, seconds = self._settings.sites.addresses, self._settings.site_seconds
        await asyncio.gather(
            *(require_reachable(site, addresses[site], seconds) for site in self._task.sites)
        )
