"""The embedded policy: conversations over an engine in this process."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `torch` is not installed")

import torch

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import (
    ContextOverflow,
    PolicyMisbehaved,
    PolicyMisconfigured,
    PolicyUnavailable,
)
from agent_runtime.ledger import Origin, TokenLedger
from agent_runtime.policies import (
    Completion,
    EmbeddedOptions,
    FinishReason,
    PolicyConfig,
    PolicySession,
    Sampling,
)
from agent_runtime.policies.embedded import EmbeddedPolicy
from orchestrator import audit, sample
from tests.agent_runtime import tiny_models
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.agent_runtime.policies.live_episode import episode_context

pytestmark = pytest.mark.torch
MESSAGES = [
    Message(Role.USER, "You are in a maze."),
    Message(Role.ASSISTANT, "Ok."),
    Message(Role.USER, "Your current position is at 3, 4."),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_models.save_model(tmp_path_factory.mktemp("model"))
    return tiny.chatml(folder)


@asynccontextmanager
async def policy_for(
    model: Path, sampling: Sampling | None = None, *, timeout: float = 600, **options: Any
) -> AsyncIterator[EmbeddedPolicy]:
    settings = {"threads": 1, "cache_gib": 1, "max_slots": 8, "device": "cpu", **options}
    config = PolicyConfig(
        sampling=sampling or Sampling(max_new_tokens=6),
        embedded=EmbeddedOptions(**settings),
        request_timeout=timeout,
    )
    policy = EmbeddedPolicy(model, config)
    await policy.start()
    try:
        yield policy
    finally:
        await policy.close()


async def play(session: PolicySession, turns: int) -> list[Completion]:
    messages, replies = list(MESSAGES), list[Completion]()
    for turn in range(turns):
        replies.append(await session.reply(messages, turn=turn, seed=1000 + turn))
        messages += [
            Message(Role.ASSISTANT, replies[-1].text, sampled=True),
            Message(Role.USER, f"Turn {turn} is over."),
        ]
    return replies


async def test_an_episode_is_one_ledger_and_one_slot(model: Path) -> None:
    async with policy_for(model, version="v7") as policy:
        session = policy.open(episode_context())
        replies = await play(session, 4)
        await session.close()
    ledger = TokenLedger.from_protos(session.token_segments())
    assert ledger.forks == 0
    (segment,) = ledger.segments
    sampled = [at for at, origin in enumerate(segment.origins) if origin is Origin.SAMPLED]
    assert len(sampled) == sum(reply.completion_tokens for reply in replies)
    assert all(segment.logprobs[at] < 0 for at in sampled)
    assert all(segment.entropies[at] > 0 for at in sampled)
    versioned = [at for span in segment.version_spans for at in range(span.start, span.end)]
    assert versioned == sampled
    assert {span.version for span in segment.version_spans} == {"v7"}
    assert {reply.policy_version for reply in replies} == {"v7"}
    for earlier, later in zip(replies, replies[1:], strict=False):
        spoken = earlier.prompt_tokens + earlier.completion_tokens
        assert later.cached_tokens == spoken - 1


async def test_equal_seeds_give_equal_episodes_in_any_company(model: Path) -> None:
    async with policy_for(model) as policy:

        async def texts(name: str) -> list[str]:
            session = policy.open(episode_context(episode_id=name))
            replies = [reply.text for reply in await play(session, 3)]
            await session.close()
            return replies

        alone = await texts("alone")
        # More episodes than slots: contexts are given away and computed anew.
        crowd = await asyncio.gather(*(texts(f"e{index}") for index in range(30)))
    assert all(each == alone for each in crowd)


async def test_a_closed_policy_gives_its_memory_back(model: Path) -> None:
    def held() -> int:
        return sum(it.nbytes for it in gc.get_objects() if type(it) is torch.Tensor)

    before = held()
    async with policy_for(model, cache_gib=0.5) as policy:
        await play(policy.open(episode_context()), 1)
        engine = await policy.engine.ready()  # somebody still knows it
        assert held() > before + 1_000_000
    assert engine.totals.steps
    assert held() < before + 100_000


async def test_thousands_of_requests_wait_their_turn(model: Path) -> None:
    sampling = Sampling(max_new_tokens=1)
    async with policy_for(model, sampling, max_slots=64) as policy:

        async def first(index: int) -> Completion:
            session = policy.open(episode_context(episode_id=f"e{index}"))
            reply = await session.reply(MESSAGES, turn=0, seed=index)
            await session.close()
            return reply

        replies = await asyncio.gather(*(first(index) for index in range(2000)))
        totals = await policy.engine.call(lambda engine: engine.totals)
    assert all(reply.completion_tokens == 1 for reply in replies)
    # They all start alike, and nearly all of them copy it.
    assert totals.cached / totals.prompts > 0.9


async def test_a_full_context_is_a_finish_and_no_error(model: Path) -> None:
    async with policy_for(model) as policy:
        (reply,) = await play(policy.open(episode_context()), 1)
    prompt = reply.prompt_tokens
    async with policy_for(model, context_length=prompt + 3) as policy:
        cut, full = await play(policy.open(episode_context()), 2)
    assert (cut.finish_reason, cut.completion_tokens) == (FinishReason.CONTEXT, 3)
    assert (full.finish_reason, full.text) == (FinishReason.CONTEXT, "")


async def test_a_context_too_small_for_the_first_observation_is_an_error(model: Path) -> None:
    async with policy_for(model, context_length=16) as policy:
        with pytest.raises(ContextOverflow, match="first observation"):
            await play(policy.open(episode_context()), 1)


async def test_the_ledger_scores_as_it_was_sampled(model: Path) -> None:
    async with policy_for(model) as policy:
        session = policy.open(episode_context())
        await play(session, 3)
        (segment,) = TokenLedger.from_protos(session.token_segments()).segments
        scores = await policy.score(segment.ids)
    assert scores[0] is None
    sampled = [at for at, origin in enumerate(segment.origins) if origin is Origin.SAMPLED]
    assert [scores[at] for at in sampled] == pytest.approx(
        [segment.logprobs[at] for at in sampled], abs=1e-4
    )


async def test_weights_are_swapped_under_load(model: Path, tmp_path: Path) -> None:
    other = tiny_models.save_model(tmp_path / "other", seed=1)
    sampling = Sampling(max_new_tokens=40)
    async with policy_for(model, sampling, version="v0") as policy:
        sessions = [policy.open(episode_context(episode_id=f"e{at}")) for at in range(12)]
        playing = [asyncio.create_task(play(session, 2)) for session in sessions]
        await asyncio.sleep(0.05)
        assert await policy.update_weights(other, version="v1") == "v1"
        digest = await policy.update_weights(other)
        assert digest.startswith("weights-")
        await policy.update_weights(tiny_models.weights(tiny_models.LLAMA), version="v2")
        await asyncio.gather(*playing)
    order = ["v0", "v1", digest, "v2"]
    for session in sessions:
        (segment,) = TokenLedger.from_protos(session.token_segments()).segments
        names = [order.index(span.version) for span in segment.version_spans]
        assert names == sorted(names)


async def test_weights_of_another_model_are_refused_and_play_goes_on(
    model: Path, tmp_path: Path
) -> None:
    other = tiny_models.save_model(tmp_path / "other", num_hidden_layers=2)
    async with policy_for(model, version="v0") as policy:
        with pytest.raises(PolicyMisconfigured, match="another model"):
            await policy.update_weights(other)
        with pytest.raises(PolicyMisconfigured, match="version"):
            await policy.update_weights(tiny_models.weights(tiny_models.LLAMA))
        (reply,) = await play(policy.open(episode_context()), 1)
    assert reply.policy_version == "v0"


async def test_a_reply_that_was_given_back_goes_on_as_it_would_have(model: Path) -> None:
    async with policy_for(model, Sampling(max_new_tokens=80), version="v0") as policy:

        async def one() -> tuple[Completion, TokenLedger]:
            session = policy.open(episode_context())
            reply = await session.reply(MESSAGES, turn=0, seed=1)
            return reply, TokenLedger.from_protos(session.token_segments())

        whole, expected = await one()
        broken = asyncio.create_task(one())
        while not await policy.engine.call(lambda engine: engine.running):
            await asyncio.sleep(0)
        for _ in range(3):
            await policy.engine.abort()
            await asyncio.sleep(0.005)
        reply, ledger = await broken
    assert reply == replace(whole, cached_tokens=reply.cached_tokens)
    assert ledger.segments[0].ids == expected.segments[0].ids
    assert not broken.cancelled()


async def test_a_swap_may_give_back_what_runs(model: Path, tmp_path: Path) -> None:
    other = tiny_models.save_model(tmp_path / "other", seed=1)
    sampling = Sampling(temperature=0, max_new_tokens=60)
    async with policy_for(model, sampling, version="v0") as policy:
        session = policy.open(episode_context())
        await policy.engine.pause()
        reply = asyncio.create_task(session.reply(MESSAGES, turn=0, seed=1))
        await asyncio.sleep(0)
        await policy.update_weights(other, version="v1", interrupt="abort")
        await policy.engine.resume()
        done = await reply
    assert (done.finish_reason, done.policy_version) == (FinishReason.LENGTH, "v1")


async def test_nothing_is_generated_while_the_engine_is_paused(model: Path) -> None:
    async with policy_for(model) as policy:
        await policy.engine.pause()
        reply = asyncio.create_task(policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1))
        await asyncio.sleep(0.02)
        assert await policy.engine.call(lambda engine: engine.totals.steps) == 0
        assert not reply.done()
        await policy.engine.resume()
        assert (await reply).completion_tokens > 0


async def test_a_cancelled_reply_is_aborted_in_the_engine(model: Path) -> None:
    async with policy_for(model, Sampling(max_new_tokens=150)) as policy:
        await policy.engine.pause()
        reply = asyncio.create_task(policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1))
        await asyncio.sleep(0)
        assert await policy.engine.call(lambda engine: engine.waiting + engine.running) == 1
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        assert await policy.engine.call(lambda engine: engine.waiting + engine.running) == 0


async def test_a_reply_that_takes_too_long_is_a_policy_failure(model: Path) -> None:
    async with policy_for(
        model, Sampling(temperature=0, max_new_tokens=200), timeout=1e-4
    ) as policy:
        with pytest.raises(PolicyUnavailable, match="within"):
            await policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1)
        assert await policy.engine.call(lambda engine: engine.waiting + engine.running) == 0


async def test_weights_without_a_number_are_the_policys_fault(model: Path) -> None:
    bad = {
        name: tensor * float("nan")
        for name, tensor in tiny_models.weights(tiny_models.LLAMA).items()
    }
    async with policy_for(model) as policy:
        await policy.update_weights(bad, version="broken")
        session = policy.open(episode_context())
        with pytest.raises(PolicyMisbehaved, match="broken"):
            await session.reply(MESSAGES, turn=0, seed=1)


async def test_an_engine_that_dies_fails_all_its_requests(model: Path) -> None:
    async with policy_for(model) as policy:
        await policy.engine.pause()
        replies = [
            asyncio.create_task(
                policy.open(episode_context(episode_id=f"e{at}")).reply(MESSAGES, turn=0, seed=1)
            )
            for at in range(3)
        ]
        await asyncio.sleep(0)
        await policy.engine.call(lambda engine: setattr(engine, "backend", None))
        await policy.engine.resume()
        for reply in replies:
            with pytest.raises(PolicyUnavailable, match="died"):
                await reply
        session = policy.open(episode_context())
        with pytest.raises(PolicyUnavailable, match="died"):
            await session.reply(MESSAGES, turn=0, seed=1)
        await session.close()


async def test_closing_fails_what_is_under_way(model: Path) -> None:
    async with policy_for(model) as policy:
        await policy.engine.pause()
        reply = asyncio.create_task(policy.open(episode_context()).reply(MESSAGES, turn=0, seed=1))
        await asyncio.sleep(0)
    with pytest.raises(PolicyUnavailable, match="closed"):
        await reply


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("tokenizer.json", "no tokenizer"),
        ("tokenizer_config.json", "chat template"),
        ("config.json", "configuration"),
        ("model.safetensors", "save_pretrained"),
    ],
)
async def test_an_incomplete_folder_is_refused(tmp_path: Path, file: str, words: str) -> None:
    folder = tiny.chatml(tiny_models.save_model(tmp_path / "model"))
    (folder / file).unlink()
    with pytest.raises(PolicyMisconfigured, match=words):
        async with policy_for(folder):
            pass


async def test_a_tokenizer_of_another_model_is_named(tmp_path: Path) -> None:
    folder = tiny.chatml(tiny_models.save_model(tmp_path / "model", vocab_size=100))
    with pytest.raises(PolicyMisconfigured, match="do not belong together"):
        async with policy_for(folder):
            pass


@pytest.mark.parametrize("environment", ["echo", "maze"])
def test_a_run_is_sampled_and_audited(
    tmp_path: Path, environment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_models.save_model(tmp_path / "model", max_position_embeddings=4096)
    flags = [
        *("--env", environment, "--policy", f"embedded:{tiny.chatml(folder)}"),
        *("--episodes", "6", "--max-rounds", "3", "--max-new-tokens", "12"),
        *("--embedded.threads", "1", "--embedded.cache-gib", "1"),
        *("--out", str(tmp_path / "run"), "--json"),
    ]
    assert sample.main(flags) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["finished"], summary["failed"]) == (6, 0)
    assert audit.main([str(tmp_path / "run")]) == 0
