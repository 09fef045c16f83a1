"""A judge outside of any run: one question, its votes, and what is kept of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agent_runtime.conversation import Message
from agent_runtime.errors import ContextOverflow, PolicyError, PolicyMisconfigured, PolicyRejected
from agent_runtime.judge import Judge, Judgement, NoVote
from agent_runtime.policies import Completion, EpisodeContext, FinishReason, Policy, PolicySession
from agent_runtime.policies.scripted import ScriptedPolicy
from agentgym.rubric import Grade, Rubric

RUBRIC = Rubric(
    template="Question: {{question}} Answer: {{answer}} Is it right?",
    grades={"right": Grade()},
    success_score=0.6,
)


class Replies(Policy, PolicySession):
    """Gives its replies in turn, or raises them."""

    name = "replies"

    def __init__(self, *replies: Completion | PolicyError | str) -> None:
        self._replies = list(replies)
        self.seeds: list[int] = []

    def open(self, context: EpisodeContext) -> PolicySession:
        return self

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        self.seeds.append(seed)
        reply = self._replies.pop(0)
        if isinstance(reply, PolicyError):
            raise reply
        return Completion(text=reply, cost_usd=0.5) if isinstance(reply, str) else reply


def ask(policy: Policy, votes: int = 1) -> Judgement:
    prompt = RUBRIC.prompt({"question": "6 x 7?", "answer": "42"})
    judge = Judge(policy, RUBRIC, votes=votes)
    return asyncio.run(judge.judge(prompt, subject="a", seed=lambda vote: 100 + vote))


def test_the_mean_of_the_votes_is_the_score_and_reaches_success_or_does_not():
    thought = Completion(text='{"right": 1}', cost_usd=0.5, reasoning="42 it is.")
    policy = Replies(thought, '{"right": 0}', '{"right": 0.5}')
    judgement = ask(policy, votes=3)
    assert policy.seeds == [100, 101, 102]
    assert (judgement.score, judgement.success, judgement.grades) == (0.5, False, {"right": 0.5})
    assert judgement.problem is None
    assert judgement.cost_usd == 1.5
    assert judgement.votes[0].reasoning == "42 it is."
    assert judgement.votes[1].answer == '{"right": 0}'


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (PolicyRejected("no such model"), NoVote.SILENT),
        (ContextOverflow("too long"), NoVote.PROMPT_TOO_LONG),
        (Completion(text="", finish_reason=FinishReason.CONTEXT), NoVote.PROMPT_TOO_LONG),
        (Completion(text="Well, I", finish_reason=FinishReason.LENGTH), NoVote.CUT_OFF),
        ("It is right.", NoVote.OFF_FORMAT),
        ("\ud800", NoVote.OFF_FORMAT),
    ],
)
def test_what_is_no_vote_says_why_and_is_no_zero(reply, problem):
    judgement = ask(Replies(reply))
    assert (judgement.score, judgement.success, judgement.problem) == (None, None, problem)
    assert judgement.message
    judgement.votes[0].answer.encode()  # can be stored


def test_more_than_half_of_the_votes_make_a_verdict():
    assert ask(Replies('{"right": 1}', "?", '{"right": 1}'), votes=3).score == 1
    assert ask(Replies('{"right": 1}', "?"), votes=2).problem is NoVote.OFF_FORMAT


def test_a_scripted_player_cannot_judge():
    with pytest.raises(PolicyMisconfigured, match="cannot judge"):
        ask(ScriptedPolicy("expert"), votes=2)
