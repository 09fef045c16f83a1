"""What the episodes of a step are: planned where they are played, also in other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_runtime.agent import EpisodePlan
from agentgym.episode.v1 import episode_pb2
from orchestrator.episode_plans import EnvironmentPlay, plan_episode
from orchestrator.records import EpisodeKey
from orchestrator.scheduler import Assignment
from training.rollouts.branches import branch_start

__all__ = ["Branch", "StepPlans"]

Branch = tuple[episode_pb2.Episode, int]
"""A recorded episode, and the turn after which it is played on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlans:
    """Plans the episodes of a step; workers of a cluster are sent it whole."""

    plays: Mapping[str, EnvironmentPlay]
    """How each environment is played."""
    run_id: str
    seed: int
    step: int
    branches: Mapping[EpisodeKey, Branch] = field(default_factory=dict[EpisodeKey, Branch])
    """Of keys that are not played from their reset."""

    def __call__(self, assignment: Assignment) -> EpisodePlan:
        """Return what is to be played for an assignment."""
        key = assignment.key
        plan = plan_episode(
            assignment,
            self.plays[key.environment],
            run_id=self.run_id,
            run_seed=self.seed,
            step=self.step,
        )
        if key not in self.branches:
            return plan
        return replace(plan, branch=branch_start(*self.branches[key]))
