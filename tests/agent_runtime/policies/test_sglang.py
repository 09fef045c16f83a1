"""The SGLang policy against a fake with SGLang's HTTP interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import (
    ContextOverflow,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
)
from agent_runtime.ledger import Origin, TokenLedger, VersionSpan
from agent_runtime.policies import (
    Completion,
    FinishReason,
    PolicyConfig,
    PolicySession,
    RequestRetry,
    Sampling,
    SGLangOptions,
)
from agent_runtime.policies.sglang import SGLangPolicy
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.agent_runtime.policies.live_episode import episode_context
from tests.kit.fake_sglang import FakeModel, FakeSGLang, serving

MESSAGES = [
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "Ok."),
    Message(Role.USER, "Your current position is at 3, 4."),
]
QUICK = RequestRetry(seconds=0.3, first_delay=0.001, max_delay=0.02)
PLAIN_LETTERS = list(range(40, 60))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.chatml(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model / "tokenizer.json"))


@pytest.fixture
async def server(model: Path) -> AsyncIterator[FakeSGLang]:
    fake = FakeSGLang(
        FakeModel(
            model_path=str(model),
            name="tiny",
            vocabulary=PLAIN_LETTERS,
            reply_tokens=0,
            context_length=512,
        )
    )
    async with serving(fake) as fake.url:
        yield fake


@asynccontextmanager
async def policy_for(
    server: FakeSGLang,
    *,
    options: SGLangOptions | None = None,
    sampling: Sampling | None = None,
    **config: Any,
) -> AsyncIterator[SGLangPolicy]:
    config.setdefault("request_retry", QUICK)
    settings = PolicyConfig(
        sampling=sampling or Sampling(max_new_tokens=6), sglang=options or SGLangOptions(), **config
    )
    policy = SGLangPolicy(server.url, settings)
    await policy.start()
    try:
        yield policy
    finally:
        await policy.close()


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def after(messages: list[Message], reply: Completion, observation: str) -> list[Message]:
    return [
        *messages,
        Message(Role.ASSISTANT, reply.text, sampled=True),
        Message(Role.USER, observation),
    ]


async def play(session: PolicySession, turns: int) -> list[Completion]:
    messages, replies = list(MESSAGES), list[Completion]()
    for turn in range(turns):
        replies.append(await session.reply(messages, turn=turn, seed=1000 + turn))
        messages = after(messages, replies[-1], f"Turn {turn} is over.")
    return replies


async def test_every_prompt_starts_with_all_ids_so_far(server: FakeSGLang) -> None:
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        await play(session, 4)
    prompts = [request["input_ids"] for request in server.requests]
    ledger = TokenLedger.from_protos(session.token_segments())
    ids = list(ledger.segments[0].ids)
    assert ledger.forks == 0
    for shorter, longer in zip(prompts, [*prompts[1:], ids], strict=True):
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reply_is_the_same_whether_or_not_somebody_watches_it_being_written(
    server: FakeSGLang, stream: bool
) -> None:
    drafts: list[str] = []
    replies: list[list[Completion]] = []
    ledgers: list[list[bytes]] = []
    async with policy_for(server, options=SGLangOptions(stream=stream)) as policy:
        for watched in (True, False):
            context = episode_context(episode_id=f"e{watched}")
            if watched:
                context.draft.on_change = lambda draft=context.draft: drafts.append(draft.text())
            session = policy.open(context)
            assert session.streams is stream
            replies.append(await play(session, 2))
            ledgers.append([it.SerializeToString() for it in session.token_segments()])
            assert context.draft.text() == (replies[0][-1].text if watched and stream else "")
    assert [reply.text for reply in replies[0]] == [reply.text for reply in replies[1]]
    assert ledgers[0] == ledgers[1]
    bodies = [{**request, "rid": ""} for request in server.requests]
    assert bodies[:2] == bodies[2:]
    assert (len(drafts) > 2) is stream


def cached_but_for_four(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["cached_tokens"] = reply["meta_info"]["prompt_tokens"] - 4
    return reply


async def test_sampled_tokens_carry_the_servers_logprobs_and_versions(
    server: FakeSGLang, tokenizer: Tokenizer
) -> None:
    end = tokenizer.token_to_id("<|im_end|>")
    server.script = [[*encode(tokenizer, "move right"), end]]
    server.version_after = (2, "v1")
    server.edit = cached_but_for_four
    async with policy_for(server, sampling=Sampling(max_new_tokens=20)) as policy:
        session = policy.open(episode_context())
        first = await session.reply(MESSAGES, turn=0, seed=7)
    sent = server.requests[0]
    segment = TokenLedger.from_protos(session.token_segments()).segments[0]
    prompt = len(sent["input_ids"])
    count = len(segment) - prompt
    assert first.text == "move right"
    assert first.finish_reason is FinishReason.STOP
    assert (first.prompt_tokens, first.completion_tokens) == (prompt, count)
    assert (first.cached_tokens, first.policy_version) == (prompt - 4, "v1")
    assert segment.ids[-1] == end
    assert segment.origins == (Origin.CONTEXT,) * prompt + (Origin.SAMPLED,) * count
    assert all(value < 0 for value in segment.logprobs[prompt:])
    assert segment.generations[prompt:] == (0,) * count
    assert segment.version_spans == (
        VersionSpan(prompt, prompt + 2, "default"),
        VersionSpan(prompt + 2, prompt + count, "v1"),
    )


async def test_the_request_carries_sampling_seed_and_stop_ids(
    server: FakeSGLang, tokenizer: Tokenizer
) -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9, top_k=5, max_new_tokens=3, stop=("\nObs",))
    async with policy_for(server, sampling=sampling) as policy:
        await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=2**64 - 1)
    request = server.requests[0]
    assert request.pop("rid")
    assert request.pop("input_ids")
    assert request == {
        "return_logprob": True,
        "extra_key": "weights:default",
        "sampling_params": {
            "max_new_tokens": 3,
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 5,
            "stop": ["\nObs"],
            "stop_token_ids": [tokenizer.token_to_id("<|im_end|>")],
            "sampling_seed": 2**63 - 1,
        },
    }
    assert server.routing_keys == ["run-1/maze_3/0"]


async def test_seeds_decide_what_is_sampled(server: FakeSGLang) -> None:
    async with policy_for(server) as policy:
        replies = [
            (await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=seed)).text
            for seed in (1, 2, 1)
        ]
    assert replies[0] == replies[2] != replies[1]


async def test_a_stop_string_ends_the_text_but_not_the_record(
    server: FakeSGLang, tokenizer: Tokenizer
) -> None:
    ids = encode(tokenizer, "move\nObs")
    server.script = [ids]
    sampling = Sampling(max_new_tokens=len(ids), stop=("\nObs",))
    async with policy_for(server, sampling=sampling) as policy:
        session = policy.open(episode_context())
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert reply.text == "move"
    assert list(session.token_segments()[0].ids)[-len(ids) :] == ids


async def test_a_reply_cut_by_length_is_ended_by_force_in_the_next_prompt(
    server: FakeSGLang, tokenizer: Tokenizer
) -> None:
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        replies = await play(session, 2)
    assert replies[0].finish_reason is FinishReason.LENGTH
    segment = TokenLedger.from_protos(session.token_segments()).segments[0]
    at = segment.origins.index(Origin.FORCED)
    assert segment.ids[at] == tokenizer.token_to_id("<|im_end|>")
    assert segment.origins[at - 1] is Origin.SAMPLED


async def test_the_context_limit_shortens_the_last_reply_and_then_ends_the_episode(
    server: FakeSGLang,
) -> None:
    async with policy_for(server, options=SGLangOptions(context_length=90)) as policy:
        session = policy.open(episode_context())
        replies = await play(session, 3)
    reasons = [reply.finish_reason for reply in replies]
    assert reasons[-1] is FinishReason.CONTEXT
    assert replies[-1].text == ""
    assert max(len(sent["input_ids"]) for sent in server.requests) < 90
    for sent in server.requests:
        assert len(sent["input_ids"]) + sent["sampling_params"]["max_new_tokens"] <= 90


async def test_a_reply_that_fills_the_context_is_reported_as_such(server: FakeSGLang) -> None:
    async with policy_for(server) as policy:
        await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
    limit = len(server.requests[0]["input_ids"]) + 2
    async with policy_for(server, options=SGLangOptions(context_length=limit)) as policy:
        reply = await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
    assert (reply.finish_reason, reply.completion_tokens) == (FinishReason.CONTEXT, 2)


async def test_a_limit_that_only_the_server_knows_ends_the_episode_too(
    server: FakeSGLang,
) -> None:
    server.context_length, server.tells_limits = 80, False
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        replies = await play(session, 2)
    assert (replies[1].text, replies[1].finish_reason) == ("", FinishReason.CONTEXT)


async def test_a_context_that_cannot_hold_the_first_observation_is_an_error(
    server: FakeSGLang,
) -> None:
    async with policy_for(server, options=SGLangOptions(context_length=20)) as policy:
        session = policy.open(episode_context())
        with pytest.raises(ContextOverflow, match="first observation"):
            await session.reply(MESSAGES, turn=0, seed=1)
    assert server.requests == []
    assert set(session.token_segments()[0].origins) == {Origin.CONTEXT}


async def test_a_cancelled_call_is_aborted_on_the_server(server: FakeSGLang) -> None:
    server.step_seconds = 0.01
    server.context_length = None
    async with policy_for(server, sampling=Sampling(max_new_tokens=100_000)) as policy:
        session = policy.open(episode_context())
        call = asyncio.create_task(session.reply(MESSAGES, turn=0, seed=1))
        await server.request_seen.wait()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await server.abort_seen.wait()
    assert server.aborted == [server.requests[0]["rid"]]


async def test_calls_out_of_time_are_aborted_and_unavailable(server: FakeSGLang) -> None:
    server.step_seconds = 0.01
    server.context_length = None
    sampling = Sampling(max_new_tokens=100_000)
    async with policy_for(server, sampling=sampling, request_timeout=0.1) as policy:
        with pytest.raises(PolicyUnavailable):
            await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
    assert sorted(server.aborted) == sorted(request["rid"] for request in server.requests)


async def test_an_abort_from_outside_keeps_the_partial_reply(server: FakeSGLang) -> None:
    server.edit = lambda reply: (
        reply["meta_info"].update(finish_reason={"type": "abort", "message": "Aborted"}) or reply
    )
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert (reply.finish_reason, reply.completion_tokens) == (FinishReason.ABORT, 6)
    assert list(session.token_segments()[0].origins).count(Origin.SAMPLED) == 6


async def test_aborts_before_the_first_token_are_no_reply(server: FakeSGLang) -> None:
    def nothing(reply: dict[str, Any]) -> dict[str, Any]:
        meta = reply["meta_info"]
        meta |= {"finish_reason": {"type": "abort"}, "output_token_logprobs": []}
        meta["weight_versions"] = [{"version": "default", "start": 0, "end": 0}]
        return reply | {"output_ids": []}

    server.edit = nothing
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        with pytest.raises(PolicyUnavailable, match="gave the request back"):
            await session.reply(MESSAGES, turn=0, seed=1)
    assert Origin.SAMPLED not in set(session.token_segments()[0].origins)


def nan_logprob(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["output_token_logprobs"][2][0] = float("nan")
    return reply


def missing_logprob(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["output_token_logprobs"][0][0] = None
    return reply


def no_logprobs(reply: dict[str, Any]) -> dict[str, Any]:
    del reply["meta_info"]["output_token_logprobs"]
    return reply


def one_logprob_less(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["output_token_logprobs"].pop()
    return reply


def other_ids(reply: dict[str, Any]) -> dict[str, Any]:
    reply["output_ids"][0] += 1
    return reply


def shortened_prompt(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["prompt_tokens"] -= 1
    return reply


def versions_with_a_hole(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["weight_versions"][0]["end"] -= 1
    return reply


def odd_versions(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["weight_versions"] = ["v1"]
    return reply


def unfinished(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["finish_reason"] = None
    return reply


def unknown_finish(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["finish_reason"] = {"type": "tired"}
    return reply


def flat_rows(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["output_token_logprobs"] = [-0.5] * 6
    return reply


def nothing_at_all(reply: dict[str, Any]) -> dict[str, Any]:
    reply["meta_info"]["output_token_logprobs"] = []
    return reply | {"output_ids": []}


FLAWS = [
    nan_logprob,
    missing_logprob,
    no_logprobs,
    one_logprob_less,
    other_ids,
    shortened_prompt,
    versions_with_a_hole,
    odd_versions,
    unfinished,
    unknown_finish,
    flat_rows,
    nothing_at_all,
]


@pytest.mark.parametrize("flaw", FLAWS)
async def test_what_cannot_be_trained_on_fails_the_episode_and_is_not_recorded(
    flaw: Callable[[dict[str, Any]], dict[str, Any]], server: FakeSGLang
) -> None:
    server.edit = flaw
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        with pytest.raises(PolicyMisbehaved):
            await session.reply(MESSAGES, turn=0, seed=1)
    assert Origin.SAMPLED not in set(session.token_segments()[0].origins)


async def test_an_older_server_reports_one_version_for_the_whole_reply(
    server: FakeSGLang,
) -> None:
    server.edit = lambda reply: reply["meta_info"].pop("weight_versions") and reply
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        reply = await session.reply(MESSAGES, turn=0, seed=1)
    assert reply.policy_version == "default"
    assert list(session.token_segments()[0].policy_versions) == ["default"]


async def test_an_older_server_cannot_tell_the_tokens_of_new_weights_from_those_of_old_ones(
    server: FakeSGLang,
) -> None:
    def edit(reply: dict[str, Any]) -> dict[str, Any]:
        reply["meta_info"].pop("weight_versions")
        reply["meta_info"]["weight_version"] = "v2"
        return reply

    server.edit = edit
    async with policy_for(server) as policy:
        session = policy.open(episode_context())
        with pytest.raises(PolicyMisbehaved, match="which tokens are of which: replace weights"):
            await session.reply(MESSAGES, turn=0, seed=1)


async def test_a_queue_that_stays_full_is_overload(server: FakeSGLang) -> None:
    async with policy_for(server) as policy:
        server.queue_full = True
        with pytest.raises(PolicyOverloaded, match="queue is full"):
            await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
    assert len(server.requests) > 1


async def test_a_request_that_was_refused_is_sent_again_under_another_id(
    server: FakeSGLang,
) -> None:
    async with policy_for(server, request_retry=RequestRetry(first_delay=0.01)) as policy:
        server.queue_full = True
        call = asyncio.create_task(policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1))
        while not server.requests:
            await asyncio.sleep(0.001)
        server.queue_full = False
        reply = await call
    assert reply.completion_tokens == 6
    assert set(reply.repeats) == {"refused"}
    assert len({request["rid"] for request in server.requests}) == len(server.requests) > 1
    assert len({str(request["sampling_params"]) for request in server.requests}) == 1


async def test_a_server_that_is_not_ready_is_found_out_at_the_start(server: FakeSGLang) -> None:
    server.healthy = False
    with pytest.raises(PolicyUnavailable):
        async with policy_for(server):
            pass


async def test_no_server_is_found_out_at_the_start() -> None:
    policy = SGLangPolicy("http://127.0.0.1:1", PolicyConfig())
    with pytest.raises(PolicyUnavailable):
        await policy.start()
    with pytest.raises(RuntimeError):
        policy.open(episode_context())


async def test_a_tokenizer_that_cannot_be_loaded_is_found_out_at_the_start(
    server: FakeSGLang, tmp_path: Path
) -> None:
    with pytest.raises(PolicyMisconfigured, match=r"tokenizer\.json"):
        async with policy_for(server, options=SGLangOptions(tokenizer=str(tmp_path))):
            pass


async def test_the_policy_is_named_after_the_model_that_is_served(server: FakeSGLang) -> None:
    async with policy_for(server) as policy:
        assert policy.name == "sglang:tiny"


async def test_a_chat_template_of_the_users_own_is_used(
    server: FakeSGLang, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "own.jinja"
    path.write_text("{{ strftime_now('%Y') }}|{% for m in messages %}{{ m.content }}|{% endfor %}")
    options = SGLangOptions(chat_template=path, template_date="2023-05-06")
    async with policy_for(server, options=options) as policy:
        await policy.open(episode_context()).reply(MESSAGES[-1:], turn=0, seed=1)
    text = tokenizer.decode(server.requests[0]["input_ids"])
    assert text == f"2023|{MESSAGES[-1].text}|"


@pytest.mark.parametrize(
    "options",
    [SGLangOptions(template_date="someday"), SGLangOptions(chat_template=Path("/nowhere/x"))],
)
async def test_template_settings_that_cannot_be_read_are_named(
    options: SGLangOptions, server: FakeSGLang
) -> None:
    with pytest.raises(PolicyMisconfigured):
        async with policy_for(server, options=options):
            pass


def test_a_missing_server_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_SGLANG_KEY", raising=False)
    config = PolicyConfig(sglang=SGLangOptions(api_key_env="MY_SGLANG_KEY"))
    with pytest.raises(PolicyMisconfigured, match="MY_SGLANG_KEY"):
        SGLangPolicy("http://127.0.0.1:1", config)


async def test_a_server_without_these_endpoints_is_a_rejection(server: FakeSGLang) -> None:
    policy = SGLangPolicy(server.url + "/elsewhere", PolicyConfig())
    with pytest.raises(PolicyRejected, match="404"):
        await policy.start()


async def test_many_episodes_play_at_once_without_mixing(server: FakeSGLang) -> None:
    async with policy_for(server, max_requests=8) as policy:
        sessions = [policy.open(episode_context(episode_id=f"e{n}")) for n in range(20)]
        await asyncio.gather(*(play(session, 3) for session in sessions))
    assert len({request["rid"] for request in server.requests}) == 60
    for number, session in enumerate(sessions):
        mine = [
            request["input_ids"]
            for request, key in zip(server.requests, server.routing_keys, strict=True)
            if key == f"e{number}"
        ]
        ids = list(session.token_segments()[0].ids)
        assert len(mine) == 3
        assert all(ids[: len(prompt)] == prompt for prompt in mine)


async def test_weights_that_another_process_gave_are_asked_for_by_their_name(
    server: FakeSGLang,
) -> None:
    """Under the old name an engine would go on from what the old weights computed."""

    async def asked_for(policy: SGLangPolicy) -> str:
        await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
        return server.requests[-1]["extra_key"]

    server.version = "step-1"
    async with policy_for(server) as policy:
        policy.follow("step-1")
        server.version = "step-2"
        policy.follow("step-2")
        assert await asked_for(policy) == "weights:step-2"
        # Given the next ones meanwhile, of which a reply is the first to tell.
        server.version = "step-3"
        await asked_for(policy)
        policy.follow("step-2")
        assert await asked_for(policy) == "weights:step-3"


async def test_an_engine_that_is_to_be_given_its_weights_yet_is_not_asked(
    server: FakeSGLang,
) -> None:
    async with policy_for(server) as policy:
        policy.follow("step-7")
        asking = asyncio.create_task(policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1))
        await asyncio.sleep(0.05)
        assert not server.requests and not asking.done()
        assert policy.outage() is not None
        server.version = "step-7"
        reply = await asking
    assert reply.policy_version == "step-7"
