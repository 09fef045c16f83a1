"""How much better an episode, or a turn of it, was than others: what moves its tokens' probability.

Pure functions of rewards and states. An advantage of 0 moves nothing.

Sources: groups of one task https://arxiv.org/abs/2402.03300; without division
https://arxiv.org/abs/2503.20783; the others' mean https://arxiv.org/abs/2402.14740; the whole
batch's mean and deviation https://arxiv.org/abs/2501.03262; credit of turns in the same
state https://arxiv.org/abs/2505.10978; of stretches between states whose value was found by playing
on from them https://arxiv.org/abs/2410.01679, https://arxiv.org/abs/2505.23564; from estimated
values https://arxiv.org/abs/1506.02438.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AdvantageConfig",
    "branch_advantages",
    "episode_advantages",
    "generalized_advantages",
    "telling_groups",
    "turn_advantages",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageConfig:
    """What rewards are compared with."""

    baseline: Literal["group", "leave_one_out", "batch", "value"] = "group"
    """What is taken off a reward: the mean of its task's episodes, of the other ones of its task
    (RLOO), of all of the step (REINFORCE++), or what a value head expects before each token (PPO
    with generalised advantages; groups may then be of one episode)."""
    deviation: Literal["group", "batch"] = "group"
    """Whose deviation advantages are divided by, where they are: their task's, or the step's."""
    turn_weight: float = 0.0
    """Above 0, each turn has a further advantage of this weight: its discounted return less the
    mean over all turns of the task that began in the same state (GiGPO)."""
    turn_discount: float = 0.95
    """What a reward counts one turn earlier."""

    def __post_init__(self) -> None:
        if self.baseline == "value" and self.turn_weight:
            raise ValueError('baseline = "value" has credit of turns already: turn_weight is 0')
        if self.turn_weight < 0 or not 0 < self.turn_discount <= 1:
            raise ValueError("turn_weight is at least 0, turn_discount above 0 and at most 1")


def episode_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    config: AdvantageConfig,
    *,
    normalise: bool,
) -> list[float]:
    """Return the advantage of each episode.

    A group whose rewards are all equal, or of one, has advantages of 0 unless the baseline is the
    batch's: it says nothing about which of its episodes was better.

    Args:
        rewards: Of the episodes.
        groups: The task of each.
        config: What they are compared with.
        normalise: Divide by the deviation.
    """
    members = _by_group(rewards, groups)
    if config.baseline == "batch":
        advantages = [reward - _mean(rewards) for reward in rewards]
    else:
        advantages = [
            _difference(reward, members[group], config.baseline)
            for reward, group in zip(rewards, groups, strict=True)
        ]
    if not normalise:
        return advantages
    if config.deviation == "batch" or config.baseline == "batch":
        scale = _deviation(advantages)
        return [advantage / scale if scale else 0.0 for advantage in advantages]
    return [
        advantage / _deviation(members[group]) if advantage else 0.0
        for advantage, group in zip(advantages, groups, strict=True)
    ]


def branch_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    turns: Sequence[int],
    branches: Sequence[Mapping[int, Sequence[float]]],
    config: AdvantageConfig,
    *,
    normalise: bool,
) -> list[list[float]]:
    """Return the advantage of each turn of each episode by what states on its way were worth.

    A state is worth the mean reward of the branches that were played from it; the first one that of
    the group's episodes, the last one the episode's reward. All turns between two such states have
    the later one's worth less the earlier one's: together they make the episode's advantage over
    its group. A group whose episodes and branches all have one reward has advantages of 0.

    Args:
        rewards: Of the episodes.
        groups: The task of each.
        turns: Of each.
        branches: Of each, by the number of turns before a state, the rewards of its branches.
        config: Whether an episode itself counts for its group's mean ("leave_one_out"), and whose
            deviation divides: that of all rewards about their group's mean, branches included.
        normalise: Divide by the deviation.
    """
    members = _by_group(rewards, groups)
    played = {group: list(own) for group, own in members.items()}
    for group, states in zip(groups, branches, strict=True):
        played[group] += [reward for ends in states.values() for reward in ends]
    centred = {it: [reward - _mean(own) for reward in own] for it, own in played.items()}
    step = _deviation([it for own in centred.values() for it in own])
    found: list[list[float]] = []
    for reward, group, count, states in zip(rewards, groups, turns, branches, strict=True):
        if max(played[group]) == min(played[group]):
            found.append([0.0] * count)
            continue
        start = reward - _difference(reward, members[group], config.baseline)
        worth = {0: start} | {turn: _mean(ends) for turn, ends in states.items()} | {count: reward}
        scale = 1.0
        if normalise:
            scale = step if config.deviation == "batch" else _deviation(centred[group])
        points = sorted(worth)
        advantages: list[float] = []
        for begin, end in itertools.pairwise(points):
            advantages += [(worth[end] - worth[begin]) / scale] * (end - begin)
        found.append(advantages)
    return found


def generalized_advantages(
    values: NDArray[np.float32], reward: float, *, discount: float, gae_lambda: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the advantage of each token of an episode, and what its value should have been.

    Args:
        values: What was expected before each token, [tokens].
        reward: Of the episode, earned by its last token.
        discount: What a reward counts one token earlier.
        gae_lambda: What an error of a later value counts one token earlier.
    """
    following = np.append(values[1:], 0.0)
    errors = discount * following - values
    if len(errors):
        errors[-1] += reward
    advantages = np.zeros(len(values), np.float64)
    ahead = 0.0
    for at in reversed(range(len(values))):
        ahead = errors[at] + discount * gae_lambda * ahead
        advantages[at] = ahead
    return advantages.astype(np.float32), (advantages + values).astype(np.float32)


