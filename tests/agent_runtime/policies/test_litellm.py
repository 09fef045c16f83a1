"""Other vendors by way of LiteLLM: our repeats and limits, its translation and prices.

The library is in no lock and in no extra of the tests: without it most of these are skipped.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import PolicyError, PolicyLost, PolicyMisconfigured, PolicyOverloaded
from agent_runtime.extras import install_command
from agent_runtime.policies import (
    OpenAIOptions,
    Policy,
    PolicyConfig,
    Pricing,
    RequestRetry,
    make_policy,
)
from agent_runtime.policies.contract import PolicyContract
from tests.agent_runtime.policies.live_episode import episode_context
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving

QUICK = Behaviour(quickest=0.0, slowest=0.002)
MODEL = "openai/gpt-4o-mini"
"""Of the provider whose API the fake server speaks; its price is in the library's table."""
ASKED = [Message(Role.USER, "Find the goal.")]
installed = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="the extra `litellm` is not installed"
)
pytestmark = pytest.mark.slow


@asynccontextmanager
async def asking(
    server: FakeOpenAI, model: str = MODEL, *, seconds: float = 20, **options: Any
) -> AsyncIterator[Policy]:
    async with serving(server) as url:
        settings = OpenAIOptions(base_url=url, **options)
        retry = RequestRetry(seconds=seconds, first_delay=0.01, max_delay=0.05)
        yield make_policy(f"litellm:{model}", PolicyConfig(openai=settings, request_retry=retry))


@installed
class TestLiteLLM(PolicyContract):
    @asynccontextmanager
    async def made(self) -> AsyncIterator[Policy]:
        async with asking(FakeOpenAI(QUICK)) as policy:
            yield policy

    def failing(self) -> Any:
        return asking(FakeOpenAI(Behaviour(quickest=0, slowest=0, failed=1)), seconds=0.1)


@installed
async def test_requests_are_repeated_by_us_and_costs_are_those_of_its_table() -> None:
    faults = Behaviour(quickest=0, slowest=0, refused=0.2, failed=0.2, truncated=0.1, retry_after=0)
    server = FakeOpenAI(faults)
    async with asking(server) as policy:
        await policy.start()
        session = policy.open(episode_context())
        replies = [await session.reply(ASKED, turn=turn, seed=turn) for turn in range(40)]
        counts = policy.request_counts()
        await policy.close()
    assert policy.pricing is Pricing.PRICED
    assert counts is not None and counts.answered == 40
    # Not one more than we know of: its own retries are off.
    assert sum(server.answers.values()) == 40 + counts.resent.total()
    assert sum(sum(reply.repeats.values()) for reply in replies) == counts.resent.total() > 0
    for reply in replies:
        expected = (0.15 * reply.prompt_tokens + 0.6 * reply.completion_tokens) / 1e6
        assert reply.cost_usd == pytest.approx(expected)


@installed
async def test_the_users_prices_go_before_the_table_and_an_unknown_model_has_none() -> None:
    prices = {"usd_per_million_input": 10.0, "usd_per_million_output": 20.0}
    async with asking(FakeOpenAI(QUICK), "openai/unheard-of") as policy:
        assert policy.pricing is Pricing.UNKNOWN
    async with asking(FakeOpenAI(QUICK), "openai/unheard-of", **prices) as policy:
        reply = await policy.open(episode_context()).reply(ASKED, turn=0, seed=0)
    expected = (10 * reply.prompt_tokens + 20 * reply.completion_tokens) / 1e6
    assert reply.cost_usd == pytest.approx(expected)


@installed
async def test_failures_are_told_apart() -> None:
    async def failure(
        behaviour: Behaviour, *, down: bool = False, model: str = MODEL
    ) -> PolicyError:
        server = FakeOpenAI(behaviour)
        server.down = down
        async with asking(server, model, seconds=0) as policy:
            with pytest.raises(PolicyError) as caught:
                await policy.open(episode_context()).reply(ASKED, turn=0, seed=0)
        return caught.value

    refused = await failure(Behaviour(refused=1, retry_after=7))
    assert isinstance(refused, PolicyOverloaded) and refused.retry_after == 7
    assert isinstance(await failure(QUICK, down=True), PolicyLost)
    nonsense = await failure(QUICK, model="nonsense")
    assert not nonsense.retriable and "Provider" in str(nonsense)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(PolicyMisconfigured) as caught:
        make_policy("litellm:openai/x", PolicyConfig())
    assert install_command("litellm") in str(caught.value)


def test_settings_that_it_cannot_have_are_refused() -> None:
    config = PolicyConfig(openai=OpenAIOptions(api="responses"))
    with pytest.raises(PolicyMisconfigured, match="api chat only"):
        make_policy("litellm:openai/x", config)
