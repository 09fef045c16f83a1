"""The embedded sites as the stage of one episode: a world of its own, answered in this process."""

from __future__ import annotations

from typing import Final

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.gate import Answer, Door, Request
from env_servers.environments.webarena.browser.window import Window, WindowOptions
from env_servers.environments.webarena.browsing import Browsing
from env_servers.environments.webarena.evaluation.evaluator import Score, evaluate
from env_servers.environments.webarena.evaluation.judge import OfflineJudge
from env_servers.environments.webarena.expert import Follower
from env_servers.environments.webarena.judged_page import JudgedPage
from env_servers.environments.webarena.probe import PlainRequest
from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.git.content import ME
from env_servers.environments.webarena.sites.shop.service import WorldShop
from env_servers.environments.webarena.sites.shop.trade import SHOPPER
from env_servers.environments.webarena.templates.site_task import SiteTask

__all__ = ["EmbeddedStage"]

_SERVED: Final = Addresses(
    {
        "forum": "http://forum.test",
        "shop": "http://shop.test",
        "shop_admin": "http://admin.test/admin",
        "code": "http://git.test",
        "encyclopedia": "http://wiki.test/wiki",
        "map": "http://map.test",
        "home": "http://home.test",
    }
)
_ACCOUNTS: Final = {
    "shop": str(SHOPPER),
    "admin": "admin",
    "forum": MEMBER,
    "git": ME,
}
"""Who the agent is at each site that has accounts."""


class EmbeddedStage:
    """A `stage.Stage`."""

    addresses = _SERVED
    window_options = WindowOptions()

    def __init__(self, task: SiteTask) -> None:
        self._task = task
        self._world = new_world()
        self._network = embedded_network()
        self.intent = task.intent
        self.starts = (_SERVED.opened(task.start),)
        self.door = Door(self._network.hosts, self._respond)
        self.probe = PlainRequest(self._network.hosts, self._respond)
        self.follower: Follower | None = Follower(task.start, task.plan)

    async def _respond(self, request: Request) -> Answer:
        return await self._network.answer(
            self._world, request.method, request.url, request.headers, request.body
        )

    async def enter(self) -> None:
        """Nobody else is there."""

    async def admit(self, window: Window) -> None:
        """Let the window know its accounts, as the original does with stored logins."""
        cookies = [
            self._network.sign_in(self._world, site, account) for site, account in _ACCOUNTS.items()
        ]
        await window.guarded(
            window.context.add_cookies(
                [
                    {"name": it.name, "value": it.value, "domain": it.host, "path": "/"}
                    for it in cookies
                ]
            )
        )

    async def look(self, browsing: Browsing) -> None:
        """These sites are always there."""

    async def score(self, answer: str, browsing: Browsing) -> Score:
        """Return the score: of the criteria, where the world is as the task wants it."""
        task = self._task
        if task.check is not None and not task.check(self._world):
            return Score(0.0)
        return await evaluate(
            task.criteria,
            intent=task.intent,
            answer=answer,
            page=JudgedPage(browsing),
            judge=OfflineJudge(),
            shop=WorldShop(self._world),
        )

    def digest(self) -> bytes | None:
        return self._world.digest().encode()

    def anew(self) -> EmbeddedStage:
        return EmbeddedStage(self._task)

    def leave(self) -> None:
        """A world that nobody knows is forgotten."""