def telling_groups(rewards: Sequence[float], groups: Sequence[Hashable]) -> int:
    """Return the number of groups whose rewards differ."""
    return sum(max(it) > min(it) for it in _by_group(rewards, groups).values())


def turn_advantages(
    rewards: Sequence[float],
    groups: Sequence[Hashable],
    states: Sequence[Sequence[bytes]],
    config: AdvantageConfig,
    *,
    normalise: bool,
) -> list[list[float]]:
    """Return the advantage of each turn of each episode over others in the same state.

    The reward of an episode counts as earned by its last turn.

    Args:
        rewards: Of the episodes.
        groups: The task of each.
        states: Of each episode, the hash of the state that each turn began in.
        config: Has the discount.
        normalise: Divide by the deviation among the turns of a state.
    """
    returns: dict[tuple[Hashable, bytes], list[float]] = {}
    for reward, group, begun in zip(rewards, groups, states, strict=True):
        for turn, state in enumerate(begun):
            returns.setdefault((group, state), []).append(
                _discounted(reward, len(begun) - 1 - turn, config)
            )
    return [
        [
            _advantage(
                _discounted(reward, len(begun) - 1 - turn, config),
                returns[group, state],
                normalise=normalise,
            )
            for turn, state in enumerate(begun)
        ]
        for reward, group, begun in zip(rewards, groups, states, strict=True)
    ]


def _discounted(reward: float, turns_to_go: int, config: AdvantageConfig) -> float:
    return reward * config.turn_discount**turns_to_go


def _by_group(rewards: Sequence[float], groups: Sequence[Hashable]) -> dict[Hashable, list[float]]:
    members: dict[Hashable, list[float]] = {}
    for reward, group in zip(rewards, groups, strict=True):
        members.setdefault(group, []).append(reward)
    return members


def _difference(reward: float, group: Sequence[float], baseline: str) -> float:
    if max(group) == min(group):
        return 0.0
    difference = reward - _mean(group)
    # The mean of the others is off by as much more.
    return difference * len(group) / (len(group) - 1) if baseline == "leave_one_out" else difference


def _advantage(value: float, others: Sequence[float], *, normalise: bool) -> float:
    difference = _difference(value, others, "group")
    return difference / _deviation(others) if difference and normalise else difference


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
