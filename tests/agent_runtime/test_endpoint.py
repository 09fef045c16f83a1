"""Limits of an HTTP server's client: how many requests are in flight, and in which order."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.endpoint import Endpoint


def limited(concurrency: int) -> Endpoint:
    return Endpoint("http://127.0.0.1:1", timeout=1.0, concurrency=concurrency)


async def settle() -> None:
    """Let tasks run until each of them waits."""
    for _ in range(5):
        await asyncio.sleep(0)


async def hold(endpoint: Endpoint, order: list[int], number: int, release: asyncio.Event) -> None:
    async with endpoint._within_limits():
        order.append(number)
        await release.wait()


async def test_requests_follow_a_changing_limit_in_the_order_of_arrival() -> None:
    endpoint, order, release = limited(2), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(endpoint, order, n, release)) for n in range(6)]
    await settle()
    assert (order, endpoint.in_flight, endpoint.waiting) == ([0, 1], 2, 4)
    endpoint.concurrency_limit = 4
    await settle()
    assert order == [0, 1, 2, 3]
    endpoint.concurrency_limit = 1
    release.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]
    assert (endpoint.in_flight, endpoint.waiting) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("acxl"), st.integers(0, 9)), max_size=40))
def test_no_place_is_lost_or_made_by_cancellation(script: list[tuple[str, int]]) -> None:
    async def run() -> None:
        endpoint, release = limited(2), [asyncio.Event() for _ in range(10)]
        tasks: dict[int, asyncio.Task[None]] = {}
        for action, number in script:
            if action == "a" and number not in tasks:
                tasks[number] = asyncio.create_task(hold(endpoint, [], number, release[number]))
            elif action == "c" and number in tasks:
                tasks[number].cancel()
            elif action == "x":
                release[number].set()
            else:
                endpoint.concurrency_limit = 1 + number % 4
            if number % 3:
                await asyncio.sleep(0)
            assert endpoint.in_flight >= 0
        for event in release:
            event.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert (endpoint.in_flight, endpoint.waiting) == (0, 0)

    asyncio.run(run())
