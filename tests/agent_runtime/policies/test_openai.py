"""The OpenAI-compatible policy against a local server."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agent_runtime.conversation import Message, Role
from agent_runtime.endpoint import error_for, is_loopback
from agent_runtime.errors import (
    ContextOverflow,
    PolicyError,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
)
from agent_runtime.images import Image
from agent_runtime.policies import (
    EpisodeContext,
    FinishReason,
    OpenAIOptions,
    PolicyConfig,
    PolicySession,
    RequestRetry,
    Sampling,
)
from agent_runtime.policies.openai import OpenAIPolicy
from agentgym.env.v1 import types_pb2
from tests.agent_runtime.policies.chat_server import KEY, Answer, ChatServer, completion, serving
from tests.agent_runtime.policies.live_episode import episode_context

MESSAGES = [
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "Ok."),
    Message(Role.USER, "Your current position is at 3, 4."),
]
TOOLS = [{"type": "function", "function": {"name": "move", "parameters": {"type": "object"}}}]
QUICK = RequestRetry(seconds=0.3, first_delay=0.001, max_delay=0.02)
CALLING = episode_context(
    action_format=types_pb2.ACTION_FORMAT_FUNCTION_CALLING, tools_json=json.dumps(TOOLS)
)


@asynccontextmanager
async def playing(
    answer: Answer | None = None,
    *,
    key: str = KEY,
    context: EpisodeContext | None = None,
    options: dict[str, Any] | None = None,
    **config: Any,
) -> AsyncIterator[tuple[ChatServer, PolicySession]]:
    """A server and a session of a policy that talks to it."""
    config.setdefault("request_retry", QUICK)
    async with serving(answer) as server:
        settings = OpenAIOptions(base_url=server.url, **(options or {}))
        policy = OpenAIPolicy(
            "tiny", PolicyConfig(openai=settings, **config), {"OPENAI_API_KEY": key}
        )
        await policy.start()
        try:
            yield server, policy.open(context or episode_context())
        finally:
            await policy.close()


def failing(status: int, body: object, **headers: str) -> Answer:
    def answer(_body: dict[str, Any]) -> web.Response:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(
            status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return answer


async def test_a_reply_carries_text_usage_version_and_cost() -> None:
    prices = {"usd_per_million_input": 2.0, "usd_per_million_output": 10.0}
    async with playing(options={**prices, "usd_per_million_cached": 0.5}) as (_, session):
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert (reply.text, reply.finish_reason) == ("Action:\nmove", FinishReason.STOP)
    counts = (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
    assert counts == (1000, 100, 400)
    assert reply.policy_version == "tiny-2024@fp_1"
    assert reply.cost_usd == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert session.token_segments() == []


RED = Image("image/png", b"red")
BLUE = Image("image/jpeg", b"blue")


async def test_images_are_parts_of_a_message() -> None:
    async with playing() as (server, session):
        assert session.takes_images
        shown = MESSAGES[-1]._replace(images=(RED, BLUE))
        await session.reply([*MESSAGES[:-1], shown], turn=0, seed=1)
    assert server.bodies[0]["messages"][-1] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "Your current position is at 3, 4."},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cmVk"}},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,Ymx1ZQ=="}},
        ],
    }


async def test_only_the_last_images_are_sent_where_a_server_takes_no_more() -> None:
    told = [
        MESSAGES[1]._replace(images=(BLUE, RED)),
        MESSAGES[2],
        MESSAGES[3]._replace(images=(BLUE,)),
    ]
    async with playing(options={"max_images": 2}) as (server, session):
        await session.reply(told, turn=0, seed=1)
    first, _, last = server.bodies[0]["messages"]
    assert [part["image_url"]["url"] for part in first["content"][1:]] == [RED.data_url]
    assert [part["image_url"]["url"] for part in last["content"][1:]] == [BLUE.data_url]
    with pytest.raises(ValueError, match="at least 1"):
        OpenAIOptions(max_images=0)


async def test_what_a_tool_shows_follows_its_result() -> None:
    calls = [
        {"id": f"call{n}", "type": "function", "function": {"name": "move", "arguments": "{}"}}
        for n in (1, 2)
    ]
    answers = iter([completion(None, tool_calls=calls), completion("done")])
    async with playing(lambda _: next(answers), context=CALLING) as (server, session):
        told = list(MESSAGES)
        for turn, image in enumerate((RED, BLUE)):
            reply = await session.reply(told, turn=turn, seed=1)
            told.append(Message(Role.ASSISTANT, reply.text, sampled=True))
            told.append(Message(Role.USER, f"Moved {turn}.", images=(image,)))
        await session.reply(told, turn=2, seed=1)
    sent = server.bodies[1]["messages"][-3:]
    assert [message["role"] for message in sent] == ["tool", "tool", "user"]
    assert [part["image_url"]["url"] for part in sent[-1]["content"]] == [
        RED.data_url,
        BLUE.data_url,
    ]


async def test_without_prices_the_cost_is_unknown_not_zero() -> None:
    async with playing(options={"usd_per_million_input": 2.0}) as (_, session):
        assert (await session.reply(MESSAGES, turn=0, seed=1)).cost_usd is None


async def test_the_request_carries_conversation_sampling_and_seed() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, top_k=20, max_new_tokens=64, stop=("\nObs",))
    async with playing(sampling=sampling) as (server, session):
        await session.reply(MESSAGES, turn=0, seed=2**63 + 5)
    assert server.bodies == [
        {
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "You are in a maze."},
                {"role": "assistant", "content": "Ok."},
                {"role": "user", "content": "Your current position is at 3, 4."},
            ],
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 20,
            "stop": ["\nObs"],
            "seed": 5,
            "max_tokens": 64,
        }
    ]


async def test_fields_that_a_server_refuses_can_be_renamed_and_left_out() -> None:
    options = {"max_tokens_field": "max_completion_tokens", "omit": ("temperature", "top_p")}
    async with playing(options=options) as (server, session):
        await session.reply(MESSAGES, turn=0, seed=1)
    assert set(server.bodies[0]) == {"model", "messages", "seed", "max_completion_tokens"}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("abort", FinishReason.ABORT),
        ("eos", FinishReason.STOP),
    ],
)
async def test_finish_reasons_are_translated(word: str, reason: FinishReason) -> None:
    async with playing(lambda _: completion(finish_reason=word)) as (_, session):
        assert (await session.reply(MESSAGES, turn=0, seed=1)).finish_reason is reason


async def test_a_reply_without_usage_is_fine() -> None:
    body = completion(None, refusal="I would rather not.")
    del body["usage"]
    async with playing(lambda _: body) as (_, session):
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert (reply.text, reply.prompt_tokens) == ("I would rather not.", 0)


async def test_a_wrong_key_is_a_rejection_that_does_not_show_the_key() -> None:
    async with playing(key="sk-wrong") as (_, session):
        with pytest.raises(PolicyRejected, match="401") as caught:
            await session.reply(MESSAGES, turn=0, seed=1)
    assert "sk-wrong" not in str(caught.value)
    assert not caught.value.retriable
    assert caught.value.fault == types_pb2.FAULT_POLICY


@pytest.mark.parametrize("status", [400, 403, 404, 422, 302])
async def test_a_refused_request_is_a_rejection(status: int) -> None:
    answer = failing(status, {"error": {"message": "no such model"}}, Location="/elsewhere")
    async with playing(answer) as (server, session):
        with pytest.raises(PolicyRejected, match="no such model"):
            await session.reply(MESSAGES, turn=0, seed=1)
    assert len(server.bodies) == 1


def answering(*answers: Answer) -> Answer:
    """Each of these once, then a good reply."""
    left = list(answers)

    def answer(body: dict[str, Any]) -> web.StreamResponse | dict[str, Any]:
        return left.pop(0)(body) if left else completion()

    return answer


TRANSIENT = [
    failing(429, {"error": "slow down"}, Retry_After="0.01"),
    failing(429, {"error": "slow down"}, retry_after_ms="10"),
    *(failing(status, "<html>oops</html>") for status in (408, 409, 425, 500, 502, 503, 504, 529)),
    failing(200, '{"choices": [{"mess'),
    failing(200, "<html>welcome</html>"),
    failing(200, '{"choices": []}'),
]


@pytest.mark.parametrize("answer", TRANSIENT)
async def test_what_another_try_may_heal_is_asked_again_with_the_same_seed(answer: Answer) -> None:
    async with playing(answering(answer)) as (server, session):
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert reply.text == "Action:\nmove"
    assert len(server.bodies) == 2
    assert server.bodies[0] == server.bodies[1]
    assert sum(reply.repeats.values()) == 1


async def test_a_reply_that_hangs_is_asked_for_again() -> None:
    async with playing(request_timeout=0.2, request_retry=RequestRetry()) as (server, session):
        server.gate = asyncio.Event()
        call = asyncio.create_task(session.reply(MESSAGES, turn=0, seed=1))
        await server.until_asked(1)
        gate, server.gate = server.gate, None
        assert (await call).repeats == {"timeout": 1}
        gate.set()


async def test_a_connection_that_breaks_within_the_answer_is_made_again() -> None:
    async with playing() as (server, session):
        server.break_next = True
        assert (await session.reply(MESSAGES, turn=0, seed=1)).repeats == {"broken": 1}


async def test_a_server_that_refuses_for_ever_is_given_up_in_its_own_words() -> None:
    answer = failing(429, {"error": "slow down"}, Retry_After="0.1")
    async with playing(answer) as (server, session):
        with pytest.raises(PolicyOverloaded, match=r"slow down.*refused") as caught:
            await session.reply(MESSAGES, turn=0, seed=1)
    assert not caught.value.retriable, "playing the episode anew would only repeat it"
    assert 1 < len(server.bodies) < 6


async def test_an_answer_that_is_never_valid_is_given_up_in_its_own_words() -> None:
    async with playing(failing(200, "<html>Please log in</html>")) as (server, session):
        with pytest.raises(PolicyMisbehaved, match=r"Please log in.*invalid 4") as caught:
            await session.reply(MESSAGES, turn=0, seed=1)
    assert not caught.value.retriable
    assert len(server.bodies) == RequestRetry().sends


async def test_requests_can_be_sent_once_only() -> None:
    once = RequestRetry(seconds=0)
    async with playing(failing(500, "oops"), request_retry=once) as (server, session):
        with pytest.raises(PolicyUnavailable, match="oops") as caught:
            await session.reply(MESSAGES, turn=0, seed=1)
    assert caught.value.retriable, "the episode may be played anew: the request was not"
    assert len(server.bodies) == 1


async def test_a_run_has_a_budget_of_repeated_requests() -> None:
    few = RequestRetry(budget=3, first_delay=0.001, max_delay=0.01, seconds=60)
    async with playing(failing(500, "oops"), request_retry=few) as (server, session):
        with pytest.raises(PolicyUnavailable, match=r"oops.*budget .* is used up"):
            await session.reply(MESSAGES, turn=0, seed=1)
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    ("header", "low", "high"), [("in a while", None, None), ("", None, None), ("date", 1, 61)]
)
def test_the_wait_may_be_a_date_or_missing(header: str, low: int | None, high: int | None) -> None:
    if header == "date":
        moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
        header = email.utils.format_datetime(moment, usegmt=True)
    error = error_for(429, "", {"Retry-After": header})
    assert isinstance(error, PolicyOverloaded)
    if low is None or high is None:
        assert error.retry_after is None
    else:
        assert error.retry_after is not None
        assert low <= error.retry_after <= high


def test_an_empty_account_is_not_tried_again() -> None:
    body = json.dumps({"error": {"message": "pay first", "code": "insufficient_quota"}})
    assert type(error_for(429, body, {})) is PolicyRejected


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
async def test_a_server_that_keeps_failing_is_unavailable(status: int) -> None:
    async with playing(failing(status, "<html>oops</html>")) as (_, session):
        with pytest.raises(PolicyUnavailable, match=rf"{status}: <html>oops"):
            await session.reply(MESSAGES, turn=0, seed=1)


def test_a_full_queue_is_overload() -> None:
    body = json.dumps({"detail": "The request queue is full."})
    assert isinstance(error_for(503, body, {}), PolicyOverloaded)


async def test_a_slow_server_is_unavailable() -> None:
    async with playing(request_timeout=0.05) as (server, session):
        server.gate = asyncio.Event()
        with pytest.raises(PolicyUnavailable, match=r"within 0\.05 s"):
            await session.reply(MESSAGES, turn=0, seed=1)
        server.gate.set()


async def test_no_server_is_unavailable() -> None:
    async with playing() as (server, session):
        pass
    config = PolicyConfig(openai=OpenAIOptions(base_url=server.url), request_retry=QUICK)
    policy = OpenAIPolicy("tiny", config, {})
    await policy.start()
    session = policy.open(episode_context())
    with pytest.raises(PolicyUnavailable):
        await session.reply(MESSAGES, turn=0, seed=1)
    await policy.close()


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        {"error": {"message": "This model's maximum context length is 4096 tokens."}},
        {"message": "The input (5 tokens) is longer than the model's context length (4 tokens)."},
        {"detail": "prompt is too long: 5 tokens > 4 maximum"},
    ],
)
async def test_a_full_context_ends_the_episode_without_an_error(body: object) -> None:
    async with playing(failing(400, body)) as (_, session):
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert (reply.text, reply.finish_reason) == ("", FinishReason.CONTEXT)


def test_a_full_context_is_a_rejection_where_it_is_an_error() -> None:
    error = error_for(400, '{"error": {"message": "context length exceeded"}}', {})
    assert isinstance(error, ContextOverflow)
    assert not error.retriable


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "[]",
        "{}",
        '{"choices": []}',
        '{"choices": [1]}',
        '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": [1]}}]}',
        "[" * 100_000,
    ],
)
async def test_a_reply_that_makes_no_sense_is_misbehaviour(body: str) -> None:
    async with playing(failing(200, body)) as (_, session):
        with pytest.raises(PolicyMisbehaved):
            await session.reply(MESSAGES, turn=0, seed=1)


async def test_a_content_filter_is_a_rejection() -> None:
    async with playing(lambda _: completion("", finish_reason="content_filter")) as (_, session):
        with pytest.raises(PolicyRejected):
            await session.reply(MESSAGES, turn=0, seed=1)


def tool_call(name: str, arguments: object, content: str | None = "go") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"id": "call_a", "type": "function", "function": function}
    return completion(content, tool_calls=[call], finish_reason="tool_calls")


async def test_a_tool_call_becomes_the_text_that_environments_read() -> None:
    answers = iter(
        [tool_call("move", '{"direction": "up", "steps": 2}'), tool_call("look", "", None)]
    )
    async with playing(lambda _: next(answers), context=CALLING) as (server, session):
        first = await session.reply(MESSAGES, turn=0, seed=1)
        said = [
            *MESSAGES,
            Message(Role.ASSISTANT, first.text, sampled=True),
            Message(Role.USER, "You moved."),
        ]
        second = await session.reply(said, turn=1, seed=2)
    assert json.loads(first.text) == {
        "thought": "go",
        "function_name": "move",
        "arguments": {"direction": "up", "steps": 2},
    }
    assert json.loads(second.text) == {"thought": "", "function_name": "look", "arguments": {}}
    assert first.finish_reason is FinishReason.STOP
    assert (server.bodies[0]["tools"], server.bodies[0]["tool_choice"]) == (TOOLS, "auto")
    assert server.bodies[1]["messages"][-2:] == [
        {
            "role": "assistant",
            "content": "go",
            "tool_calls": [
                {
                    "id": "call_a",
                    "type": "function",
                    "function": {
                        "name": "move",
                        "arguments": '{"direction": "up", "steps": 2}',
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "You moved."},
    ]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [("{oops", "{oops"), ({"direction": "up"}, {"direction": "up"}), (None, {}), ("", {})],
)
async def test_broken_arguments_are_for_the_environment_to_answer(
    arguments: object, read: object
) -> None:
    async with playing(lambda _: tool_call("move", arguments), context=CALLING) as (_, session):
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert json.loads(reply.text)["arguments"] == read


async def test_text_instead_of_a_tool_call_stays_text() -> None:
    async with playing(context=CALLING) as (_, session):
        assert (await session.reply(MESSAGES, turn=0, seed=1)).text == "Action:\nmove"


async def test_functions_are_declared_only_where_the_episode_calls_functions() -> None:
    react = episode_context(tools_json=json.dumps(TOOLS))
    async with playing(lambda _: tool_call("move", "{}"), context=react) as (server, session):
        assert (await session.reply(MESSAGES, turn=0, seed=1)).text == "go"
    assert "tools" not in server.bodies[0]
    off = {"native_tools": False}
    async with playing(context=CALLING, options=off) as (server, session):
        await session.reply(MESSAGES, turn=0, seed=1)
    assert "tools" not in server.bodies[0]


async def test_no_more_requests_than_allowed_are_in_flight() -> None:
    async with playing(max_requests=3) as (server, session):
        server.gate = asyncio.Event()
        calls = [asyncio.create_task(session.reply(MESSAGES, turn=0, seed=n)) for n in range(10)]
        await server.until_asked(3)
        await asyncio.sleep(0.05)
        assert server.running == 3
        server.gate.set()
        assert len(await asyncio.gather(*calls)) == 10
    assert server.most_running == 3


async def test_no_more_requests_than_allowed_start_in_a_minute() -> None:
    async with playing(requests_per_minute=2) as (server, session):
        calls = [asyncio.create_task(session.reply(MESSAGES, turn=0, seed=n)) for n in range(4)]
        await asyncio.wait(calls[:2])
        await asyncio.sleep(0.2)
        assert len(server.bodies) == 2
        for call in calls[2:]:
            call.cancel()
        await asyncio.wait(calls)


async def test_a_cancelled_call_gives_its_place_back() -> None:
    async with playing(max_requests=1) as (server, session):
        server.gate = asyncio.Event()
        call = asyncio.create_task(session.reply(MESSAGES, turn=0, seed=1))
        await server.until_asked(1)
        call.cancel()
        await asyncio.wait([call])
        server.gate.set()
        assert (await session.reply(MESSAGES, turn=0, seed=1)).text


def test_a_missing_key_is_named() -> None:
    config = PolicyConfig(
        openai=OpenAIOptions(base_url="https://api.example.com/v1", api_key_env="MY_KEY")
    )
    with pytest.raises(PolicyMisconfigured, match="MY_KEY"):
        OpenAIPolicy("tiny", config, {"OPENAI_API_KEY": "other"})
    with pytest.raises(PolicyMisconfigured, match="OPENAI_API_KEY"):
        OpenAIPolicy("tiny", PolicyConfig(), {})


def test_the_address_may_come_from_the_environment_and_loopback_needs_no_key() -> None:
    OpenAIPolicy("tiny", PolicyConfig(), {"OPENAI_BASE_URL": "http://localhost:1/v1"})
    flag = PolicyConfig(openai=OpenAIOptions(base_url="http://127.0.0.1:1/v1"))
    OpenAIPolicy("tiny", flag, {"OPENAI_BASE_URL": "https://api.example.com"})


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost", True),
        ("http://localhost.example.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback_is_this_machine_only(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


async def test_a_policy_that_was_not_started_says_so() -> None:
    config = PolicyConfig(openai=OpenAIOptions(base_url="http://127.0.0.1:1"))
    with pytest.raises(RuntimeError):
        await OpenAIPolicy("m", config, {}).open(episode_context()).reply(MESSAGES, turn=0, seed=1)


def test_every_failure_is_a_policy_error() -> None:
    statuses = range(300, 600)
    assert all(isinstance(error_for(status, "", {}), PolicyError) for status in statuses)
