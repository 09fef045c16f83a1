"""The OpenAI policy beyond plain chat: responses, token ids, prompt caches, the response cache."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.draft import Draft
from agent_runtime.errors import (
    ContextOverflow,
    PolicyLost,
    PolicyMisbehaved,
    PolicyMisconfigured,
)
from agent_runtime.ledger import Origin, TokenLedger
from agent_runtime.policies import (
    Completion,
    FinishReason,
    OpenAIOptions,
    PolicyConfig,
    RequestRetry,
    Sampling,
)
from agent_runtime.policies.openai import OpenAIPolicy
from agentgym.env.v1 import types_pb2
from tests.agent_runtime import tiny_tokenizers
from tests.agent_runtime.policies.live_episode import episode_context
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving

INSTANT = Behaviour(quickest=0, slowest=0)
PRICES = {"usd_per_million_input": 1.0, "usd_per_million_output": 2.0}
START = [Message(Role.USER, "Find the goal."), Message(Role.ASSISTANT, "OK.")]
FIRST = [*START, Message(Role.USER, "You see a wall.")]
TOOLS = [{"type": "function", "function": {"name": "move", "parameters": {"type": "object"}}}]
MOVE = {"type": "function", "function": {"name": "move", "arguments": '{"to": "the left"}'}}
CALLING = episode_context(
    action_format=types_pb2.ACTION_FORMAT_FUNCTION_CALLING, tools_json=json.dumps(TOOLS)
)


@asynccontextmanager
async def policy_of(
    server: FakeOpenAI, model: str = "fake", options: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[OpenAIPolicy]:
    config.setdefault("request_retry", RequestRetry(seconds=0))
    async with serving(server) as url:
        settings = OpenAIOptions(base_url=url, **(options or {}))
        policy = OpenAIPolicy(model, PolicyConfig(openai=settings, **config), {})
        await policy.start()
        try:
            yield policy
        finally:
            await policy.close()


def after(messages: list[Message], reply: str, observation: str) -> list[Message]:
    said = Message(Role.ASSISTANT, reply, sampled=True)
    return [*messages, said, Message(Role.USER, observation)]


async def test_calls_of_a_response_are_played_in_turn_and_their_results_go_back() -> None:
    def reply(body: dict[str, Any]) -> list[dict[str, Any]]:
        ids = [f"call_{len(body['input'])}_{number}" for number in range(2)]
        fields = {"type": "function_call", "name": "move", "arguments": "{}"}
        return [{**fields, "call_id": call_id} for call_id in ids]

    server = FakeOpenAI(INSTANT, reply)
    async with policy_of(server, options={"api": "responses", **PRICES}) as policy:
        session = policy.open(CALLING)
        first = await session.reply(FIRST, turn=0, seed=1)
        messages = after(FIRST, first.text, "one")
        second = await session.reply(messages, turn=1, seed=2)
        messages = after(messages, second.text, "two")
        third = await session.reply(messages, turn=2, seed=3)
    assert [reply.same_completion for reply in (first, second, third)] == [False, True, False]
    assert [item.get("output") for item in server.bodies[1]["input"][-2:]] == ["one", "two"]
    assert first.reasoning_tokens == 2
    assert first.cost_usd and second.cost_usd == 0.0, "the sum is known"
    assert [json.loads(item)["call_id"] for item in third.output_items] == ["call_7_0", "call_7_1"]


def test_settings_that_do_not_go_together_are_refused() -> None:
    responses = OpenAIOptions(base_url="http://127.0.0.1:1/v1", api="responses")
    config = PolicyConfig(openai=responses, sampling=Sampling(stop=("x",)))
    with pytest.raises(PolicyMisconfigured, match="no stop strings"):
        OpenAIPolicy("m", config, {})
    with pytest.raises(ValueError, match="breakpoints are of the API chat"):
        OpenAIOptions(api="responses", prompt_cache="breakpoints")
    with pytest.raises(ValueError, match="reasoning_summary is of the API responses"):
        OpenAIOptions(reasoning_summary=True)


async def test_turns_of_an_episode_can_name_themselves_to_the_servers_prompt_cache() -> None:
    server = FakeOpenAI(INSTANT)
    async with policy_of(server, options={"prompt_cache": "key"}) as policy:
        for episode in ("a" * 80, "a" * 80, "b"):
            session = policy.open(episode_context(episode_id=episode))
            await session.reply(FIRST, turn=0, seed=1)
    first, second, other = [body["prompt_cache_key"] for body in server.bodies]
    assert first == second != other
    assert len(first) <= 64, "OpenAI refuses longer ones"


async def test_what_turns_and_episodes_share_can_be_marked_for_the_prompt_cache() -> None:
    server = FakeOpenAI(INSTANT)
    options = {"prompt_cache": "breakpoints", "system_prompt": "Win."}
    async with policy_of(server, options=options) as policy:
        session = policy.open(episode_context())
        await session.reply([*session.begin(START), FIRST[-1]], turn=0, seed=1)
    contents = [message["content"] for message in server.bodies[0]["messages"]]
    marked = {"type": "text", "cache_control": {"type": "ephemeral"}}
    assert contents == [
        "Win.",
        [{**marked, "text": "Find the goal."}],
        "OK.",
        [{**marked, "text": "You see a wall."}],
    ]


async def test_a_cached_answer_asks_nobody_and_costs_nothing_wherever_the_model_is(
    tmp_path: Path,
) -> None:
    first, second = FakeOpenAI(INSTANT), FakeOpenAI(INSTANT, lambda _: "something else")
    async with policy_of(first, options=PRICES, cache=tmp_path) as policy:
        asked = await policy.open(episode_context()).reply(FIRST, turn=0, seed=1)
    elsewhere = {"prompt_cache": "key", **PRICES}
    async with policy_of(second, options=elsewhere, cache=tmp_path) as policy:
        session = policy.open(episode_context(episode_id="another"))
        kept = await session.reply(FIRST, turn=0, seed=1)
        assert (policy.request_counts().from_cache, policy.request_counts().answered) == (1, 0)
        fresh = await session.reply(FIRST, turn=0, seed=2)
    async with policy_of(second, "another-model", cache=tmp_path) as policy:
        other = await policy.open(episode_context()).reply(FIRST, turn=0, seed=1)
    assert (kept.text, kept.from_cache, kept.cost_usd) == (asked.text, True, 0.0)
    assert kept.completion_tokens == asked.completion_tokens > 0
    assert not asked.from_cache and asked.cost_usd
    assert (fresh.text, other.text) == ("something else", "something else")
    assert len(second.bodies) == 2


@pytest.mark.parametrize(
    "said",
    [
        {"content": "Thought: a wall.\nAction: move up", "reasoning_content": "I see a wall."},
        {
            "content": "So I move.",
            "tool_calls": [{"id": f"c{number}", **MOVE} for number in range(2)],
        },
    ],
)
async def test_a_streamed_reply_is_the_one_that_is_not_and_can_be_watched(
    said: dict[str, Any],
) -> None:
    drafts: list[str] = []
    replies: list[list[Completion]] = []
    server = FakeOpenAI(INSTANT, lambda _: said)
    context = replace(CALLING, draft=Draft())
    context.draft.on_change = lambda: drafts.append(context.draft.text())
    for stream in (True, False):
        async with policy_of(server, options={"stream": stream, **PRICES}) as policy:
            session = policy.open(context)
            assert session.streams is stream
            replies.append([])
            messages = list(FIRST)
            for turn in range(3):
                replies[-1].append(await session.reply(messages, turn=turn, seed=turn))
                messages = after(messages, replies[-1][-1].text, "A door.")
    assert replies[0] == replies[1]
    assert replies[0][0].cost_usd
    half = len(server.bodies) // 2
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    assert server.bodies[:half] == [{**body, **asked} for body in server.bodies[half:]]
    shown = next(filter(None, (said.get("reasoning_content"), said["content"])))
    assert any(shown.startswith(draft) and draft != shown for draft in drafts if draft)


async def test_a_stream_that_breaks_off_is_asked_for_again_and_never_a_reply() -> None:
    server = FakeOpenAI(replace(INSTANT, truncated=1.0))
    async with policy_of(server, options={"stream": True}) as policy:
        with pytest.raises(PolicyLost, match="the stream broke off"):
            await policy.open(episode_context()).reply(FIRST, turn=0, seed=1)
    server = FakeOpenAI(replace(INSTANT, truncated=0.5), lambda _: "whole", seed=2)
    retry = RequestRetry(seconds=30, first_delay=0)
    async with policy_of(server, options={"stream": True}, request_retry=retry) as policy:
        session = policy.open(episode_context())
        replies = [await session.reply(FIRST, turn=0, seed=seed) for seed in range(5)]
    assert {reply.text for reply in replies} == {"whole"}
    assert sum(sum(reply.repeats.values()) for reply in replies) == server.answers["truncated"] > 0


async def test_what_a_stream_says_wrong_is_misbehaviour() -> None:
    server = FakeOpenAI(INSTANT, lambda _: {"tool_calls": [{"function": {"arguments": "{}"}}]})
    async with policy_of(server, options={"stream": True}) as policy:
        with pytest.raises(PolicyMisbehaved, match="a tool call without a name"):
            await policy.open(CALLING).reply(FIRST, turn=0, seed=1)


async def test_what_could_not_be_read_is_not_kept(tmp_path: Path) -> None:
    answers: list[Any] = [{"content": [1]}, "good"]
    server = FakeOpenAI(INSTANT, lambda _: answers.pop(0))
    async with policy_of(server, cache=tmp_path) as policy:
        session = policy.open(episode_context())
        with pytest.raises(PolicyMisbehaved):
            await session.reply(FIRST, turn=0, seed=1)
        assert (await session.reply(FIRST, turn=0, seed=1)).text == "good"


async def test_an_answer_of_the_cache_leads_to_the_same_tool_results(tmp_path: Path) -> None:
    """Ids of calls that a server left out are the same when the answer is read again."""
    function = {"name": "move", "arguments": "{}"}
    fields = {"content": None, "tool_calls": [{"type": "function", "function": function}]}
    server = FakeOpenAI(INSTANT, lambda _: fields)
    for _ in range(2):
        async with policy_of(server, cache=tmp_path) as policy:
            session = policy.open(CALLING)
            first = await session.reply(FIRST, turn=0, seed=1)
            await session.reply(after(FIRST, first.text, "one"), turn=1, seed=2)
    assert len(server.bodies) == 2


TOKENS = {"api": "token_ids"}


async def test_token_ids_and_logprobs_of_vllm_fill_the_ledger_and_are_never_tokenised_again(
    tmp_path: Path,
) -> None:
    server = FakeOpenAI(
        INSTANT, lambda _: "Action:\nmove up", model=tiny_tokenizers.chatml(tmp_path)
    )
    options = {**TOKENS, **PRICES, "system_prompt": "Win."}
    async with policy_of(server, options=options, sampling=Sampling(temperature=0.7)) as policy:
        session = policy.open(episode_context())
        messages = [*session.begin(START), FIRST[-1]]
        first = await session.reply(messages, turn=0, seed=2**63 + 1)
        second = await session.reply(after(messages, first.text, "A wall."), turn=1, seed=2)
        (segment,) = TokenLedger.from_protos(session.token_segments()).segments
    bodies = server.bodies
    assert first.text == "Action:\nmove up"
    assert bodies[0]["prompt"] == list(segment.ids[: first.prompt_tokens])
    assert bodies[1]["prompt"] == list(segment.ids[: second.prompt_tokens])
    end = first.prompt_tokens + first.completion_tokens
    assert set(segment.origins[first.prompt_tokens : end]) == {Origin.SAMPLED}
    assert segment.logprobs[first.prompt_tokens : end] == pytest.approx(
        [-(number + 1) / 16 for number in range(first.completion_tokens)]
    )
    assert {span.version for span in segment.version_spans} == {"fake"} == {first.policy_version}
    expected = {"temperature": 0.7, "seed": 1, "top_k": -1, "repetition_penalty": 1.0, "min_p": 0.0}
    assert {name: bodies[0][name] for name in expected} == expected
    assert first.cost_usd is not None


async def test_a_full_context_ends_an_episode_in_token_ids(tmp_path: Path) -> None:
    server = FakeOpenAI(INSTANT, lambda _: "move up", model=tiny_tokenizers.chatml(tmp_path))
    server.context_length = 120
    async with policy_of(server, options=TOKENS) as policy:
        session = policy.open(episode_context())
        first = await session.reply(FIRST, turn=0, seed=1)
        assert first.finish_reason is FinishReason.STOP
        long = await session.reply(after(FIRST, first.text, "wall " * 40), turn=1, seed=1)
        assert (long.text, long.finish_reason) == ("", FinishReason.CONTEXT)
        with pytest.raises(ContextOverflow, match="120 tokens"):
            start = [*START, Message(Role.USER, "wall " * 60)]
            await policy.open(episode_context()).reply(start, turn=0, seed=1)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("token_ids", None, "has no token_ids: vLLM gives them from 0.10.2 on"),
        ("prompt_token_ids", [1, 2], "read another prompt"),
        ("logprobs", None, "has no logprobs"),
        ("logprobs", {"token_logprobs": [-0.5]}, "1 logprobs for"),
        ("logprobs", {"token_logprobs": None}, "has no token_logprobs"),
        ("finish_reason", "boredom", "unknown finish reason 'boredom'"),
    ],
)
async def test_an_answer_that_cannot_be_trained_on_is_misbehaviour(
    field: str, value: Any, message: str, tmp_path: Path
) -> None:
    server = FakeOpenAI(INSTANT, lambda _: "move up", model=tiny_tokenizers.chatml(tmp_path))
    server.spoil = lambda answer: answer["choices"][0].update({field: value})
    async with policy_of(server, options=TOKENS) as policy:
        with pytest.raises(PolicyMisbehaved, match=message):
            await policy.open(episode_context()).reply(FIRST, turn=0, seed=1)


async def test_another_model_or_tokenizer_than_the_servers_is_named_at_the_start(
    tmp_path: Path,
) -> None:
    server = FakeOpenAI(INSTANT, model=tiny_tokenizers.chatml(tmp_path / "its"))
    with pytest.raises(PolicyMisconfigured, match=r"does not serve 'tiny'; its models: fake"):
        async with policy_of(server, "tiny", options=TOKENS):
            pass
    other = str(tiny_tokenizers.llama3(tmp_path / "ours"))
    with pytest.raises(PolicyMisconfigured, match="another tokenizer"):
        async with policy_of(server, options={**TOKENS, "tokenizer": other}):
            pass
