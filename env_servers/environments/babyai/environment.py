"""A BabyAI episode as text: macro actions in, egocentric descriptions out.

Contains one live level, what its actions do, and the bookkeeping of rewards. Two profiles:
`agentgym` behaves like AgentGym's server with its bugs, `fixed` without them (README lists them).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from env_servers.environments.babyai import expert, picture
from env_servers.environments.babyai import tasks as task_ids
from env_servers.environments.babyai.levels import Level, build
from env_servers.environments.babyai.prompt import (
    CONVERSATION_STARTS,
    GRAMMAR,
    GRAMMAR_2024,
)
from env_servers.environments.babyai.scene import CHECK, UNRECOGNISED, Held, Scene, scene_of
from env_servers.environments.babyai.state import hidden_state, list_objects
from env_servers.environments.babyai.world import World
from env_servers.sdk import (
    Advice,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Grammar,
    InvalidOption,
    Metric,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    TaskSet,
    View,
)

__all__ = ["BabyaiEnvironment"]

UNCHANGED: Final = "No change in state."
COMPLETED: Final = "\n The task is completed."
FAILED: Final = "\n The task has failed."
LISTING: Final = "You can take the following actions: "
KEPT_REWARD: Final = 0.5
"""The original forgets a success that earns no more than this."""
_LISTING: Final = "available_actions"
_IMAGES: Final = "images"
_ORIGINAL: Final = "original"
_VERSIONS: Final = ("2025", "2024")
"""Of the original: today's, and the one in which AgentTraj-L was recorded."""
_PATIENCE: Final = 2
"""Visits of one state after which the expert stops to trust macro actions there."""
_KEPT: Final = 4096
"""Marks whose text is kept, 0.4 KiB each: the fingerprint of each step has those of all before."""

_Mark = tuple[object, ...]
"""What tells the expert that it has been here before."""


@dataclass(slots=True)
class _Episode:
    """One level being played, what was earned, and what the expert remembers."""

    level: Level
    image: tuple[int, ...]
    """What the agent sees: MiniGrid's own observation, flattened."""
    scene: Scene
    original: bool
    lists_actions: bool
    version: str
    """Of the original, one of `_VERSIONS`."""
    movable: list[Any]
    shows_images: bool = False
    visits: Counter[_Mark] = field(default_factory=Counter)
    written: dict[_Mark, tuple[str, str]] = field(default_factory=dict)
    """Each visit as the fingerprint has it: its text, by which they are ordered, and its repr."""
    tried: set[str] = field(default_factory=set)
    reward: float = 0.0
    score: float = 0.0
    reached: bool = False
    """The goal was reached, even if the profile forgot it."""

    def step(self, action: str) -> Observation:
        command = action.lower().strip()
        if command not in self.scene.offers:
            return self._act(command)
        before = self.mark()
        observation = self._act(command)
        after = self.mark()
        self.visit(after)
        if after != before:
            self.tried.clear()
        else:
            self.tried.add(command)
        return observation

    def visit(self, mark: _Mark) -> None:
        """Remember to have been here once more."""
        self.visits[mark] += 1
        text = f"({_written(mark)}, {self.visits[mark]})"
        self.written[mark] = text, repr(text)

    def _act(self, command: str) -> Observation:
        return self._step_original(command) if self.original else self._step_fixed(command)

    def goal(self) -> str:
        mission = str(self.level.mission)
        if self.original:
            return mission.replace("then", "and").replace("after you", "and")
        return mission

    def observe(self, text: str, **end: Any) -> Observation:
        """Return an observation of the score so far, with the list of actions if wanted."""
        if self.lists_actions:
            listed = ", ".join(f'"{name}"' for name in self.scene.offers)
            text = f"{text}\nAvailable actions: [{listed}]"
        images = (picture.image_of(self.level),) if self.shows_images else ()
        return Observation(text, self.score, self.score, images=images, **end)

    def _answer(self, command: str) -> str | None:
        """Return what is said instead of acting, or None where there is something to do."""
        offers = self.scene.offers
        asks = "check" in command if self.original else command == CHECK
        if asks:
            return LISTING + ", ".join(offers)
        if command and command not in offers:
            return self.scene.refusals.get(command, UNRECOGNISED)
        if not command or not offers[command].moves:
            return UNCHANGED
        return None

    def _step_original(self, command: str) -> Observation:
        """As AgentGym: the last reward is earned again by every round, whatever it does."""
        answer = self._answer(command)
        if answer is not None:
            self.score += self.reward
            return self.observe(answer)
        done, reward = False, 0.0
        for move in self.scene.offers[command].moves:
            seen, reward, done, _, _ = self.level.step(move)
            changed = seen["image"] != self.image
            self.image = seen["image"]
            if not changed:
                break
        self.reward = float(reward)
        self.score += self.reward
        self.reached = self.reached or (done and reward != 0)
        self.scene = _scene(self.level, self.image, original=self.original)
        text = self.scene.describe()
        if not done:
            return self.observe(text)
        if self.reward <= KEPT_REWARD:
            return self.observe(text + COMPLETED)
        return self.observe(text + COMPLETED, terminated=True, stop_reason=StopReason.GOAL_REACHED)

    def _step_fixed(self, command: str) -> Observation:
        """Success and failure end the episode at once, and so does the level's step limit."""
        command = (
            command.replace("pick up ", "pickup ", 1) if command[:8] == "pick up " else command
        )
        answer = self._answer(command)
        if answer is not None:
            return self.observe(answer)
        done = truncated = False
        for move in self.scene.offers[command].moves:
            before = self._place()
            seen, reward, done, truncated, _ = self.level.step(move)
            self.image = seen["image"]
            if done:
                self.score = max(float(reward), 0.0)
            if done or truncated or self._place() == before:
                break
        self.scene = _scene(self.level, self.image, original=self.original)
        text = self.scene.describe()
        if done and self.score > 0.0:
            text += COMPLETED
            return self.observe(text, terminated=True, stop_reason=StopReason.GOAL_REACHED)
        if done:
            text += FAILED
            return self.observe(text, terminated=True, stop_reason=StopReason.GOAL_FAILED)
        if truncated:
            return self.observe(text, truncated=True, stop_reason=StopReason.STEP_LIMIT)
        return self.observe(text)

    def mark(self) -> _Mark:
        level = self.level
        x, y = level.agent_pos
        held = level.carrying
        name = None if held is None else (held.type, held.color)
        return int(x), int(y), int(level.agent_dir), name, self.image

    def _place(self) -> tuple[object, ...]:
        """Return what a move changes if it changes anything."""
        level = self.level
        x, y = level.agent_pos
        dx, dy = level.dir_vec
        ahead = level.grid.get(int(x + dx), int(y + dy))
        shown = None if ahead is None else (id(ahead), ahead.encode())
        return int(x), int(y), int(level.agent_dir), id(level.carrying), shown


