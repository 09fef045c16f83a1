"""How requests get to a server: places and their order, outages, budgets, rates."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime import request_retry
from agent_runtime.concurrency import ConcurrencyController, ConcurrencyRules
from agent_runtime.errors import (
    PolicyError,
    PolicyLost,
    PolicyOverloaded,
    PolicyRejected,
    PolicyUnavailable,
    Trouble,
)
from agent_runtime.request_retry import RequestRetry
from agent_runtime.request_sender import RequestSender

QUICK = RequestRetry(seconds=20, first_delay=0.005, max_delay=0.02)


def limited(concurrency: int, retry: RequestRetry = QUICK, **limits: int) -> RequestSender:
    rules = ConcurrencyRules(floor=1, start=concurrency, ceiling=max(64, concurrency))
    return RequestSender("http://server", retry, ConcurrencyController(rules), **limits)


class Server:
    """Answers, or fails as it is told."""

    def __init__(self) -> None:
        self.error: PolicyError | None = None
        self.asked = 0
        self.asking = 0
        self.most_asking = 0

    async def ask(self) -> str:
        self.asked += 1
        self.asking += 1
        self.most_asking = max(self.most_asking, self.asking)
        await asyncio.sleep(0.001)
        self.asking -= 1
        if self.error is not None:
            raise self.error
        return "reply"


async def test_a_server_that_goes_away_is_waited_for_and_not_hammered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender, server = limited(50), Server()
    server.error = PolicyLost("no connection")
    calls = [asyncio.create_task(sender.send(server.ask)) for _ in range(200)]
    await asyncio.sleep(0.3)
    while (outage := sender.outage()) is None:  # a probe is due now and then
        await asyncio.sleep(0.001)
    assert (outage.reason, outage.over) == ("no connection", False)
    # Those in flight when it went away, then one probe after the other.
    assert server.asked < 50 + 60
    server.error, asked = None, server.asked
    assert await asyncio.gather(*calls) == ["reply"] * 200
    assert sender.outage() is None
    assert server.asked - asked in (199, 200), "a probe may have been on its way"
    story = [record.getMessage() for record in caplog.records]
    assert sum("model server is down" in line for line in story) == 1
    assert sum("model server is back" in line for line in story) == 1


async def test_a_server_that_stays_away_fails_requests_with_its_last_words() -> None:
    soon = RequestRetry(seconds=0.3, first_delay=0.01, max_delay=0.05)
    sender, server = limited(50, soon), Server()
    server.error = PolicyLost("HTTP 503: we are closed")
    calls = [asyncio.create_task(sender.send(server.ask)) for _ in range(100)]
    async with asyncio.timeout(20):
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(error, PolicyUnavailable) for error in errors)
    assert all("we are closed" in str(error) for error in errors)


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.TIMEOUT])
async def test_a_server_that_cuts_or_keeps_every_request_for_a_while_is_waited_for(
    trouble: Trouble,
) -> None:
    sender, server = limited(1), Server()
    server.error = PolicyLost("it broke", trouble=trouble)
    call = asyncio.create_task(sender.send(server.ask))
    while server.asked < 10:
        server.error = PolicyLost("it broke", trouble=trouble)
        await asyncio.sleep(0.001)
    server.error = None
    assert await call == "reply"


@pytest.mark.parametrize("requests", [1, 5])
async def test_failures_that_one_request_alone_meets_may_be_its_own(requests: int) -> None:
    soon = RequestRetry(seconds=0.3, first_delay=0.01, max_delay=0.05)
    sender, server = limited(50, soon), Server()
    server.error = PolicyUnavailable("HTTP 500: oops", trouble=Trouble.ERROR)
    calls = [asyncio.create_task(sender.send(server.ask)) for _ in range(requests)]
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert all("HTTP 500: oops" in str(error) for error in errors)
    outage = sender.outage()
    assert (outage is not None and outage.over) is (requests > 1)


async def test_a_cancelled_probe_leaves_its_turn_to_another() -> None:
    sender, server = limited(4), Server()
    server.error = PolicyLost("no connection")
    calls = [asyncio.create_task(sender.send(server.ask)) for _ in range(4)]
    await asyncio.sleep(0.05)
    for call in calls[:3]:
        call.cancel()
    server.error = None
    async with asyncio.timeout(20):
        assert await calls[3] == "reply"


async def test_one_request_that_is_rejected_does_not_make_the_server_down() -> None:
    sender, server = limited(4), Server()
    server.error = PolicyRejected("no such model")
    for _ in range(20):
        with pytest.raises(PolicyRejected):
            await sender.send(server.ask)
    assert sender.outage() is None
    assert server.asked == 20


async def test_a_pausing_request_gives_its_place_to_others() -> None:
    sender, server = limited(1, RequestRetry(first_delay=0)), Server()
    refusal = PolicyOverloaded("later", retry_after=0.3)
    refused = asyncio.Event()

    async def refuse_once() -> str:
        if refused.is_set():
            return "at last"
        refused.set()
        raise refusal

    repeats: Counter[str] = Counter()
    pausing = asyncio.create_task(sender.send(refuse_once, repeats=repeats))
    await refused.wait()
    started = time.monotonic()
    assert await sender.send(server.ask) == "reply"
    assert not pausing.done()
    assert await pausing == "at last"
    assert time.monotonic() - started >= 0.25
    assert repeats == {"refused": 1}
    assert (sender.counts.answered, sender.counts.wasted) == (2, 0)


async def test_refusals_lower_the_number_of_requests_in_flight() -> None:
    sender, server = limited(32), Server()
    allowed = 8

    async def ask() -> str:
        if server.asking >= allowed:
            raise PolicyOverloaded("too many")
        return await server.ask()

    await asyncio.gather(*(sender.send(ask) for _ in range(600)))
    assert server.most_asking <= allowed
    assert sender.concurrency_limit < 32


async def test_a_request_that_a_server_forgets_is_sent_again_long_before_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_retry, "_PATIENCE_LEAST", 0.3)
    sender, server = limited(32), Server()
    await asyncio.gather(*(sender.send(server.ask) for _ in range(200)))
    forgotten, repeats = asyncio.Event(), Counter[str]()

    async def forget_once() -> str:
        if not forgotten.is_set():
            forgotten.set()
            await asyncio.Event().wait()
        return await server.ask()

    async with asyncio.timeout(20):
        assert await sender.send(forget_once, repeats=repeats) == "reply"
    assert repeats == {"timeout": 1}


class LosingServer(Server):
    """Never answers as many requests as it is told to lose."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = 0
        self.to_lose = 0

    async def ask(self) -> str:
        if self.lost < self.to_lose:
            self.lost += 1
            await asyncio.Event().wait()
        return await super().ask()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are late after an instant, and given up only after longer than any test takes."""
    monkeypatch.setattr(request_retry, "_LATE_LEAST", 0.3)
    monkeypatch.setattr(request_retry, "_LATE_FACTOR", 0.0)
    monkeypatch.setattr(request_retry, "_PATIENCE_LEAST", 600.0)


@pytest.mark.usefixtures("impatient")
async def test_late_requests_are_sent_again_in_their_places_and_the_server_is_not_down() -> None:
    sender, server = limited(8), LosingServer()
    await asyncio.gather(*(sender.send(server.ask) for _ in range(200)))
    server.to_lose, repeats = 8, Counter[str]()
    async with asyncio.timeout(20):
        calls = [asyncio.create_task(sender.send(server.ask, repeats=repeats)) for _ in range(8)]
        while server.lost < 8:
            await asyncio.sleep(0.001)
        behind = [asyncio.create_task(sender.send(server.ask)) for _ in range(8)]
        done, _ = await asyncio.wait([*calls, *behind], return_when=asyncio.FIRST_COMPLETED)
        assert done <= set(calls), "a hurried request was sent behind those that came later"
        await asyncio.gather(*calls, *behind)
    assert repeats["timeout"] >= 8, "more where this machine itself is slow"
    assert sender.counts.resent.keys() == {"timeout"}
    assert sender.outage() is None


@pytest.mark.usefixtures("impatient")
async def test_what_was_sent_before_anything_was_known_is_late_by_what_is_known_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_retry, "_LOOK", 0.01)
    sender, server = limited(8), LosingServer()
    server.to_lose = 1
    async with asyncio.timeout(20):
        replies = await asyncio.gather(*(sender.send(server.ask) for _ in range(300)))
    assert replies == ["reply"] * 300


@pytest.mark.usefixtures("impatient")
async def test_a_server_that_is_slow_for_a_moment_is_asked_few_times_more() -> None:
    sender, server = limited(50), Server()
    await asyncio.gather(*(sender.send(server.ask) for _ in range(200)))
    quick, asked = asyncio.Event(), 0

    async def ask_slowly() -> str:
        nonlocal asked
        asked += 1
        await quick.wait()
        return await server.ask()

    calls = [asyncio.create_task(sender.send(ask_slowly)) for _ in range(50)]
    while asked < 50 + 16:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.2)
    assert (asked, sender.in_flight) == (50 + 16, 50)
    quick.set()
    assert await asyncio.gather(*calls) == ["reply"] * 50


async def test_tokens_per_minute_bound_what_is_asked_for() -> None:
    sender, server = limited(32, tokens_per_minute=6000), Server()
    calls = [asyncio.create_task(sender.send(server.ask, tokens=2000)) for _ in range(5)]
    await asyncio.wait(calls[:3])
    await asyncio.sleep(0.2)
    assert server.asked == 3
    for call in calls[3:]:
        call.cancel()
    await asyncio.wait(calls)


async def test_requests_that_make_no_sense_again_and_again_are_sent_a_few_times_only() -> None:
    sender, server = limited(4), Server()

    async def ask() -> str:
        await server.ask()  # others are answered meanwhile
        raise PolicyLost("it broke", trouble=Trouble.BROKEN)

    for _ in range(3):
        await sender.send(server.ask)
    poison = asyncio.create_task(sender.send(ask))
    while not poison.done():
        await sender.send(server.ask)
    with pytest.raises(PolicyLost, match=r"it broke .*4 answers.*broken"):
        await poison


async def settle() -> None:
    """Let tasks run until each of them waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def hold(
    sender: RequestSender, order: list[int], number: int, release: asyncio.Event
) -> None:
    async with sender._place():
        order.append(number)
        await release.wait()


