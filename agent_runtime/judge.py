"""A judge: a policy that grades by a rubric, with votes, and all that it said kept.

Any policy can judge that replies to a text. A reply that does not come, or is not in the form that
the rubric asks for, is no vote; without votes of more than half of the replies there is no verdict,
which is never a grade of 0. Used by `orchestrator.rescore`, and by whoever else wants an opinion.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent_runtime.conversation import Message, Role, normalize_reply
from agent_runtime.errors import ContextOverflow, PolicyError, PolicyMisconfigured
from agent_runtime.logs import get_logger
from agent_runtime.policies.base import Completion, EpisodeContext, Policy
from agent_runtime.redaction import redact_text
from agent_runtime.sampling import FinishReason
from agent_runtime.spending import Pricing
from agentgym.env.v1 import environment_pb2, types_pb2
from agentgym.rubric import AnswerOffFormat, Rubric

__all__ = ["Judge", "Judgement", "NoVote", "Vote"]

log = get_logger(__name__)


class NoVote(StrEnum):
    """Why a judge was asked and gave no vote."""

    SILENT = "JUDGE_SILENT"
    """No answer: its server is down, refused, or failed."""
    OFF_FORMAT = "JUDGE_OFF_FORMAT"
    """The answer does not end with the grades that were asked for."""
    CUT_OFF = "JUDGE_CUT_OFF"
    """The answer reached its length limit, or was aborted, before it came to the grades."""
    PROMPT_TOO_LONG = "JUDGE_PROMPT_TOO_LONG"
    """What is to be judged is longer than the judge's context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One reply of a judge."""

    seed: int
    grades: Mapping[str, float] | None
    """None = it is no vote."""
    problem: NoVote | None = None
    """None = it is a vote."""
    message: str = ""
    """What is wrong with it."""
    answer: str = ""
    reasoning: str = ""
    """What the model thought before it answered, as far as its server tells."""
    from_cache: bool = False
    """A response cache gave the answer."""
    finish_reason: str = ""
    """Empty = there was no reply."""
    policy_version: str = ""
    """What the engine says of the weights that answered; empty = nothing."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    """None = prices unknown."""
    seconds: float = 0.0
    repeats: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often its request was sent again, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge was asked and said."""

    judge: str
    """Name of the policy."""
    prompt: str
    votes: Sequence[Vote]
    score: float | None
    """Mean score of the votes, from 0 to 1; None = too few of them."""
    success: bool | None
    """Whether the score reaches the rubric's; None = there is no score."""
    grades: Mapping[str, float]
    """Means over the votes; empty = there is no score."""

    @property
    def problem(self) -> NoVote | None:
        """Why there is no verdict: what is wrong with the first reply that is no vote."""
        if self.score is not None:
            return None
        return next(vote.problem for vote in self.votes if vote.problem is not None)

    @property
    def message(self) -> str:
        """What is wrong with that reply; empty = there is a verdict."""
        if self.score is not None:
            return ""
        return next(vote.message for vote in self.votes if vote.problem is not None)

    @property
    def cost_usd(self) -> float | None:
        """The cost of all replies; None where that of any is unknown."""
        replies = [vote for vote in self.votes if vote.finish_reason]
        costs = [vote.cost_usd for vote in replies if vote.cost_usd is not None]
        return math.fsum(costs) if len(costs) == len(replies) else None


