"""From a scheduler's assignment to the plan of its episode: ids, seeds, and how it is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from google.protobuf import struct_pb2

from agent_runtime.agent import EpisodePlan
from agent_runtime.agents import PlaySettings
from agent_runtime.spending import EpisodeLimits
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from orchestrator import seeds
from orchestrator.prompts import to_conversation_start
from orchestrator.scheduler import Assignment

__all__ = ["EnvironmentPlay", "plan_episode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlay:
    """How the episodes of one environment are played, in the form that plans need."""

    described: pb.GetEnvironmentResponse
    split: str = ""
    """Empty = single items are played."""
    categories: Mapping[str, str] = field(default_factory=dict[str, str])
    """By item id; an item that is not there has none."""
    action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_REACT
    profile: str = ""
    options: struct_pb2.Struct = field(default_factory=struct_pb2.Struct)
    max_rounds: int = 0
    conversation_start: pb.ConversationStart | None = None

    @classmethod
    def from_settings(
        cls,
        described: pb.GetEnvironmentResponse,
        settings: PlaySettings,
        *,
        split: str = "",
        categories: Mapping[str, str] | None = None,
        action_format: types_pb2.ActionFormat = types_pb2.ACTION_FORMAT_REACT,
    ) -> Self:
        """Prepare settings once for all episodes: a struct and a message are costly to make."""
        options = struct_pb2.Struct()
        options.update(dict(settings.options))
        return cls(
            described=described,
            split=split,
            categories=categories or {},
            action_format=action_format,
            profile=settings.profile,
            options=options,
            max_rounds=settings.max_rounds,
            conversation_start=to_conversation_start(settings.conversation_start),
        )


def plan_episode(
    assignment: Assignment,
    play: EnvironmentPlay,
    *,
    run_id: str,
    run_seed: int,
    step: int = 0,
    limits: EpisodeLimits | None = None,
) -> EpisodePlan:
    """Return what is to be played for an assignment.

    Args:
        assignment: The key, and which attempt at it this is.
        play: How its environment is played.
        run_id: The run that records it.
        run_seed: Everything that is drawn derives from it.
        step: The training step that the episode belongs to.
        limits: What the episode may spend; None = whatever it takes.
    """
    key = assignment.key
    item: dict[str, Any] = {"environment": key.environment, "item_id": key.item_id}
    return EpisodePlan(
        run_id=run_id,
        episode_id=seeds.episode_id(
            run_id, **item, sample=key.sample, policy=key.policy, attempt=assignment.attempt
        ),
        environment=play.described,
        item_id=key.item_id,
        category=play.categories.get(key.item_id, ""),
        split=play.split,
        sample=key.sample,
        policy=key.policy,
        attempt=assignment.attempt,
        seed=seeds.episode_seed(run_seed, **item, step=step),
        action_format=play.action_format,
        profile=play.profile,
        options=play.options,
        max_rounds=play.max_rounds,
        conversation_start=play.conversation_start,
        turn_seed=seeds.sampling_seeds(run_seed, **item, sample=key.sample, step=step),
        limits=limits or EpisodeLimits(),
    )