async def test_requests_follow_a_changing_limit_in_the_order_of_arrival() -> None:
    sender, order, release = limited(2), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(sender, order, n, release)) for n in range(6)]
    await settle()
    assert (order, sender.in_flight, sender.waiting) == ([0, 1], 2, 4)
    sender.set_limit(4)
    await settle()
    assert order == [0, 1, 2, 3]
    sender.set_limit(1)
    release.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]
    assert (sender.in_flight, sender.waiting) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("acxl"), st.integers(0, 9)), max_size=40))
def test_no_place_is_lost_or_made_by_cancellation(script: list[tuple[str, int]]) -> None:
    async def run() -> None:
        sender, release = limited(2), [asyncio.Event() for _ in range(10)]
        tasks: dict[int, asyncio.Task[None]] = {}
        for action, number in script:
            if action == "a" and number not in tasks:
                tasks[number] = asyncio.create_task(hold(sender, [], number, release[number]))
            elif action == "c" and number in tasks:
                tasks[number].cancel()
            elif action == "x":
                release[number].set()
            else:
                sender.set_limit(1 + number % 4)
            if number % 3:
                await asyncio.sleep(0)
            assert sender.in_flight >= 0
        for event in release:
            event.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert (sender.in_flight, sender.waiting) == (0, 0)

    asyncio.run(run())
