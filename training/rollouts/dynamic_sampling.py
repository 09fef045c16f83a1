"""Groups that teach something: those whose rewards agree are replaced by further tasks.

Source: dynamic sampling of DAPO, https://arxiv.org/abs/2503.14476. Which tasks take the place of
which is a function of the step and of recorded rewards, so that a resumed training, and every
process of it, finds the same ones.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from training.rollouts.on_policy import Task

__all__ = ["PlayTasks", "SampledGroups", "agreeing_tasks", "further_tasks", "sample_groups"]

PlayTasks = Callable[[Sequence[Task]], Awaitable[list[episode_pb2.Episode]]]
Reward = Callable[[episode_pb2.Episode], float]


@dataclass(frozen=True, slots=True)
class SampledGroups:
    """What was played for a step."""

    episodes: Sequence[episode_pb2.Episode]
    replacements: int = 0
    """Tasks that were played in place of others."""
    branches: Sequence[episode_pb2.Episode] = ()
    """What was played on from turns of the episodes."""


async def sample_groups(
    play: PlayTasks,
    planned: Sequence[Task],
    further: Callable[[Sequence[Task], Sequence[Task]], Sequence[Task]],
    reward: Reward,
    *,
    rounds: int,
) -> SampledGroups:
    """Play a group per task, and others in place of those whose rewards agree.

    Args:
        play: Returns the episodes of tasks.
        planned: The step's tasks.
        further: Called with tasks to be replaced and all that were played; returns others.
        reward: Of an episode.
        rounds: How often what agrees is replaced; 0 = never.
    """
    played = list(planned)
    episodes = await play(planned)
    newest: Sequence[Task] = planned
    for _ in range(rounds):
        newest = further(agreeing_tasks(newest, episodes, reward), played)
        if not newest:
            break
        played += newest
        episodes = [*episodes, *await play(newest)]
    return SampledGroups(episodes, len(played) - len(planned))


def agreeing_tasks(
    tasks: Sequence[Task], episodes: Sequence[episode_pb2.Episode], reward: Reward
) -> list[Task]:
    """Return the tasks whose episodes all have one reward; also those that have none."""
    rewards: dict[Task, set[float]] = {task: set() for task in tasks}
    for episode in episodes:
        task = (episode.environment, episode.item_id)
        if task in rewards:
            rewards[task].add(reward(episode))
    return [task for task in tasks if len(rewards[task]) < 2]


def further_tasks(
    tasks: Mapping[str, Sequence[str]],
    replaced: Sequence[Task],
    played: Sequence[Task],
    *,
    step: int,
    seed: int,
) -> list[Task]:
    """Return for each task another one of its environment, as far as there are more.

    Args:
        tasks: All, by environment.
        replaced: Whose place is taken.
        played: Those of this step, which come no second time.
        step: The training step.
        seed: Of the order in which further tasks are taken.
    """
    taken = frozenset(played)
    waiting: dict[str, list[str]] = {}
    for name in {name for name, _ in replaced}:
        order = sorted(tasks[name])
        random.Random(seeds.derive("grpo-further", seed, step, name)).shuffle(order)
        waiting[name] = [item for item in reversed(order) if (name, item) not in taken]
    return [(name, waiting[name].pop()) for name, _ in replaced if waiting[name]]
