"""Admission: the limit adapts to pressure, stays within bounds, and recovers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sglang.admission import Admission, AdmissionRules, Load
from agent_runtime.slots import Slots

CALM = Load(running=100)
WAITING = Load(running=100, waiting=80)

loads = st.builds(
    Load,
    running=st.integers(0, 20_000),
    waiting=st.integers(0, 20_000),
    cache=st.floats(0, 1),
    retracted=st.integers(0, 3),
)


@given(st.lists(st.one_of(st.none(), st.tuples(loads, st.integers(0, 40_000))), max_size=60))
def test_the_limit_stays_within_its_bounds(history: list[tuple[Load, int] | None]) -> None:
    rules = AdmissionRules(floor=4, start=64, ceiling=1000)
    admission = Admission(rules)
    for event in history:
        limit = admission.refused() if event is None else admission.observe(*event)
        assert rules.floor <= limit <= rules.ceiling


@given(loads, st.integers(0, 40_000), st.lists(st.tuples(loads, st.integers(0, 40_000))))
def test_only_pressure_lowers_the_limit_and_only_a_used_limit_grows(
    load: Load, in_flight: int, before: list[tuple[Load, int]]
) -> None:
    admission = Admission()
    for event in before:
        admission.observe(*event)
    old = admission.limit
    new = admission.observe(load, in_flight)
    calm = load.waiting <= 16 and load.cache <= 0.95 and not load.retracted
    if calm:
        assert new >= old
    if new > old:
        assert in_flight >= 0.9 * old


@given(st.integers(1, 3000))
def test_it_settles_near_what_an_engine_can_run(capacity: int) -> None:
    """An engine that runs `capacity` requests; everything above waits there."""
    admission = Admission()
    limits: list[int] = []
    for _ in range(400):
        in_flight = admission.limit
        running = min(in_flight, capacity)
        limits.append(
            admission.observe(Load(running=running, waiting=in_flight - running), in_flight)
        )
    allowed = capacity + max(16, 0.25 * capacity)
    assert max(limits[200:]) <= allowed + 32
    assert min(limits[200:]) >= max(8, 0.7 * allowed) - 1


def test_it_doubles_until_the_first_pressure_and_grows_by_steps_afterwards() -> None:
    admission = Admission()
    assert [admission.observe(CALM, 10_000) for _ in range(3)] == [2048, 4096, 8192]
    assert admission.observe(WAITING, 8192) == 5734
    assert admission.observe(CALM, 5734) == 5766


def test_one_burst_is_punished_once() -> None:
    admission = Admission()
    assert admission.refused() == 716
    assert [admission.refused() for _ in range(3)] == [716, 716, 716]
    assert admission.refused() == 501


@pytest.mark.parametrize(
    "pressed", [WAITING, Load(running=9, cache=0.99), Load(running=9, retracted=1)]
)
def test_each_sign_of_pressure_counts(pressed: Load) -> None:
    assert Admission().observe(pressed, 1024) < 1024


@pytest.mark.parametrize("wrong", [{"floor": 0}, {"factor": 1.0}, {"start": 1}, {"step": 0}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        AdmissionRules(**wrong)  # type: ignore[arg-type]


async def hold(slots: Slots, order: list[int], number: int, release: asyncio.Event) -> None:
    async with slots:
        order.append(number)
        await release.wait()


async def test_slots_follow_a_changing_limit_in_the_order_of_arrival() -> None:
    slots, order, release = Slots(2), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(slots, order, n, release)) for n in range(6)]
    await asyncio.sleep(0)
    assert (order, slots.used, slots.waiting) == ([0, 1], 2, 4)
    slots.limit = 4
    await asyncio.sleep(0)
    assert order == [0, 1, 2, 3]
    slots.limit = 1
    release.set()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4, 5]
    assert (slots.used, slots.waiting) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("acxl"), st.integers(0, 9)), max_size=40))
def test_no_slot_is_lost_or_made_by_cancellation(script: list[tuple[str, int]]) -> None:
    async def run() -> None:
        slots, release = Slots(2), [asyncio.Event() for _ in range(10)]
        tasks: dict[int, asyncio.Task[None]] = {}
        for action, number in script:
            if action == "a" and number not in tasks:
                tasks[number] = asyncio.create_task(hold(slots, [], number, release[number]))
            elif action == "c" and number in tasks:
                tasks[number].cancel()
            elif action == "x":
                release[number].set()
            else:
                slots.limit = 1 + number % 4
            if number % 3:
                await asyncio.sleep(0)
            assert slots.used >= 0
        for event in release:
            event.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert (slots.used, slots.waiting) == (0, 0)

    asyncio.run(run())
