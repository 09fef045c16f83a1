"""Our own policies keep what every policy promises, and the contract finds those that do not."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.conversation import Message
from agent_runtime.policies import (
    Completion,
    EmbeddedOptions,
    EpisodeContext,
    OpenAIOptions,
    Policy,
    PolicyConfig,
    PolicySession,
    Pricing,
    RequestRetry,
    Sampling,
    make_policy,
)
from agent_runtime.policies.contract import PolicyContract, flaws
from tests.agent_runtime.tiny_arrays import save_chat_model
from tests.kit.fake_openai import Behaviour, FakeOpenAI, serving

QUICK = Behaviour(quickest=0.0, slowest=0.002)
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


class TestExpert(PolicyContract):
    policy_name = "expert"
    seeded = True


class TestThePolicyOfTwentyLines(PolicyContract):
    policy_name = "own_policy:make"
    seeded = True

    @pytest.fixture(autouse=True)
    def in_its_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(EXAMPLES)


class TestOpenAI(PolicyContract):
    @asynccontextmanager
    async def asking(self, server: FakeOpenAI) -> AsyncIterator[Policy]:
        async with serving(server) as url:
            options = OpenAIOptions(base_url=url, usd_per_million_input=1, usd_per_million_output=2)
            retry = RequestRetry(seconds=0.1, first_delay=0.01)
            yield make_policy("openai:fake", PolicyConfig(openai=options, request_retry=retry))

    @asynccontextmanager
    async def made(self) -> AsyncIterator[Policy]:
        async with self.asking(FakeOpenAI(QUICK)) as policy:
            yield policy

    def failing(self) -> Any:
        return self.asking(FakeOpenAI(Behaviour(quickest=0, slowest=0, failed=1)))


class TestEmbedded(PolicyContract):
    seeded = True
    folder: Path

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        pytest.importorskip("numpy")
        folder = tmp_path_factory.mktemp("model") / "tiny"
        save_chat_model(folder)
        cls.policy_name = f"embedded:{folder}"
        cls.config = PolicyConfig(
            sampling=Sampling(max_new_tokens=6),
            embedded=EmbeddedOptions(backend="numpy", max_slots=16, cache_gib=0.1),
        )


# ---------------------------------------------------------------------------- what it finds


class Bad(Policy, PolicySession):
    """Replies as it is told."""

    name = "bad"

    def __init__(self, reply: Callable[[Sequence[Message], int], Completion]) -> None:
        self._reply = reply

    def open(self, context: EpisodeContext) -> PolicySession:
        return self

    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        return self._reply(messages, seed)


class Leaving(Bad):
    async def start(self) -> None:
        self.task = asyncio.create_task(asyncio.sleep(3600))


class Holding(Bad):
    async def start(self) -> None:
        self.over = threading.Event()
        threading.Thread(target=self.over.wait, args=(3,)).start()


def contract_of(policy: Policy) -> PolicyContract:
    class Contract(PolicyContract):
        seeded = True

        @asynccontextmanager
        async def made(self) -> AsyncIterator[Policy]:
            yield policy

        @asynccontextmanager
        async def failing(self) -> AsyncIterator[Policy]:
            yield policy

    return Contract()


def say(**fields: Any) -> Callable[[Sequence[Message], int], Completion]:
    return lambda messages, seed: Completion(**({"text": "x"} | fields))


def fail(messages: Sequence[Message], seed: int) -> Completion:
    raise KeyError("oh")


def differ(messages: Sequence[Message], seed: int, told: list[int] = []) -> Completion:  # noqa: B006
    told.append(1)
    return Completion(text=str(len(told)))


@pytest.mark.parametrize(
    ("policy", "promise", "words"),
    [
        (Bad(say(prompt_tokens=-1)), "a_reply_has_what_a_record_needs", "prompt_tokens is -1"),
        (Bad(lambda *_: "x"), "a_reply_has_what_a_record_needs", "no Completion"),  # type: ignore
        (Bad(differ), "the_same_seed_gives_the_same_reply", "different replies"),
        (Bad(differ), "a_hundred_sessions_reply_at_once", "something else among others"),
        (Bad(fail), "strange_conversations_are_answered_or_refused", "oh"),
        (Bad(fail), "a_failure_is_a_typed_error", "it raised KeyError"),
        (Bad(say()), "a_failure_is_a_typed_error", "it raised None"),
        (Leaving(say()), "nothing_is_left_when_it_is_closed", "tasks are left behind"),
        (Holding(say()), "nothing_is_left_when_it_is_closed", "is left behind"),
    ],
)
def test_a_broken_promise_is_found(
    policy: Policy, promise: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_runtime.policies.contract._SETTLE_SECONDS", 0.05)
    with pytest.raises((AssertionError, KeyError), match=words):
        getattr(contract_of(policy), f"test_{promise}")()


@pytest.mark.parametrize(
    ("reply", "flaw"),
    [
        (Completion(text="x", completion_tokens=True), "completion_tokens is True"),
        (Completion(text="x", cached_tokens=2**60), "cached_tokens is 1152921504606846976"),
        (Completion(text=None), "text is None"),  # type: ignore
        (Completion(text="x", finish_reason="stop"), "finish_reason is 'stop'"),  # type: ignore
        (Completion(text="x", cost_usd=math.nan), "cost is nan"),
        (Completion(text="x", repeats={"": 1}), "repeats say"),
        (Completion(text="x"), "cost is unknown"),
    ],
)
def test_what_cannot_be_recorded_is_a_flaw(reply: Completion, flaw: str) -> None:
    assert any(flaw in found for found in flaws(reply, Pricing.PRICED))
    assert list(flaws(Completion(text="x", cost_usd=0.5), Pricing.PRICED)) == []
