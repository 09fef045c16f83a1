"""One WebArena episode: a window on a shared browser, sites of its own, a score at the end.

Every step's reward is 0 until the agent stops; then it is the score, 1 or 0. A browser that dies is
replaced, and the episode is played again in the new one up to where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Final, Self

from env_servers.environments.webarena.actions import Action, Click, Hover, Type
from env_servers.environments.webarena.browser.errors import BrowserLost, TabLost
from env_servers.environments.webarena.browser.shared_browser import BrowserOptions, SharedBrowser
from env_servers.environments.webarena.browser.window import Window
from env_servers.environments.webarena.browsing import (
    AGENTGYM,
    FIXED,
    WEBARENA,
    Browsing,
    Manner,
    Seen,
    Step,
    View,
)
from env_servers.environments.webarena.embedded_stage import EmbeddedStage
from env_servers.environments.webarena.grammar import GRAMMAR
from env_servers.environments.webarena.observation.tree import Element
from env_servers.environments.webarena.official.sites import Site
from env_servers.environments.webarena.official.task_file import OfficialTask
from env_servers.environments.webarena.options import OPTIONS, numbered_by_browser, read_view
from env_servers.environments.webarena.picture import draw
from env_servers.environments.webarena.prompt import CONVERSATION_STARTS
from env_servers.environments.webarena.stage import Stage
from env_servers.environments.webarena.tasks import WebArenaTasks, load_tasks, read_settings
from env_servers.sdk import (
    Advice,
    AsyncEnvironment,
    Environment,
    EnvironmentConfig,
    EnvironmentSpec,
    EnvironmentUnavailable,
    Execution,
    Image,
    ImageType,
    InvalidOption,
    Observation,
    ResetOptions,
    StopReason,
    Task,
)
from env_servers.sdk import View as Drawn

__all__ = ["WebArena"]

_MANNERS: Final = {"agentgym": AGENTGYM, "webarena": WEBARENA, "fixed": FIXED}
_REBUILDS: Final = 2
"""Browsers that one operation may outlive."""


@cache
def _browser(options: BrowserOptions) -> SharedBrowser:
    """Return the browser of this process; it starts with its first window."""
    return SharedBrowser(options)


@dataclass(slots=True)
class _Episode:
    """The state of one episode; the window can be made anew from the rest."""

    stage: Stage
    manner: Manner
    view: View
    window: Window
    browsing: Browsing
    seen: Seen
    actions: list[str] = field(default_factory=list[str])
    proof: bytes = b""
    """Chained over actions, pages and sites; empty where nobody knows the state of the sites."""
    acted: Element | None = None
    """What the last action was about, as it was before."""
    crashes: int = 0
    """Steps in which a page ended by itself."""

    async def leave(self) -> None:
        """Close the window and let the sites go."""
        try:
            await self.window.close()
        finally:
            self.stage.leave()


class WebArena(AsyncEnvironment):
    """Tasks on web sites, in a real browser."""

    spec: ClassVar[EnvironmentSpec] = EnvironmentSpec(
        name="webarena",
        version="1.0.0",
        description="Tasks in a browser: a shop, a forum, code hosting, a map, an encyclopedia.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=30,
        has_views=True,
        has_images=True,
        profiles=tuple(_MANNERS),
        execution=Execution.PROCESS,
        episode_bytes=32 * 1024 * 1024,
    )
    tasks: WebArenaTasks

    @classmethod
    def configured(cls, config: EnvironmentConfig) -> type[Environment]:
        values = read_settings(config)
        official = any(site.value in values for site in Site)
        if official or numbered_by_browser(values):
            return _uncertain_class(cls)
        return cls

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> WebArenaTasks:
        return load_tasks(config)

    def __init__(self, tasks: WebArenaTasks) -> None:
        super().__init__(tasks)
        self._episode: _Episode | None = None

    async def reset_async(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles, OPTIONS)
        view = read_view(options, browser_numbers=self.tasks.browser_numbers)
        named = {"sites": task.category.split("+")} if options.wants("name_sites") else {}
        await self.close_async()
        payload = task.payload
        stage: Stage = (
            self.tasks.official.stage(payload)
            if isinstance(payload, OfficialTask)
            else EmbeddedStage(payload.draw())
        )
        try:
            # Others may be on its sites for minutes, and need turns to come to their end.
            await stage.enter()
            async with _browser(self.tasks.browser).turns.one():
                self._episode, first = await self._begin(stage, _MANNERS[options.profile], view, ())
                try:
                    images = await self._images()
                except BrowserLost:
                    await self._replace_browser()
                    images = await self._images()
        except BaseException:
            stage.leave()
            raise
        told = {**(_info(first) or {}), **named}
        return Observation(first.text, info=told or None, images=images)

    async def step_async(self, action: str) -> Observation:
        async with _browser(self.tasks.browser).turns.one():
            lost = 0
            while True:
                episode = self._running
                try:
                    step = await episode.browsing.step(action)
                    await episode.window.process.require_alive()
                    # A page may have been killed from outside; what ends itself does it again.
                    if not step.crashed or lost or not episode.proof:
                        # Before the step is noted: a browser that is lost here plays it again.
                        images = await self._images()
                        return await _finish(episode, action, step, images)
                except BrowserLost as error:
                    if lost == _REBUILDS:
                        raise _too_often() from error
                lost += 1
                self._episode = None
                await episode.leave()
                self._episode = await self._rebuilt(episode)

    async def close_async(self) -> None:
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.leave()

    async def fork_async(self) -> Self:
        twin = type(self)(self.tasks)
        async with _browser(self.tasks.browser).turns.one():
            twin._episode = await self._rebuilt(self._running)
        return twin

    async def render_async(self) -> Sequence[Drawn]:
        episode = self._running
        try:
            window = await episode.browsing.picture()
        except BrowserLost:
            episode = await self._replace_browser()
            window = await episode.browsing.picture()
        return draw(window, episode.seen, episode.acted)

    def fingerprint(self) -> bytes | None:
        return self._running.proof or None

    async def advise_expert_async(self, seed: int) -> Advice:
        follower = self._running.stage.follower
        if follower is None:
            raise InvalidOption("nobody here knows how official tasks are solved")
        return Advice(follower.action, "This is what the next part of the objective needs.")

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

    async def _replace_browser(self) -> _Episode:
        """Bring the episode back to its state in a new browser."""
        lost, self._episode = self._running, None
        await lost.leave()
        self._episode = await self._rebuilt(lost)
        return self._episode

    async def _images(self) -> tuple[Image, ...]:
        """Return what the agent sees beside the text; a page that is gone shows nothing."""
        episode = self._running
        if not episode.view.images:
            return ()
        try:
            return (Image(ImageType.PNG, await episode.browsing.screenshot()),)
        except TabLost:
            return ()

    @property
    def _running(self) -> _Episode:
        if self._episode is None:
            raise RuntimeError("reset has to come before everything else")
        return self._episode

    async def _rebuilt(self, episode: _Episode) -> _Episode:
        """Return an episode in the same state, in a window of its own."""
        stage = episode.stage.anew()
        twin, _ = await self._begin(
            stage, episode.manner, episode.view, episode.actions, episode.crashes
        )
        if twin.proof != episode.proof:
            await twin.leave()
            raise RuntimeError("an episode that was played again came to another state")
        return twin

    async def _begin(
        self,
        stage: Stage,
        manner: Manner,
        view: View,
        actions: Sequence[str],
        crashes: int = 0,
    ) -> tuple[_Episode, Step]:
        """Start a task in a new window, and play actions, in which so many pages end themselves.

        Where a browser or another page is lost meanwhile, it is begun again.
        """
        lost = 0
        while True:
            try:
                episode, first = await self._begin_once(stage, manner, view, actions)
            except BrowserLost as error:
                if lost == _REBUILDS:
                    raise _too_often() from error
            else:
                if episode.crashes <= crashes or lost == _REBUILDS or not episode.proof:
                    return episode, first
                await episode.leave()
            lost += 1
            stage = stage.anew()

    async def _begin_once(
        self, stage: Stage, manner: Manner, view: View, actions: Sequence[str]
    ) -> tuple[_Episode, Step]:
        async with AsyncExitStack() as begun:
            begun.callback(stage.leave)
            window = await _browser(self.tasks.browser).open_window(
                stage.door, stage.window_options
            )
            begun.push_async_callback(lambda: asyncio.shield(window.close()))
            await stage.admit(window)
            browsing = Browsing(
                window, stage.addresses, stage.intent, manner=manner, view=view, probe=stage.probe
            )
            first = await _open(stage, browsing)
            assert first.seen is not None, "a page that was just opened can be seen"
            if stage.follower is not None:
                stage.follower.look(first.seen)
            episode = _Episode(
                stage, manner, view, window, browsing, first.seen, crashes=int(first.crashed)
            )
            episode.proof = await _prove(episode, b"", first.text)
            for action in actions:
                await _note(episode, action, await browsing.step(action))
            await window.process.require_alive()
            begun.pop_all()
        return episode, first


_GUESSES: Final = ("", "N/A", "yes", "no", *map(str, range(10)))
"""What the random player answers; nobody knows better than by chance what cannot be done."""
_WORDS: Final = ("blue", "2023", "garden", "music", "price", "new", "help")


@cache
def _uncertain_class(environment: type[WebArena]) -> type[WebArena]:
    """Return the same environment where equal actions need not give equal observations."""
    spec = replace(environment.spec, deterministic=False)
    return type(f"Uncertain{environment.__name__}", (environment,), {"spec": spec})


async def _open(stage: Stage, browsing: Browsing) -> Step:
    """Open the pages that a task begins on."""
    from playwright.async_api import Error

    try:
        first = await browsing.open(stage.starts)
    except (Error, TabLost) as error:
        raise EnvironmentUnavailable(
            f"the task's first page cannot be opened: {stage.starts}: {error}"
        ) from error
    await stage.look(browsing)
    return first


async def _finish(
    episode: _Episode, action: str, step: Step, images: tuple[Image, ...]
) -> Observation:
    """Score a step, take it into the state, and return what the agent is told."""
    await episode.stage.look(episode.browsing)
    score = None
    if step.answer is not None:
        score = await episode.stage.score(step.answer, episode.browsing)
    await _note(episode, action, step)
    if score is None:
        return Observation(step.text, reward=0.0, info=_info(step), images=images)
    reason = StopReason.GOAL_REACHED if score.value == 1 else StopReason.GOAL_FAILED
    return Observation(
        step.text,
        reward=score.value,
        terminated=True,
        stop_reason=reason,
        info=_info(step, score.judged_by),
        images=images,
    )


def _info(step: Step, judged_by: str = "") -> Mapping[str, Any] | None:
    """Return what else there is to say; the original says nothing of it in an observation."""
    told = {
        "error": step.error if step.answer is None else "",
        "notices": list(step.notices),
        "refused": sorted({each.url for each in step.refused}),
        "judged_by": judged_by,
    }
    return {name: value for name, value in told.items() if value} or None


def _too_often() -> EnvironmentUnavailable:
    return EnvironmentUnavailable(
        f"the browser ended {_REBUILDS + 1} times while it played one action: is there memory "
        "enough for so many episodes?"
    )


async def _note(episode: _Episode, action: str, step: Step) -> None:
    """Take a step into the state of the episode; nothing of it where the browser is lost."""
    proof = await _prove(episode, episode.proof + action.encode(), step.text)
    follower = episode.stage.follower
    if follower is not None:
        follower.note(action)
    episode.actions.append(action)
    episode.crashes += step.crashed
    if step.seen is not None:
        episode.acted = _element_of(step.action, episode.seen)
        episode.seen = step.seen
        if follower is not None:
            follower.look(step.seen)
    episode.proof = proof


def _element_of(action: Action | None, seen: Seen) -> Element | None:
    """Return what an action on an element addressed."""
    if isinstance(action, (Click, Hover, Type)):
        return seen.tree.elements.get(action.element_id)
    return None


async def _prove(episode: _Episode, before: bytes, text: str) -> bytes:
    sites = episode.stage.digest()
    if sites is None:
        return b""
    proof = hashlib.blake2b(before, digest_size=16)
    proof.update(text.encode())
    proof.update(sites)
    proof.update(await episode.browsing.digest())
    return proof.digest()
