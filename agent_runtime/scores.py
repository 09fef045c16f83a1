"""What an episode is worth: the rules that evaluation, audits and training share.

Environments count in units of their own: some give a score besides the reward, some count to 100.
Here a perfect episode is worth 1, whatever the unit.
"""

from __future__ import annotations

from typing import Protocol

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2

__all__ = ["ScoreScale", "metric_value", "perfect_score", "recorded_score", "score_or_reward"]


class ScoreScale(Protocol):
    """The part of an environment's description that says what its scores mean."""

    @property
    def success_score(self) -> float: ...
    @property
    def metric(self) -> pb.Metric: ...


def score_or_reward(score: float | None, reward: float | None) -> float | None:
    """Return the score, or the reward where the environment gives no score; None = neither."""
    return reward if score is None else score


def recorded_score(record: episode_pb2.Episode | episode_pb2.Step) -> float | None:
    """Return the score of an episode or step as recorded, or its reward; None = neither."""
    return score_or_reward(
        record.score if record.HasField("score") else None,
        record.reward if record.HasField("reward") else None,
    )


def perfect_score(environment: ScoreScale) -> float:
    """Return the score of a perfect episode in the environment's own unit.

    Where success takes less than 1 (BabyAI calls any positive reward a success), a perfect episode
    still scores 1.
    """
    return environment.success_score if environment.success_score > 1 else 1.0


def metric_value(
    environment: ScoreScale, *, mean_score: float | None, success_rate: float | None
) -> float | None:
    """Return the figure that the environment is measured by, from 0 to 1; None = nothing played.

    Args:
        environment: Says which of the two is its metric, and what a perfect score is.
        mean_score: Mean score in the environment's unit.
        success_rate: Share of episodes that succeeded.
    """
    if environment.metric != pb.METRIC_MEAN_SCORE:
        return success_rate
    return None if mean_score is None else mean_score / perfect_score(environment)
