"""What a flaky model server costs a whole run, in told time: how long, and how many requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final

from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.errors import PolicyOverloaded, PolicyUnavailable, Trouble
from agent_runtime.request_retry import RequestRetry
from agent_runtime.request_sender import RequestSender
from tests.kit.told_time import run_in_told_time

ROUNDS: Final = (1, 6, 10, 10, 12, 12, 15, 15, 15, 20, 20, 30, 30, 30)
"""Of the environments that `benchmark.policy.flaky` plays."""
RULES: Final = ConcurrencyRules(start=256, ceiling=4096, slow=4.0)


async def answer(chance: random.Random) -> str:
    await asyncio.sleep(chance.uniform(0.05, 0.3))
    return "reply"


async def answer_as_hosted_servers_do(chance: random.Random) -> str:
    drawn = chance.random()
    if drawn < 0.03:
        raise PolicyOverloaded("later", retry_after=1.0)
    if drawn < 0.04:
        await asyncio.Event().wait()
    reply = await answer(chance)
    if drawn < 0.06:
        raise PolicyUnavailable("oops", trouble=Trouble.ERROR)
    if drawn < 0.08:
        raise PolicyUnavailable("no JSON", trouble=Trouble.INVALID)
    return reply


async def play(
    server: Callable[[random.Random], Awaitable[str]], seed: int
) -> tuple[float, RequestSender]:
    """Play 140 episodes, 64 at once, with 16 requests in flight; returns the seconds."""
    chance = random.Random(seed)
    sender = RequestSender("server", RequestRetry(), ConcurrencyController(RULES.within(16)))
    live = asyncio.Semaphore(64)

    async def episode(rounds: int) -> None:
        async with live:
            for _ in range(rounds):
                await sender.send(lambda: server(chance))

    async with asyncio.TaskGroup() as group:
        for rounds in ROUNDS * 10:
            group.create_task(episode(rounds))
    return asyncio.get_running_loop().time(), sender


def test_a_run_beside_a_flaky_server_takes_a_quarter_longer_at_most() -> None:
    random.seed(0)  # of the jitter
    calm, _ = run_in_told_time(play(answer, 0))
    runs = [run_in_told_time(play(answer_as_hosted_servers_do, seed)) for seed in range(3)]
    assert median(seconds for seconds, _ in runs) <= 1.25 * calm
    for _, sender in runs:
        counts = sender.counts
        assert counts.answered == 10 * sum(ROUNDS)
        assert counts.given_up == 0
        assert counts.resent["timeout"] < 0.02 * counts.answered


def test_thousands_of_episodes_do_not_hammer_a_server_that_refuses() -> None:
    random.seed(0)
    taking, refused = 0, 0

    async def ask() -> str:
        nonlocal taking, refused
        if taking >= 40:
            refused += 1
            raise PolicyOverloaded("later", retry_after=1.0)
        taking += 1
        await asyncio.sleep(0.2)
        taking -= 1
        return "reply"

    async def play_all() -> RequestSender:
        sender = RequestSender("server", RequestRetry(), ConcurrencyController(RULES))
        await asyncio.gather(*(sender.send(ask) for _ in range(4000)))
        return sender

    sender = run_in_told_time(play_all())
    assert sender.counts.answered == 4000
    assert sender.counts.resent == {"refused": refused}
    assert refused < 0.2 * 4000
    assert 20 <= sender.concurrency_limit <= 60
