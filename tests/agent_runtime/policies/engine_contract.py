"""What every engine behind the SGLang policy must do: the same tests for the real server, for the
router with two of them, and for the fake engine.

Subclasses give `target`, an engine that serves `tests.agent_runtime.serving.tiny_model`.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import ContextOverflow, PolicyError, PolicyMisconfigured
from agent_runtime.ledger import Origin, TokenLedger
from agent_runtime.policies import FinishReason, PolicyConfig, Sampling, SGLangOptions
from agent_runtime.policies.base import Completion, PolicySession
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.weights import Interrupt
from tests.agent_runtime import tiny_tokenizers as tiny
from tests.agent_runtime.policies.live_episode import episode_context

START = [
    Message(Role.USER, "You are in a maze. The goal is at position 8, 6. " * 8),
    Message(Role.ASSISTANT, "Ok, I'll follow your instructions and try my best."),
    Message(Role.USER, "Your current position is at 3, 4."),
]
WHOLE = 48
"""Tokens of a reply in these tests; the tiny model hardly ever ends one by itself."""
_versions = itertools.count(1)


@dataclass(frozen=True)
class Target:
    """An engine, or a router with several, that serves a tiny model."""

    url: str
    model: Path
    other: Path
    """A checkpoint of the same architecture with other weights."""
    exact: bool = True
    """Its logprobs come from a model, not from a hash."""


async def play(session: PolicySession, turns: int, seed: int = 1) -> list[Completion]:
    messages, replies = list(START), list[Completion]()
    for turn in range(turns):
        replies.append(await session.reply(messages, turn=turn, seed=seed * 1000 + turn))
        if replies[-1].finish_reason is FinishReason.CONTEXT:
            break
        messages += [
            Message(Role.ASSISTANT, replies[-1].text, sampled=True),
            Message(Role.USER, f"Turn {turn} is over. Your current position is at {turn}, 4."),
        ]
    return replies


def ledger_of(session: PolicySession) -> TokenLedger:
    return TokenLedger.from_protos(session.token_segments())


def new_version() -> str:
    return f"v{next(_versions)}-{uuid.uuid4().hex[:6]}"


class EngineContract:
    """Inherit, and give a fixture `target`."""

    @asynccontextmanager
    async def policy(
        self, target: Target, *, sampling: Sampling | None = None, **options: Any
    ) -> AsyncIterator[SGLangPolicy]:
        chosen = sampling or Sampling(max_new_tokens=WHOLE)
        policy = SGLangPolicy(
            target.url, PolicyConfig(sampling=chosen, sglang=SGLangOptions(**options))
        )
        await policy.start()
        try:
            yield policy
        finally:
            await policy.close()

    async def test_turns_append_and_each_sampled_token_is_accounted_for(
        self, target: Target
    ) -> None:
        async with self.policy(target) as policy:
            session = policy.open(episode_context(episode_id=uuid.uuid4().hex))
            replies = await play(session, 3)
        ledger = ledger_of(session)
        segment = ledger.segments[0]
        sampled = [at for at, origin in enumerate(segment.origins) if origin is Origin.SAMPLED]
        assert ledger.forks == 0
        assert len(sampled) == sum(reply.completion_tokens for reply in replies)
        assert all(segment.logprobs[at] < 0 for at in sampled)
        assert {at for span in segment.version_spans for at in range(span.start, span.end)} == set(
            sampled
        )

    async def test_later_turns_find_their_history_in_the_cache(self, target: Target) -> None:
        async with self.policy(target) as policy:
            sessions = [policy.open(episode_context(episode_id=uuid.uuid4().hex)) for _ in range(6)]
            played = await asyncio.gather(
                *(play(session, 5, seed) for seed, session in enumerate(sessions))
            )
        later = [reply for replies in played for reply in replies[1:]]
        prompts = sum(reply.prompt_tokens for reply in later)
        assert sum(reply.cached_tokens for reply in later) / prompts >= 0.8

    async def test_a_streamed_reply_is_recorded_like_any_other(self, target: Target) -> None:
        async with self.policy(target, stream=True) as policy:
            session = policy.open(episode_context())
            [reply] = await play(session, 1)
        segment = ledger_of(session).segments[0]
        assert reply.completion_tokens == len(segment) - reply.prompt_tokens
        assert sum(span.end - span.start for span in segment.version_spans) == (
            reply.completion_tokens
        )

    async def test_an_early_stop_ends_the_reply_at_the_first_match(self, target: Target) -> None:
        sampling = Sampling(max_new_tokens=600)
        async with self.policy(target, sampling=sampling, early_stop=r"(?s).{12}") as policy:
            session = policy.open(episode_context())
            [reply] = await play(session, 1)
        assert reply.finish_reason is FinishReason.STOP
        assert len(reply.text) >= 12
        assert reply.completion_tokens < 60

    async def test_an_abandoned_reply_leaves_the_engine(self, target: Target) -> None:
        # Greedy, the tiny models repeat themselves without an end; sampled, one may end at once.
        sampling = Sampling(max_new_tokens=1200, temperature=0)
        async with self.policy(target, sampling=sampling) as policy:
            call = asyncio.create_task(play(policy.open(episode_context()), 1))
            await self.until(policy, lambda running: running > 0)
            call.cancel()
            await asyncio.wait([call])
            await self.until(policy, lambda running: running == 0)

    async def until(self, policy: SGLangPolicy, holds: Any) -> None:
        """Until the engines report a number of running requests for which `holds` does."""
        async with asyncio.timeout(60):
            while True:
                load = await policy.engines.loads()
                assert load is not None
                if holds(load.running):
                    return
                await asyncio.sleep(0.02)

    async def test_a_full_context_ends_the_episode_and_one_too_small_is_an_error(
        self, target: Target
    ) -> None:
        async with self.policy(target, context_length=330) as policy:
            replies = await play(policy.open(episode_context()), 4)
        assert replies[-1].finish_reason is FinishReason.CONTEXT
        async with self.policy(target, context_length=40) as policy:
            with pytest.raises(ContextOverflow, match="first observation"):
                await play(policy.open(episode_context()), 1)

    async def test_what_the_engine_refuses_as_too_long_is_a_full_context(
        self, target: Target
    ) -> None:
        long = [Message(Role.USER, "Your current position is at 3, 4. " * 4000)]
        async with self.policy(target) as policy:
            policy._limit = 0  # as of a server that does not tell its limit
            with pytest.raises(ContextOverflow):
                await policy.open(episode_context()).reply(long, turn=0, seed=1)

    async def test_a_tokenizer_of_another_model_is_refused_before_it_does_harm(
        self, target: Target, tmp_path: Path
    ) -> None:
        with pytest.raises(PolicyMisconfigured, match="another tokenizer"):
            async with self.policy(target, tokenizer=str(tiny.llama2(tmp_path))):
                pass

    @pytest.mark.parametrize("interrupt", ["in_place", "retract", "abort", "finish"])
    async def test_new_weights_reach_replies_that_are_being_sampled(
        self, target: Target, interrupt: Interrupt
    ) -> None:
        # Both tiny models, greedy, repeat themselves without an end: replies outlast the update.
        sampling = Sampling(max_new_tokens=1600, temperature=0)
        version = new_version()
        async with self.policy(target, sampling=sampling) as policy:
            sessions = [policy.open(episode_context(episode_id=uuid.uuid4().hex)) for _ in range(4)]
            plays = [
                asyncio.create_task(play(session, 1, seed)) for seed, session in enumerate(sessions)
            ]
            await self.until(policy, lambda running: running >= 4)
            await asyncio.sleep(0.3)
            await policy.update_weights(target.other, version=version, interrupt=interrupt)
            replies = [replies[0] for replies in await asyncio.gather(*plays)]
            assert policy.engines.health.versions == {version}
        switched = 0
        for session, reply in zip(sessions, replies, strict=True):
            spans = ledger_of(session).segments[0].version_spans
            assert reply.finish_reason is not FinishReason.ABORT
            assert spans[-1].end - spans[0].start == reply.completion_tokens
            assert all(one.end == two.start for one, two in itertools.pairwise(spans))
            switched += [span.version for span in spans][1:] == [version]
        if interrupt == "finish":
            assert switched == 0
        else:
            assert switched == 4, "the update came after the replies had ended"

    async def test_weights_that_cannot_be_loaded_leave_the_engine_stale(
        self, target: Target
    ) -> None:
        async with self.policy(target, recovery=0.2) as policy:
            with pytest.raises(PolicyError):
                await policy.update_weights("/no/such/checkpoint", version=new_version())
            with pytest.raises(PolicyError, match="stale"):
                await play(policy.open(episode_context()), 1)
            version = await policy.update_weights(target.model, version=new_version())
            await policy.engines.wait_ready()
            [reply] = await play(policy.open(episode_context()), 1)
        assert reply.policy_version == version

    async def test_a_version_that_is_served_already_is_refused(self, target: Target) -> None:
        async with self.policy(target) as policy:
            [served] = policy.engines.health.versions
            with pytest.raises(PolicyMisconfigured):
                await policy.update_weights(target.other, version=served)

    async def test_many_requests_are_held_at_once(self, target: Target) -> None:
        async with self.policy(target, sampling=Sampling(max_new_tokens=4)) as policy:
            sessions = [
                policy.open(episode_context(episode_id=uuid.uuid4().hex)) for _ in range(150)
            ]
            played = await asyncio.gather(
                *(play(session, 1, seed) for seed, session in enumerate(sessions))
            )
        assert all(replies[0].completion_tokens >= 1 for replies in played)
