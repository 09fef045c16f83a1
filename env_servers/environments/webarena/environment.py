"""One WebArena episode: a window on a shared browser, sites of its own, a score at the end.

Every step's reward is 0 until the agent stops; then it is the score, 1 or 0. A browser that dies is
replaced, and the episode is played again in the new one up to where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Final, Self

from env_servers.environments.webarena.addresses import Addresses
from env_servers.environments.webarena.browser.errors import BrowserLost
from env_servers.environments.webarena.browser.gate import Answer as SiteAnswer
from env_servers.environments.webarena.browser.gate import Door, Request
from env_servers.environments.webarena.browser.shared_browser import SharedBrowser
from env_servers.environments.webarena.browser.window import Window
from env_servers.environments.webarena.browsing import (
    AGENTGYM,
    FIXED,
    WEBARENA,
    Browsing,
    Manner,
    Seen,
    Step,
)
from env_servers.environments.webarena.evaluation.evaluator import evaluate
from env_servers.environments.webarena.evaluation.judge import OfflineJudge
from env_servers.environments.webarena.expert import Follower
from env_servers.environments.webarena.grammar import GRAMMAR
from env_servers.environments.webarena.judged_page import JudgedPage
from env_servers.environments.webarena.probe import PlainRequest
from env_servers.environments.webarena.prompt import CONVERSATION_STARTS
from env_servers.environments.webarena.sites.embedded import embedded_network, new_world
from env_servers.environments.webarena.sites.forum.content import MEMBER
from env_servers.environments.webarena.sites.git.content import ME
from env_servers.environments.webarena.sites.network import Network
from env_servers.environments.webarena.sites.shop.service import WorldShop
from env_servers.environments.webarena.sites.shop.trade import SHOPPER
from env_servers.environments.webarena.sites.world import World
from env_servers.environments.webarena.tasks import WebArenaTasks, load_tasks
from env_servers.environments.webarena.templates.site_task import SiteTask
from env_servers.sdk import (
    Advice,
    AsyncEnvironment,
    EnvironmentConfig,
    EnvironmentSpec,
    Execution,
    Observation,
    ResetOptions,
    StopReason,
    Task,
)

__all__ = ["WebArena"]

_MANNERS: Final = {"agentgym": AGENTGYM, "webarena": WEBARENA, "fixed": FIXED}
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
_REBUILDS: Final = 2
"""Browsers that one operation may outlive."""


@cache
def _browser() -> SharedBrowser:
    """Return the browser of this process; it starts with its first window."""
    return SharedBrowser()


@dataclass(slots=True)
class _Episode:
    """The state of one episode; the window can be made anew from the rest."""

    task: SiteTask
    manner: Manner
    follower: Follower
    world: World
    window: Window
    browsing: Browsing
    seen: Seen
    actions: list[str] = field(default_factory=list[str])
    proof: bytes = b""
    """Chained over actions, pages and sites."""


class WebArena(AsyncEnvironment):
    """Tasks on web sites, in a real browser."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="webarena",
        version="1.0.0",
        description="Tasks in a browser: a shop, a forum, code hosting, a map, an encyclopedia.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=30,
        profiles=tuple(_MANNERS),
        execution=Execution.PROCESS,
        episode_bytes=32 * 1024 * 1024,
    )
    tasks: WebArenaTasks

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> WebArenaTasks:
        return load_tasks()

    def __init__(self, tasks: WebArenaTasks) -> None:
        super().__init__(tasks)
        self._episode: _Episode | None = None

    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles)
        drawn: SiteTask = task.payload.draw()
        await self.close_async()
        self._episode, first = await _begin(drawn, _MANNERS[options.profile], ())
        return Observation(first.text)

    async def step_async(self, action: str) -> Observation:
        episode = self._running
        for _ in range(_REBUILDS):
            try:
                step = await episode.browsing.step(action)
                break
            except BrowserLost:
                episode = self._episode = await self._rebuilt(episode)
        else:
            step = await episode.browsing.step(action)
        score = await _score(episode, step.answer)
        await _note(episode, action, step)
        if score is None:
            return Observation(step.text, reward=0.0)
        reason = StopReason.GOAL_REACHED if score == 1 else StopReason.GOAL_FAILED
        return Observation(step.text, reward=score, terminated=True, stop_reason=reason)

    async def close_async(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.window.close()

    async def fork_async(self) -> Self:
        twin = type(self)(self.tasks)
        twin._episode = await self._rebuilt(self._running)
        return twin

    def fingerprint(self) -> bytes:
        return self._running.proof

    async def advise_expert_async(self, seed: int) -> Advice:
        action = self._running.follower.action
        return Advice(action, "This is what the next part of the objective needs.")

    def advise_random(self, rng: random.Random) -> Advice:
        elements = list(self._running.seen.tree.elements.values())
        choices = ["scroll [down]", "scroll [up]", "go_back", f"stop [{rng.choice(_GUESSES)}]"]
        for element in elements:
            role = element.line.partition("] ")[2].partition(" ")[0]
            if role in ("link", "button", "checkbox", "radio"):
                choices.append(f"click [{element.element_id}]")
            elif role in ("textbox", "searchbox", "combobox"):
                choices.append(f"type [{element.element_id}] [{rng.choice(_WORDS)}] [1]")
        return Advice(rng.choice(choices), "I try something.")

    def advise_noop(self) -> Advice:
        return Advice("scroll [up]", "I only look.")

    @property
    def _running(self) -> _Episode:
        if self._episode is None:
            raise RuntimeError("reset has to come before everything else")
        return self._episode

    async def _rebuilt(self, episode: _Episode) -> _Episode:
        """Return an episode in the same state, in a window of its own."""
        twin, _ = await _begin(episode.task, episode.manner, episode.actions)
        if twin.proof != episode.proof:
            await twin.window.close()
            raise RuntimeError("an episode that was played again came to another state")
        return twin


_GUESSES: Final = ("", "N/A", "yes", "no", *map(str, range(10)))
"""What the random player answers; nobody knows better than by chance what cannot be done."""
_WORDS: Final = ("blue", "2023", "garden", "music", "price", "new", "help")


async def _begin(
    task: SiteTask, manner: Manner, actions: tuple[str, ...] | list[str]
) -> tuple[_Episode, Step]:
    """Start a task in a new window and a new world, and play actions."""
    world, network = new_world(), embedded_network()

    async def respond(request: Request) -> SiteAnswer:
        return await network.answer(
            world, request.method, request.url, request.headers, request.body
        )

    window = await _browser().open_window(Door(network.hosts, respond))
    try:
        await _sign_in(window, network, world)
        probe = PlainRequest(network.hosts, respond)
        browsing = Browsing(window, _SERVED, task.intent, manner=manner, probe=probe)
        first = await browsing.open([_SERVED.opened(task.start)])
        assert first.seen is not None, "a page that was just opened can be seen"
        follower = Follower(task.start, task.plan)
        follower.look(first.seen)
        episode = _Episode(task, manner, follower, world, window, browsing, first.seen)
        episode.proof = await _prove(episode, b"", first.text)
        for action in actions:
            await _note(episode, action, await browsing.step(action))
    except BaseException:
        await asyncio.shield(window.close())
        raise
    return episode, first


async def _sign_in(window: Window, network: Network, world: World) -> None:
    """Let the window know its accounts, as the original does with stored logins."""
    cookies = [network.sign_in(world, site, account) for site, account in _ACCOUNTS.items()]
    await window.context.add_cookies(
        [{"name": it.name, "value": it.value, "domain": it.host, "path": "/"} for it in cookies]
    )


async def _note(episode: _Episode, action: str, step: Step) -> None:
    """Take a step into the state of the episode."""
    episode.follower.note(action)
    episode.actions.append(action)
    if step.seen is not None:
        episode.seen = step.seen
        episode.follower.look(step.seen)
    episode.proof = await _prove(episode, episode.proof + action.encode(), step.text)


async def _prove(episode: _Episode, before: bytes, text: str) -> bytes:
    proof = hashlib.blake2b(before, digest_size=16)
    proof.update(text.encode())
    proof.update(episode.world.digest().encode())
    proof.update(await episode.browsing.digest())
    return proof.digest()


async def _score(episode: _Episode, answer: str | None) -> float | None:
    """Return the score of an answer; None where the episode goes on."""
    if answer is None:
        return None
    task = episode.task
    if task.check is not None and not task.check(episode.world):
        return 0.0
    score = await evaluate(
        task.criteria,
        intent=task.intent,
        answer=answer,
        page=JudgedPage(episode.browsing),
        judge=OfflineJudge(),
        shop=WorldShop(episode.world),
    )
    return score.value
