"""What the episodes of steps are: planned where they are played, also in other processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from agent_runtime.agent import EpisodePlan
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.episode_plans import EnvironmentPlay, plan_episode
from orchestrator.records import EpisodeKey
from orchestrator.scheduler import Assignment
from training.rollouts.branches import branch_start

__all__ = ["Branch", "StepPlans", "StreamPlans", "limit_rounds"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlans:
    """Plans the episodes of all steps, which are in one run folder; workers are sent it whole.

    The number of a sample says which step's tasks it belongs to (`training.rollouts.groups`).
    """

    plays: Mapping[str, EnvironmentPlay]
    """How each environment is played where no step bounds its replies."""
    run_id: str
    seed: int
    samples: int
    """Episodes of a task in a step."""
    max_rounds: Callable[[int], int]
    """Bounds the replies below each environment's own number, by step; 0 = not further. A function
    of a module, or a `partial` of one, or it could not be sent."""

    def __call__(self, assignment: Assignment) -> EpisodePlan:
        """Return the plan that a run with a barrier would have made, under the key of this one."""
        key = assignment.key
        step, sample = divmod(key.sample, self.samples)
        plan = plan_episode(
            replace(assignment, key=key._replace(sample=sample)),
            limit_rounds(self.plays[key.environment], self.max_rounds(step)),
            run_id=self.run_id,
            run_seed=self.seed,
            step=step,
        )
        episode_id = seeds.episode_id(
            self.run_id,
            environment=key.environment,
            item_id=key.item_id,
            sample=key.sample,
            policy=key.policy,
            attempt=assignment.attempt,
        )
        return replace(plan, episode_id=episode_id, sample=key.sample)


def limit_rounds(play: EnvironmentPlay, rounds: int) -> EnvironmentPlay:
    """Return how an environment is played in at most so many replies; 0 = as many as before."""
    return replace(play, max_rounds=min(play.max_rounds, rounds)) if rounds else play
