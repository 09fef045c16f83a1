"""What every policy promises, as a test class: one test method per promise.

    class TestMine(PolicyContract):
        policy_name = "own_policy:make"
        seeded = True

Works with pytest, which it never imports: a skip is `unittest.SkipTest`, a failure an assertion.
Each promise is checked on a policy of its own, in an event loop of its own.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import unittest
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, ClassVar, Final

from agent_runtime.conversation import Message, Role
from agent_runtime.errors import AgentRuntimeError, PolicyError
from agent_runtime.ledger import TokenLedger
from agent_runtime.policies.base import Completion, EpisodeContext, Policy, PolicySession
from agent_runtime.policies.config import PolicyConfig
from agent_runtime.policies.registry import make_policy
from agent_runtime.redaction import redact
from agent_runtime.request_retry import Outage, RequestCounts
from agent_runtime.sampling import FinishReason
from agent_runtime.spending import Pricing
from agent_runtime.usage import LARGEST_COUNT
from agentgym.env.v1 import environment_pb2, types_pb2

__all__ = ["PolicyContract", "flaws"]

_AT_ONCE: Final = 100
_TURNS: Final = 3
_COMPARED: Final = 5
"""Of the sessions at once, how many are compared with the same ones alone."""
_SETTLE_SECONDS: Final = 5.0
"""Longest wait for what a closed policy is about to end."""
_COUNTS: Final = (
    *("prompt_tokens", "completion_tokens", "cached_tokens"),
    *("reasoning_tokens", "cache_write_tokens"),
)
_STRANGE: Final = ("", " " * 10_000, "\x00\x1b[2J\u202e", "Grüße 🦜 " * 200, "</s><|im_end|>")


class PolicyContract:
    """Inherit it in a class named `Test...` and say which policy is meant."""

    policy_name: ClassVar[str] = ""
    """As a command line takes it."""
    config: ClassVar[PolicyConfig] = PolicyConfig()
    """The settings that it is made with."""
    seeded: ClassVar[bool] = False
    """Whether the same conversation and seed give the same reply."""
    environment: ClassVar[str] = "maze"
    """What its episodes say that they are of."""
    observation: ClassVar[str] = "The goal is to the north. There is a wall to your left."
    """What the conversations say that it replies to."""

    @asynccontextmanager
    async def made(self) -> AsyncGenerator[Policy]:
        """Give a new policy that is not started; override it to run what the policy needs."""
        yield make_policy(self.policy_name, self.config)

    def failing(self) -> AbstractAsyncContextManager[Policy]:
        """Give such a policy whose model or server fails; without an override that is skipped."""
        raise unittest.SkipTest("failing() makes no policy whose server fails")

    def context(self, number: int = 0) -> EpisodeContext:
        """Return what a session is opened with."""
        return EpisodeContext(
            episode_id=f"contract-{number}",
            environment=self.environment,
            item_id=f"{self.environment}_{number}",
            action_format=types_pb2.ACTION_FORMAT_REACT,
            live=_Adviser(),
        )

    def conversation(self, session: PolicySession, text: str = "") -> list[Message]:
        """Return a conversation with one observation, begun as the session wants it."""
        own = (Message(Role.USER, "Find the goal."), Message(Role.ASSISTANT, "OK."))
        begun = [*session.begin(own)]
        assert begun and begun[-1].role is Role.ASSISTANT, "begin() ends with the assistant's words"
        return [*begun, Message(Role.USER, text or self.observation)]

    # ------------------------------------------------------------------------ promises

    def test_it_says_who_it_is(self) -> None:
        """Name and identity are texts without secrets, and stay the same."""

        async def check(policy: Policy) -> None:
            assert policy.name, "a policy has a name"
            identity = policy.identity()
            assert all(isinstance(part, str) for pair in identity.items() for part in pair)
            assert redact(dict(identity)) == dict(identity), "identity() holds what looks secret"
            assert policy.identity() == identity
            assert isinstance(policy.pricing, Pricing)

        self._with_started(check)

    def test_a_reply_has_what_a_record_needs(self) -> None:
        """Replies of a growing conversation can be recorded, and so can their tokens."""

        async def check(policy: Policy) -> None:
            session = policy.open(self.context())
            messages = self.conversation(session)
            for turn in range(_TURNS):
                reply = await session.reply(messages, turn=turn, seed=turn)
                _require_sound(reply, policy)
                if reply.finish_reason is FinishReason.CONTEXT:
                    break
                messages.append(Message(Role.ASSISTANT, reply.text, sampled=True))
                messages.append(Message(Role.USER, f"{self.observation} Turn {turn + 1}."))
            TokenLedger.from_protos(session.token_segments())
            await session.close()

        self._with_started(check)

    def test_the_same_seed_gives_the_same_reply(self) -> None:
        """What is seeded draws from the seed alone."""
        if not self.seeded:
            raise unittest.SkipTest("it does not say that it is seeded")

        async def check(policy: Policy) -> None:
            first = [await self._reply(policy, number=0, seed=seed) for seed in range(_COMPARED)]
            again = [await self._reply(policy, number=1, seed=seed) for seed in range(_COMPARED)]
            told = [[reply.text for reply in replies] for replies in (first, again)]
            assert told[0] == told[1], f"one seed gave different replies: {told!r:.300}"

        self._with_started(check)

    def test_a_hundred_sessions_reply_at_once(self) -> None:
        """Sessions are independent of each other."""

        async def check(policy: Policy) -> None:
            texts = [f"{self.observation} You are number {number}." for number in range(_AT_ONCE)]
            asked = [self._reply(policy, number=n, text=text) for n, text in enumerate(texts)]
            replies = await asyncio.gather(*asked)
            for reply in replies:
                _require_sound(reply, policy)
            for number in range(_COMPARED if self.seeded else 0):
                alone = await self._reply(policy, number=number, text=texts[number])
                assert alone.text == replies[number].text, "it says something else among others"

        self._with_started(check)

    def test_a_cancelled_reply_harms_no_other(self) -> None:
        """A reply may be cancelled at any time; its session closes, and others go on."""

        async def check(policy: Policy) -> None:
            for switches in (0, 1, 5, 50):
                session = policy.open(self.context(number=switches))
                waiting = session.reply(self.conversation(session), turn=0, seed=0)
                task = asyncio.ensure_future(waiting)
                for _ in range(switches):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await session.close()
            _require_sound(await self._reply(policy, number=99), policy)

        self._with_started(check)

    def test_nothing_is_left_when_it_is_closed(self) -> None:
        """A closed policy has no tasks and no threads, whatever its sessions did."""
        threads = set(threading.enumerate())

        async def check() -> None:
            tasks = asyncio.all_tasks()
            async with self.made() as policy:
                await policy.start()
                await policy.open(self.context()).close()
                await self._reply(policy)
                await policy.close()
                started = asyncio.all_tasks() - tasks
            deadline = time.monotonic() + _SETTLE_SECONDS
            while (left := started & asyncio.all_tasks()) and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            assert not left, f"tasks are left behind: {left}"

        asyncio.run(check())
        for thread in set(threading.enumerate()) - threads:
            thread.join(_SETTLE_SECONDS)
            assert not thread.is_alive(), f"{thread.name} is left behind"

    def test_it_can_be_closed_without_having_been_started(self) -> None:
        """What comes to nothing before the start can still be released."""

        async def check() -> None:
            async with self.made() as policy:
                await policy.close()

        asyncio.run(check())

    def test_strange_conversations_are_answered_or_refused(self) -> None:
        """Whatever an environment shows gets a reply or a PolicyError, and harms no other."""

        async def check(policy: Policy) -> None:
            for number, text in enumerate(_STRANGE):
                with suppress(PolicyError):
                    _require_sound(await self._reply(policy, number=number, text=text), policy)
            _require_sound(await self._reply(policy), policy)

        self._with_started(check)

    def test_requests_are_accounted_for(self) -> None:
        """A policy with a server that works reports no outage, and counts its requests."""

        async def check(policy: Policy) -> None:
            await self._reply(policy)
            outage, counts = policy.outage(), policy.request_counts()
            assert outage is None, "its server works"
            assert counts is None or counts.answered + counts.from_cache > 0

        self._with_started(check)

    def test_a_failure_is_a_typed_error(self) -> None:
        """What fails behind a policy is an error of `agent_runtime.errors`."""

        async def check() -> None:
            async with self.failing() as policy:
                failure = await _failure_of(policy, self._reply)
                assert isinstance(failure, AgentRuntimeError), f"it raised {failure!r}"
                assert failure.reason and str(failure), "an error says what happened"
                assert isinstance(policy.outage(), Outage | None)
                assert isinstance(policy.request_counts(), RequestCounts | None)
                await policy.close()

        asyncio.run(check())

    # ------------------------------------------------------------------------ playing

    def _with_started(self, check: Callable[[Policy], Awaitable[None]]) -> None:
        async def run() -> None:
            async with self.made() as policy:
                await policy.start()
                try:
                    await check(policy)
                finally:
                    await policy.close()

        asyncio.run(run())

    async def _reply(
        self, policy: Policy, *, number: int = 0, text: str = "", seed: int = 0
    ) -> Completion:
        session = policy.open(self.context(number))
        try:
            return await session.reply(self.conversation(session, text), turn=0, seed=seed)
        finally:
            await session.close()


def flaws(reply: Completion, pricing: Pricing) -> Iterator[str]:
    """Yield what of a reply cannot be recorded, or is not as the policy promised."""
    values: Mapping[str, Any] = {name: getattr(reply, name) for name in _COUNTS}
    if not isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"its text is {reply.text!r:.40}"
    if not isinstance(reply.finish_reason, FinishReason):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"its finish_reason is {reply.finish_reason!r:.40}"
    for name, count in values.items():
        # A boolean is an int for Python, but no count.
        if type(count) is not int or not 0 <= count <= LARGEST_COUNT:
            yield f"its {name} is {count!r:.40}"
    cost = reply.cost_usd
    if cost is not None and not (math.isfinite(cost) and cost >= 0):
        yield f"its cost is {cost!r:.40}"
    if cost is None and pricing is Pricing.PRICED:
        yield "its cost is unknown, although the policy says that it knows its prices"
    if not isinstance(reply.policy_version, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"its policy_version is {reply.policy_version!r:.40}"
    for reason, times in reply.repeats.items():
        if not reason or times < 0:
            yield f"its repeats say {reason!r}: {times!r}"


def _require_sound(reply: Completion, policy: Policy) -> None:
    __tracebackhide__ = True
    assert isinstance(reply, Completion), f"reply() gave {reply!r:.60}, no Completion"  # pyright: ignore[reportUnnecessaryIsInstance]
    found = list(flaws(reply, policy.pricing))
    assert not found, "; ".join(found)


async def _failure_of(
    policy: Policy, reply: Callable[[Policy], Awaitable[Completion]]
) -> BaseException | None:
    try:
        await policy.start()
        await reply(policy)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is examined
        return error
    return None


class _Adviser:
    """The part of an environment's episode that scripted policies use."""

    async def consult(self, advisor: environment_pb2.Advisor, seed: int) -> environment_pb2.Advice:
        return environment_pb2.Advice(action="look", reply=f"Thought:\n{seed}\n\nAction:\nlook")