class BabyaiEnvironment(EpisodeEnvironment[_Episode]):
    """One level of MiniGrid's BabyAI, played in words."""

    spec = EnvironmentSpec(
        name=task_ids.NAME,
        version="2",
        description="Grid-world instructions in 40 levels: go, pick up, open, put next to.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        metric=Metric.MEAN_SCORE,
        success_score=1e-6,
        profiles=("agentgym", "fixed"),
        has_score=True,
        has_views=True,
        has_images=True,
        episode_bytes=128 * 1024,
    )
    option_names = (_IMAGES, _LISTING, _ORIGINAL)

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        return task_ids.load(config)

    def start(self, task: Task, options: ResetOptions) -> tuple[_Episode, Observation]:
        """Start the level of a task.

        Option `original` (default 2025): the version that reads the replies. Option
        `available_actions`: every observation ends with their list, as in the version of 2025; by
        default in that one only. Option `images`: every observation has a picture of what the
        agent sees.
        """
        start: task_ids.Start = task.payload
        original = options.profile == "agentgym"
        if _ORIGINAL in options.options and not original:
            raise InvalidOption("option original goes with profile agentgym, not with fixed")
        version = options.choose(_ORIGINAL, _VERSIONS)
        lists = options.wants(_LISTING, default=version != "2024")
        level, image = build(start.level, start.seed, original=original)
        scene = _scene(level, image, original=original)
        movable = list_objects(level)
        episode = _Episode(level, image, scene, original, lists, version, movable)
        episode.shows_images = options.wants(_IMAGES)
        episode.visit(episode.mark())
        return episode, episode.observe(f"Your goal: {episode.goal()}\n{scene.describe()}")

    @property
    def grammar(self) -> Grammar:
        """The one of the version that is followed."""
        return GRAMMAR_2024 if self.episode.version == "2024" else GRAMMAR

    def step(self, action: str) -> Observation:
        return self.episode.step(action)

    def fingerprint(self) -> bytes:
        """Return the level, what was earned, and what the expert remembers."""
        episode = self.episode
        options = (episode.original, episode.lists_actions, episode.version)
        earned = (episode.reward, episode.score, episode.reached)
        level = hidden_state(episode.level, episode.movable)
        image, tried = _shown(episode.image), sorted(episode.tried)
        visits = ", ".join([shown for _, shown in sorted(episode.written.values())])
        # The repr of a tuple of these, most of which are written already.
        return f"({options!r}, {earned!r}, {level}, {image}, [{visits}], {tried!r})".encode()

    def render(self) -> Sequence[View]:
        episode = self.episode
        facts = [f"goal: {episode.goal()}", f"score {episode.score:.3f}"]
        return picture.draw(episode.level, episode.image, facts)

    def advise_expert(self, seed: int) -> Advice:
        episode = self.episode
        if episode.reached:
            return Advice(CHECK, "The goal has been reached already.")
        often = episode.visits[episode.mark()] > _PATIENCE
        return expert.advise(
            World(episode.level),
            episode.scene,
            original=episode.original,
            tried=episode.tried,
            careful=often,
            seed=seed,
        )

    def advise_random(self, rng: random.Random) -> Advice:
        return Advice(rng.choice(list(self.episode.scene.offers)), "I try one of the actions.")

    def advise_noop(self) -> Advice:
        return Advice(CHECK, "I only look at what is possible.")


def _scene(level: Level, image: tuple[int, ...], *, original: bool) -> Scene:
    """Return the description of what the agent sees now."""
    carried = level.carrying
    held = None if carried is None else Held(carried.type, carried.color)
    return scene_of(image, int(level.agent_dir), held, original=original)


@lru_cache(maxsize=_KEPT)
def _written(mark: _Mark) -> str:
    return repr(mark)


@lru_cache(maxsize=_KEPT)
def _shown(image: tuple[int, ...]) -> str:
    return repr(image)
