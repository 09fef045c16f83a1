"""Scripted policies: the environment's advice, in its own words, with the turn's seed."""

from __future__ import annotations

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import EnvironmentFailure, PolicyMisconfigured
from agent_runtime.policies import FinishReason, PolicyConfig, make_policy
from agent_runtime.policies.scripted import ScriptedPolicy
from agentgym.env.v1 import environment_pb2, types_pb2
from tests.agent_runtime.policies.live_episode import RecordedEpisode, episode_context

ADVISORS = {
    "expert": environment_pb2.ADVISOR_EXPERT,
    "random": environment_pb2.ADVISOR_RANDOM,
    "noop": environment_pb2.ADVISOR_NOOP,
}
MESSAGES = [Message(Role.USER, "Your current position is at 3, 4.")]


@pytest.mark.parametrize("name", sorted(ADVISORS))
async def test_a_scripted_policy_replies_what_its_advisor_says(name: str) -> None:
    live = RecordedEpisode()
    policy = make_policy(name, PolicyConfig())
    await policy.start()
    session = policy.open(episode_context(live))
    replies = [await session.reply(MESSAGES, turn=turn, seed=2**63 + turn) for turn in range(2)]
    await session.close()
    await policy.close()
    assert policy.name == name
    assert [reply.text for reply in replies] == [
        "Thought:\nt\n\nAction:\nmove 1",
        "Thought:\nt\n\nAction:\nmove 2",
    ]
    assert live.consulted == [(ADVISORS[name], 2**63), (ADVISORS[name], 2**63 + 1)]
    assert replies[0].finish_reason is FinishReason.STOP
    assert session.token_segments() == []


async def test_a_failing_environment_is_not_blamed_on_the_policy() -> None:
    class Failing(RecordedEpisode):
        async def consult(
            self, advisor: environment_pb2.Advisor, seed: int
        ) -> environment_pb2.Advice:
            raise EnvironmentFailure(
                "no expert",
                reason="UNSUPPORTED",
                fault=types_pb2.FAULT_ENVIRONMENT,
                retriable=False,
            )

    session = make_policy("expert", PolicyConfig()).open(episode_context(Failing()))
    with pytest.raises(EnvironmentFailure):
        await session.reply(MESSAGES, turn=0, seed=0)


def test_an_unknown_scripted_player_is_refused() -> None:
    with pytest.raises(PolicyMisconfigured):
        ScriptedPolicy("oracle")


async def test_its_thoughts_can_be_left_out() -> None:
    session = make_policy("expert", PolicyConfig(actions_only=True)).open(
        episode_context(RecordedEpisode())
    )
    reply = await session.reply(MESSAGES, turn=0, seed=0)
    assert reply.text == "Action:\nmove 1"


async def test_a_reply_whose_thought_cannot_be_left_out_is_refused() -> None:
    class Calling(RecordedEpisode):
        async def consult(
            self, advisor: environment_pb2.Advisor, seed: int
        ) -> environment_pb2.Advice:
            return environment_pb2.Advice(action="look", thought="t", reply='{"thought": "t"}')

    session = make_policy("expert", PolicyConfig(actions_only=True)).open(
        episode_context(Calling())
    )
    with pytest.raises(PolicyMisconfigured, match="actions_only: replies of this environment"):
        await session.reply(MESSAGES, turn=0, seed=0)
