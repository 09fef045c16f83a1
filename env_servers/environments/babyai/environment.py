"""A BabyAI episode as text: macro actions in, egocentric descriptions out.

Owns one live level, what its actions do, and the bookkeeping of rewards. Two profiles: `agentgym`
behaves like AgentGym's server with its bugs, `fixed` without them (README lists them). Knows
nothing of ids and channels.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

from env_servers.environments.babyai import expert
from env_servers.environments.babyai import tasks as task_ids
from env_servers.environments.babyai.levels import Level, build
from env_servers.environments.babyai.prompt import CONVERSATION_STARTS, GRAMMAR
from env_servers.environments.babyai.scene import CHECK, UNRECOGNISED, Held, Scene
from env_servers.environments.babyai.state import hidden_state, objects_of
from env_servers.environments.babyai.world import World
from env_servers.sdk import (
    Advice,
    Environment,
    EnvironmentConfig,
    EnvironmentSpec,
    InvalidOption,
    Metric,
    Observation,
    ResetOptions,
    StopReason,
    Task,
    TaskSet,
)

__all__ = ["BabyaiEnvironment"]

UNCHANGED: Final = "No change in state."
COMPLETED: Final = "\n The task is completed."
FAILED: Final = "\n The task has failed."
LISTING: Final = "You can take the following actions: "
KEPT_REWARD: Final = 0.5
"""The original forgets a success that earns no more than this."""
_OPTION: Final = "available_actions"
_PATIENCE: Final = 2
"""Visits of one state after which the expert stops to trust macro actions there."""

_Mark = tuple[object, ...]
"""What tells the expert that it has been here before."""


class BabyaiEnvironment(Environment):
    """One level of MiniGrid's BabyAI, played in words."""

    spec = EnvironmentSpec(
        name=task_ids.NAME,
        version="1",
        description="Grid-world instructions in 40 levels: go, pick up, open, put next to.",
        grammar=GRAMMAR,
        conversation_starts=CONVERSATION_STARTS,
        max_rounds=20,
        metric=Metric.MEAN_SCORE,
        success_score=1e-6,
        profiles=("agentgym", "fixed"),
        has_score=True,
        episode_bytes=128 * 1024,
    )

    def __init__(self, tasks: TaskSet) -> None:
        super().__init__(tasks)
        self._level: Level
        self._scene: Scene
        self._sight: tuple[int, ...] = ()
        self._original = True
        self._lists_actions = True
        self._reward = 0.0
        self._score = 0.0
        self._reached = False
        """The goal was reached, even if the profile forgot it."""
        self._movable: list[Any] = []
        self._visits: Counter[_Mark] = Counter()
        self._tried: set[str] = set()

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        return task_ids.load(config)

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        """Start the level of a task.

        Option `available_actions` (default true): every observation ends with their list. The
        recordings of AgentTraj-L have none.
        """
        options.require(self.spec.profiles, (_OPTION,))
        lists = options.options.get(_OPTION, True)
        if not isinstance(lists, bool):
            raise InvalidOption(f"{_OPTION} must be true or false", valid="true, false")
        start: task_ids.Start = task.payload
        self._original = options.profile == "agentgym"
        self._lists_actions = lists
        self._level, self._sight = build(start.level, start.seed, original=self._original)
        self._movable = objects_of(self._level)
        self._reward = self._score = 0.0
        self._reached = False
        self._see()
        self._visits = Counter((self._mark(),))
        self._tried = set()
        return self._observe(f"Your goal: {self._goal()}\n{self._scene.describe()}")

    def step(self, action: str) -> Observation:
        wanted = action.lower().strip()
        if wanted not in self._scene.offers:
            return self._act(wanted)
        before = self._mark()
        observation = self._act(wanted)
        after = self._mark()
        self._visits[after] += 1
        if after != before:
            self._tried.clear()
        else:
            self._tried.add(wanted)
        return observation

    def _act(self, wanted: str) -> Observation:
        return self._step_original(wanted) if self._original else self._step_fixed(wanted)

    def fingerprint(self) -> bytes:
        """The level, what was earned, and what the expert remembers."""
        options = (self._original, self._lists_actions, self._reached, self._sight)
        earned = (self._reward, self._score)
        level = hidden_state(self._level, self._movable)
        visits = sorted(map(repr, self._visits.items()))
        return repr((options, earned, level, visits, sorted(self._tried))).encode()

    def _goal(self) -> str:
        mission = str(self._level.mission)
        if self._original:
            return mission.replace("then", "and").replace("after you", "and")
        return mission

    def _see(self) -> None:
        """Describe the last sight anew."""
        carried = self._level.carrying
        held = None if carried is None else Held(carried.type, carried.color)
        direction = int(self._level.agent_dir)
        self._scene = Scene(self._sight, direction, held, original=self._original)

    def _observe(self, text: str, **end: Any) -> Observation:
        """An observation of the score so far, with the list of actions if wanted."""
        if self._lists_actions:
            listed = ", ".join(f'"{name}"' for name in self._scene.offers)
            text = f"{text}\nAvailable actions: [{listed}]"
        return Observation(text, self._score, self._score, **end)

    def _answer(self, wanted: str) -> str | None:
        """What is said instead of acting, or None where there is something to do."""
        offers = self._scene.offers
        asks = "check" in wanted if self._original else wanted == CHECK
        if asks:
            return LISTING + ", ".join(offers)
        if wanted and wanted not in offers:
            return self._scene.refusals.get(wanted, UNRECOGNISED)
        if not wanted or not offers[wanted].moves:
            return UNCHANGED
        return None

    def _step_original(self, wanted: str) -> Observation:
        """As AgentGym: the last reward is earned again by every round, whatever it does."""
        answer = self._answer(wanted)
        if answer is not None:
            self._score += self._reward
            return self._observe(answer)
        done, reward = False, 0.0
        for move in self._scene.offers[wanted].moves:
            seen, reward, done, _, _ = self._level.step(move)
            changed = seen["image"] != self._sight
            self._sight = seen["image"]
            if not changed:
                break
        self._reward = float(reward)
        self._score += self._reward
        self._reached = self._reached or (done and reward != 0)
        self._see()
        text = self._scene.describe()
        if not done:
            return self._observe(text)
        if self._reward <= KEPT_REWARD:
            return self._observe(text + COMPLETED)
        return self._observe(text + COMPLETED, terminated=True, stop_reason=StopReason.GOAL_REACHED)

    def _step_fixed(self, wanted: str) -> Observation:
        """Success and failure end the episode at once, and so does the level's step limit."""
        wanted = wanted.replace("pick up ", "pickup ", 1) if wanted[:8] == "pick up " else wanted
        answer = self._answer(wanted)
        if answer is not None:
            return self._observe(answer)
        done = truncated = False
        for move in self._scene.offers[wanted].moves:
            before = self._place()
            seen, reward, done, truncated, _ = self._level.step(move)
            self._sight = seen["image"]
            if done:
                self._score = max(float(reward), 0.0)
            if done or truncated or self._place() == before:
                break
        self._see()
        text = self._scene.describe()
        if done and self._score > 0.0:
            text += COMPLETED
            return self._observe(text, terminated=True, stop_reason=StopReason.GOAL_REACHED)
        if done:
            text += FAILED
            return self._observe(text, terminated=True, stop_reason=StopReason.GOAL_FAILED)
        if truncated:
            return self._observe(text, truncated=True, stop_reason=StopReason.STEP_LIMIT)
        return self._observe(text)

    def advise_expert(self, seed: int) -> Advice:
        if self._reached:
            return Advice(CHECK, "The goal has been reached already.")
        often = self._visits[self._mark()] > _PATIENCE
        return expert.advise(
            World(self._level),
            self._scene,
            original=self._original,
            tried=self._tried,
            careful=often,
            seed=seed,
        )

    def advise_random(self, rng: random.Random) -> Advice:
        return Advice(rng.choice(list(self._scene.offers)), "I try one of the actions.")

    def advise_noop(self) -> Advice:
        return Advice(CHECK, "I only look at what is possible.")

    def _mark(self) -> _Mark:
        level = self._level
        x, y = level.agent_pos
        held = level.carrying
        name = None if held is None else (held.type, held.color)
        return int(x), int(y), int(level.agent_dir), name, self._sight

    def _place(self) -> tuple[object, ...]:
        """What a move changes if it changes anything."""
        level = self._level
        x, y = level.agent_pos
        dx, dy = level.dir_vec
        ahead = level.grid.get(int(x + dx), int(y + dy))
        shown = None if ahead is None else (id(ahead), ahead.encode())
        return int(x), int(y), int(level.agent_dir), id(level.carrying), shown
