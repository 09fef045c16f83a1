"""What the BabyAI tests share: how an episode is started and played."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from env_servers.environments.babyai.environment import BabyaiEnvironment
from env_servers.environments.babyai.levels import LEVELS
from env_servers.environments.babyai.tasks import BabyaiTasks
from env_servers.sdk import Observation, ResetOptions

TASKS = BabyaiTasks()


def start(
    level: int, seed: int, profile: str = "agentgym", **options: Any
) -> tuple[BabyaiEnvironment, Observation]:
    """A fresh episode of a level 1..40 and its first observation."""
    return begin(f"babyai_{seed * len(LEVELS) + level - 1}", profile, **options)


def begin(
    item_id: str, profile: str = "agentgym", **options: Any
) -> tuple[BabyaiEnvironment, Observation]:
    """A fresh episode of an item and its first observation."""
    episode = BabyaiEnvironment(TASKS)
    return episode, episode.reset(
        TASKS.get(item_id), ResetOptions(profile=profile, options=options)
    )


def play(episode: BabyaiEnvironment, actions: Iterable[str]) -> list[Observation]:
    """The observations of some actions."""
    return [episode.step(action) for action in actions]


def solve(episode: BabyaiEnvironment, rounds: int) -> tuple[Observation, list[str]]:
    """Let the expert play; the last observation and the actions."""
    actions: list[str] = []
    observation = Observation("")
    while len(actions) < rounds and not (observation.terminated or observation.truncated):
        action = episode.advise_expert(len(actions)).action
        if action.startswith("check"):
            break
        observation = episode.step(action)
        actions.append(action)
    return observation, actions