class Judge:
    """A policy that grades by a rubric."""

    def __init__(self, policy: Policy, rubric: Rubric, *, votes: int = 1) -> None:
        """`policy` is started, and stays its owner's; `votes` replies are asked for each time."""
        if votes < 1:
            raise ValueError("votes is at least 1")
        self.policy = policy
        self.rubric = rubric
        self._votes = votes

    async def judge(
        self, prompt: str, *, subject: str, seed: Callable[[int], int], environment: str = ""
    ) -> Judgement:
        """Ask for a verdict.

        Args:
            prompt: From `Rubric.prompt`.
            subject: An id of what is judged; replies to the same subject may share a cache.
            seed: Gives the sampling seed of each vote, counted from 0.
            environment: Where what is judged comes from, for policies that ask.

        Raises:
            PolicyMisconfigured: This policy cannot judge.
        """
        context = EpisodeContext(
            episode_id=subject,
            environment=environment,
            item_id="",
            action_format=types_pb2.ACTION_FORMAT_REACT,
            live=_NothingLive(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                votes = [
                    group.create_task(self._ask(context, prompt, seed(number)))
                    for number in range(self._votes)
                ]
        except* PolicyMisconfigured as errors:
            raise errors.exceptions[0] from None
        return self._sum_up(prompt, [vote.result() for vote in votes])

    async def _ask(self, context: EpisodeContext, prompt: str, seed: int) -> Vote:
        session = self.policy.open(context)
        started = time.perf_counter()
        try:
            reply = await session.reply([Message(Role.USER, prompt)], turn=0, seed=seed)
        except PolicyMisconfigured:
            raise
        except ContextOverflow as error:
            message = redact_text(str(error))
            return Vote(seed=seed, grades=None, problem=NoVote.PROMPT_TOO_LONG, message=message)
        except PolicyError as error:
            message = redact_text(f"{error.reason}: {error}")
            return Vote(seed=seed, grades=None, problem=NoVote.SILENT, message=message)
        except Exception as error:
            log.error("judge broken", policy=self.policy.name, error=repr(error), exc_info=True)
            message = redact_text(f"the policy raised {error!r}")
            return Vote(seed=seed, grades=None, problem=NoVote.SILENT, message=message)
        finally:
            await session.close()
        return self._read(reply, seed, time.perf_counter() - started)

    def _read(self, reply: Completion, seed: int, seconds: float) -> Vote:
        grades, problem, message = None, None, ""
        answer = normalize_reply(reply.text)
        if reply.finish_reason is FinishReason.CONTEXT:
            problem, message = NoVote.PROMPT_TOO_LONG, "the prompt is longer than its context"
        else:
            try:
                grades = self.rubric.read(answer)
            except AnswerOffFormat as error:
                message = redact_text(str(error))
                cut = reply.finish_reason in (FinishReason.LENGTH, FinishReason.ABORT)
                problem = NoVote.CUT_OFF if cut else NoVote.OFF_FORMAT
        return Vote(
            seed=seed,
            grades=grades,
            problem=problem,
            message=message,
            answer=redact_text(answer),
            reasoning=redact_text(normalize_reply(reply.reasoning)),
            from_cache=reply.from_cache,
            finish_reason=reply.finish_reason.value,
            policy_version=reply.policy_version,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cached_tokens=reply.cached_tokens,
            cost_usd=0.0 if self.policy.pricing is Pricing.FREE else reply.cost_usd,
            seconds=seconds,
            repeats=dict(reply.repeats),
        )

    def _sum_up(self, prompt: str, votes: Sequence[Vote]) -> Judgement:
        given = [vote.grades for vote in votes if vote.grades is not None]
        score, success, means = None, None, dict[str, float]()
        if 2 * len(given) > len(votes):
            means = {
                name: sum(grades[name] for grades in given) / len(given)
                for name in self.rubric.grades
            }
            score = sum(map(self.rubric.score, given)) / len(given)
            success = score >= self.rubric.success_score
        return Judgement(
            judge=self.policy.name,
            prompt=redact_text(prompt),
            votes=votes,
            score=score,
            success=success,
            grades=means,
        )


class _NothingLive:
    """Stands for the live episode that a judge has not: what it judges is over."""

    async def consult(self, advisor: environment_pb2.Advisor, seed: int) -> environment_pb2.Advice:
        """Raise PolicyMisconfigured: scripted players act in an episode, and read nothing."""
        raise PolicyMisconfigured(
            "a scripted player acts in a live episode and cannot judge; a judge is a model: "
            "openai:MODEL, sglang:URL, embedded:PATH, or a policy of yours"
        )
