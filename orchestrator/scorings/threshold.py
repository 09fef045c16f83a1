"""A scorer that calls another score a success; scores stay what they are recorded as."""

from __future__ import annotations

from typing import Final

from agent_runtime.scores import recorded_score
from agentgym.episode.v1 import episode_pb2
from orchestrator.scorings.scoring import Scorer
from orchestrator.scorings.table import Verdict

__all__ = ["ThresholdScorer"]

NO_SCORE: Final = "NO_SCORE"


class ThresholdScorer(Scorer):
    """Success is a score of at least `threshold`, in the environment's unit."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    async def score(self, record: episode_pb2.Episode, attempt: int) -> Verdict:
        """Judge by the recorded score."""
        score = recorded_score(record)
        if score is None:
            return Verdict(reason=NO_SCORE, message="its environment gave no score")
        return Verdict(score=score, success=score >= self._threshold)
