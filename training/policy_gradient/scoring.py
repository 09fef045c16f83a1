"""A step's episodes as what is learned from: each compared with others, token by token."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent_runtime.scores import recorded_score
from agentgym.episode.v1 import episode_pb2
from training.data.advantages import (
    branch_advantages,
    episode_advantages,
    telling_groups,
    turn_advantages,
)
from training.data.sequences import TokenSequence
from training.data.trajectories import TokenAges, WeightVersions, read_trajectories
from training.errors import DataError
from training.policy_gradient.recipe import GRPORecipe
from training.rollouts.step_metrics import describe_branches, describe_episodes

__all__ = ["Example", "ScoredStep", "episode_reward", "score_groups"]


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence of a step."""

    sequence: TokenSequence
    advantages: NDArray[np.float32]
    """[targets]"""
    episode: int = 0
    """Which of the step's it is of."""
    reward: float = 0.0
    """Of the episode."""
    values: NDArray[np.float32] | None = None
    """[targets], before the step's first update; None = there is no value head."""
    returns: NDArray[np.float32] | None = None
    """[targets]: what the values should have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStep:
    """A step's episodes as examples."""

    examples: tuple[Example, ...]
    """Those with an advantage other than 0: the others have no gradient."""
    groups: int
    informative_groups: int
    """Groups whose rewards differ."""
    off_policy_tokens: int
    """Sampled tokens that were left out for their age."""
    rewards: tuple[float, ...]
    """Of each episode."""
    advantages: tuple[NDArray[np.float32], ...]
    """Of each episode, of its turns."""
    figures: Mapping[str, float]
    """What `describe_episodes` says of them."""
    ages: TokenAges


def score_groups(
    episodes: Sequence[episode_pb2.Episode],
    recipe: GRPORecipe,
    step: int,
    perfect_scores: Mapping[str, float],
    versions: WeightVersions,
    branches: Sequence[episode_pb2.Episode] = (),
) -> ScoredStep:
    """Compare each episode with those of the same task.

    Args:
        episodes: All of a step.
        recipe: The run's.
        step: Its number; tokens of weights that are too old for it are left out.
        perfect_scores: By environment; rewards are divided by them.
        versions: How the weights are named that played them.
        branches: What was played on from turns of them, which is not learned from.

    Raises:
        LogprobsMissing: An episode was recorded without logprobs.
    """

    def reward_of(episode: episode_pb2.Episode) -> float:
        return episode_reward(episode) / perfect_scores.get(episode.environment, 1.0)

    rewards = [reward_of(episode) for episode in episodes]
    tasks = [_group(episode, recipe) for episode in episodes]
    if recipe.branches.states:
        values = _branch_rewards(episodes, branches, reward_of)
        advantages = _stretches_advantages(episodes, rewards, tasks, values, recipe)
    else:
        advantages = _turns_advantages(episodes, rewards, tasks, recipe)
    max_age = recipe.max_off_policy_steps
    examples: list[Example] = []
    off_policy_tokens = 0
    ages: list[NDArray[np.int64]] = []
    by_value = recipe.advantages.baseline == "value"
    for number, (episode, of_turns) in enumerate(zip(episodes, advantages, strict=True)):
        trajectories = read_trajectories(
            episode, step=step, max_off_policy_steps=max_age, versions=versions
        )
        off_policy_tokens += sum(trajectory.stale for trajectory in trajectories)
        ages += [trajectory.ages for trajectory in trajectories]
        for trajectory in trajectories:
            of_tokens = of_turns[trajectory.turns]
            if of_tokens.any() or by_value:
                reward = rewards[number]
                examples.append(Example(trajectory.sequence, of_tokens, number, reward))
    return ScoredStep(
        examples=tuple(examples),
        groups=len(set(tasks)),
        informative_groups=telling_groups(rewards, tasks),
        off_policy_tokens=off_policy_tokens,
        rewards=tuple(rewards),
        advantages=tuple(advantages),
        figures=describe_episodes(episodes, rewards) | describe_branches(branches),
        ages=TokenAges.of(ages),
    )


def _group(episode: episode_pb2.Episode, recipe: GRPORecipe) -> Hashable:
    """Return what an episode is compared within: its task, each time that it is played."""
    repetition = episode.sample // recipe.group if recipe.asynchronous else 0
    return episode.environment, episode.item_id, repetition


def _turns_advantages(
    episodes: Sequence[episode_pb2.Episode],
    rewards: Sequence[float],
    tasks: Sequence[Hashable],
    recipe: GRPORecipe,
) -> list[NDArray[np.float32]]:
    """Return the advantage of each turn of each episode: its episode's, and its own."""
    config = recipe.advantages
    of_episodes = (
        [0.0] * len(rewards)  # a value head has yet to say what it expected
        if config.baseline == "value"
        else episode_advantages(rewards, tasks, config, normalise=recipe.normalise)
    )
    counts = [_turns(episode) for episode in episodes]
    advantages = [
        np.full(count, advantage, np.float32)
        for count, advantage in zip(counts, of_episodes, strict=True)
    ]
    if config.turn_weight:
        begun = [
            [step.state_hash for step in episode.steps[:count]]
            for episode, count in zip(episodes, counts, strict=True)
        ]
        for episode, states in zip(episodes, begun, strict=True):
            if not all(states):
                raise DataError(
                    f"episode {episode.episode_id} has a state without a hash, and turns are "
                    f"compared by states: set advantages.turn_weight = 0 for {episode.environment}",
                    field="advantages.turn_weight",
                )
        own = turn_advantages(rewards, tasks, begun, config, normalise=recipe.normalise)
        for of_turns, further in zip(advantages, own, strict=True):
            of_turns[: len(further)] += config.turn_weight * np.array(further, np.float32)
    return advantages


def _branch_rewards(
    episodes: Sequence[episode_pb2.Episode],
    branches: Sequence[episode_pb2.Episode],
    reward_of: Callable[[episode_pb2.Episode], float],
) -> list[dict[int, list[float]]]:
    """Return the rewards of each episode's branches, by the turn where they go off."""
    found: dict[str, dict[int, list[float]]] = {it.episode_id: {} for it in episodes}
    for branch in branches:
        of_turns = found[branch.parent.episode_id]
        of_turns.setdefault(branch.parent.turn, []).append(reward_of(branch))
    return [found[episode.episode_id] for episode in episodes]


def _stretches_advantages(
    episodes: Sequence[episode_pb2.Episode],
    rewards: Sequence[float],
    tasks: Sequence[Hashable],
    values: Sequence[Mapping[int, Sequence[float]]],
    recipe: GRPORecipe,
) -> list[NDArray[np.float32]]:
    """Return the advantage of each turn of each episode by the branches of its states."""
    counts = [_turns(episode) for episode in episodes]
    advantages = branch_advantages(
        rewards, tasks, counts, values, recipe.advantages, normalise=recipe.normalise
    )
    return [np.array(of_turns, np.float32) for of_turns in advantages]


def _turns(episode: episode_pb2.Episode) -> int:
    """Return the turns of an episode: a reply that no step answered, as it was cut off, is one."""
    return max((call.turn + 1 for call in episode.generations), default=0)


def episode_reward(episode: episode_pb2.Episode) -> float:
    """Return what an episode counts with; 0 where it has no score."""
    score = recorded_score(episode)
    return 0.0 if score is None else score
