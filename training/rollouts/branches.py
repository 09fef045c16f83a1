"""What states were worth: episodes are played on from some of their turns, several times each.

Which turns is a function of the seed and the episode, so that a resumed training asks for the same
branches. They are recorded like any episode, in run folders of their own; a record names its parent
and the turn where it goes off, so that every value can be computed again from what is on disk.

Sources: the value of a state as the mean return of continuations https://arxiv.org/abs/2410.01679
(VinePPO); only at some states, between which all replies share one advantage
https://arxiv.org/abs/2505.23564 (SPO).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent_runtime.agent import BranchStart
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.records import EpisodeKey
from orchestrator.turns import messages_until
from training.errors import RecipeError

__all__ = ["BranchConfig", "branch_start", "branch_turns", "plan_branches", "require_branches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchConfig:
    """Which states are valued, and by how many continuations."""

    states: int = 0
    """States of each episode, drawn from those between its first reply and its last; 0 = none."""
    per_state: int = 4
    """Branches of each, played to their end by the weights that played the episode."""

    def __post_init__(self) -> None:
        if self.states < 0 or self.per_state < 1:
            raise ValueError("states is at least 0, per_state at least 1")


def branch_turns(episode: episode_pb2.Episode, states: int, *, seed: int, step: int) -> list[int]:
    """Return the turns of an episode after which its branches go off, in order.

    The state of the reset is none of them: the other episodes of the group begin there. Nor is that
    of the end.
    """
    between = range(1, len(episode.steps) - 1)
    parts = (seed, step, episode.environment, episode.item_id, episode.sample)
    draw = random.Random(seeds.derive("branch-turns", *parts))
    return sorted(draw.sample(between, min(states, len(between))))


def plan_branches(
    episodes: Sequence[episode_pb2.Episode],
    config: BranchConfig,
    *,
    samples: int,
    seed: int,
    step: int,
) -> dict[EpisodeKey, tuple[episode_pb2.Episode, int]]:
    """Return the key of each branch of a step's episodes, with its parent and its turn.

    Branches are numbered from `samples` on, the episodes of an item: seeds of replies derive from
    the number, and a branch of sample 0 must not draw what sample 0 did.
    """
    planned: dict[EpisodeKey, tuple[episode_pb2.Episode, int]] = {}
    for episode in episodes:
        turns = branch_turns(episode, config.states, seed=seed, step=step)
        for place, turn in enumerate(turns):
            first = samples + (episode.sample * config.states + place) * config.per_state
            for sample in range(first, first + config.per_state):
                key = EpisodeKey(episode.environment, episode.item_id, sample, episode.policy)
                planned[key] = (episode, turn)
    return planned


def branch_start(record: episode_pb2.Episode, turn: int) -> BranchStart:
    """Return what a branch of a record begins with, with the very tokens that were sampled.

    Raises UsageError for a turn that was not played, or is not in the conversation.
    """
    return BranchStart(
        parent=episode_pb2.Parent(run_id=record.run_id, episode_id=record.episode_id, turn=turn),
        messages=messages_until(record, turn),
        steps=record.steps[: turn + 1],
        replies=_sampled_ids(record)[:turn],
    )


def require_branches(described: Mapping[str, pb.GetEnvironmentResponse]) -> None:
    """Raise RecipeError for an environment whose states cannot be come back to."""
    for name, environment in sorted(described.items()):
        if pb.CAPABILITY_DETERMINISTIC not in environment.capabilities:
            raise RecipeError(
                f"{name} is not deterministic: its states cannot be come back to, so nothing can "
                "be played on from them. Leave it out, or set branches.states = 0",
                field="branches.states",
            )


def _sampled_ids(record: episode_pb2.Episode) -> list[list[int]]:
    """Return the ids of each reply, call by call; empty where the record has none."""
    if not record.token_segments:
        return []
    replies: list[list[int]] = [[] for _ in record.generations]
    for segment in record.token_segments:
        origins = np.array(segment.origins)
        for at in np.flatnonzero(origins == episode_pb2.TOKEN_ORIGIN_SAMPLED):
            replies[segment.generations[at] - 1].append(segment.ids[at])
    return replies
