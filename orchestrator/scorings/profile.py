"""A scorer that plays the recorded actions again under another profile of the environment.

What an agent would have done elsewhere nobody knows. So an episode gets a new score only where the
agent was shown the same up to its last action: where the other profile shows something else before
that, or goes on where the recorded episode ended, there is no score. Where it ends earlier, the
score at that end counts: the agent had done nothing else until then.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing
from typing import Final

from agent_runtime.episode import RemoteEpisode, Transition
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.redaction import redact_text
from agent_runtime.scores import score_or_reward
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import UsageError
from orchestrator.fleet import Fleet
from orchestrator.replay import recorded_reset, recorded_transitions
from orchestrator.scorings.scoring import Scorer
from orchestrator.scorings.table import Verdict
from orchestrator.scorings.threshold import NO_SCORE

__all__ = ["ProfileScorer"]

DIVERGED: Final = "DIVERGED"
WENT_ON: Final = "WENT_ON"
REPLAY_FAILED: Final = "REPLAY_FAILED"
_SHOWN: Final = 200


class ProfileScorer(Scorer):
    """Scores as the environments of a fleet do under `profile`."""

    def __init__(self, fleet: Fleet, profile: str) -> None:
        """`fleet` is started. Raises UsageError where one of its environments has no such one."""
        for name in fleet.environments:
            profiles = fleet.described[name].profiles
            if profile not in profiles:
                raise UsageError(
                    f"{name} has no profile {profile!r}; leave it out with --env", valid=profiles
                )
        self._fleet = fleet
        self._profile = profile
        self._prefix = secrets.token_hex(4)

    async def score(self, record: episode_pb2.Episode, attempt: int) -> Verdict:
        """Play a record again; raises ConnectionLost where no server is left to do it."""
        place = await self._fleet.acquire(record.environment)
        reset = recorded_reset(record, profile=self._profile)
        # An id of its own: servers remember episodes, also those of a scoring that was killed.
        name = f"rescore-{self._prefix}-{record.episode_id}"
        live = RemoteEpisode(place.connection, name, reset)
        try:
            return await self._replay(record, live)
        except AgentRuntimeError as error:
            message = redact_text(f"{error.reason}: {error}")
            return Verdict(reason=REPLAY_FAILED, final=False, message=message)
        finally:
            live.close()
            place.release()

    async def _replay(self, record: episode_pb2.Episode, live: RemoteEpisode) -> Verdict:
        last = len(record.steps) - 1
        async with aclosing(recorded_transitions(live, record)) as transitions:
            async for now in transitions:
                step = record.steps[now.seq]
                if now.ended:
                    return self._end(record, now, early=now.seq < last)
                if now.seq < last and now.text != step.observation:
                    return _diverged(step, now)
                if now.seq == last and (step.terminated or step.truncated):
                    return Verdict(
                        reason=WENT_ON,
                        message="the episode ended as it was recorded, and goes on here",
                    )
                if now.seq == last:  # our own limits ended it, which are the same here
                    return self._end(record, now, early=False)
        return Verdict(reason=NO_SCORE, message="the record has no steps")

    def _end(self, record: episode_pb2.Episode, now: Transition, *, early: bool) -> Verdict:
        score = score_or_reward(now.score, now.reward)
        if score is None:
            return Verdict(reason=NO_SCORE, message="its environment gave no score")
        return Verdict(
            score=score,
            success=score >= self._fleet.described[record.environment].success_score,
            message="ended earlier than they were recorded" if early else "",
            detail={"steps": now.seq, "recorded_steps": len(record.steps) - 1},
        )


def _diverged(step: episode_pb2.Step, now: Transition) -> Verdict:
    return Verdict(
        reason=DIVERGED,
        message=(
            f"at step {now.seq} the agent would have been shown {now.text[:_SHOWN]!r}, and was "
            f"shown {step.observation[:_SHOWN]!r}"
        ),
        detail={"step": now.seq, "recorded": step.observation, "replayed": now.text},
    )
