"""Concurrency: the limit adapts to pressure, stays within bounds, and recovers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.concurrency import (
    ConcurrencyController,
    ConcurrencyRules,
    Load,
    Signal,
)

CALM = Load(running=100)
WAITING = Load(running=100, waiting=80)

loads = st.builds(
    Load,
    running=st.integers(0, 20_000),
    waiting=st.integers(0, 20_000),
    kv_usage=st.floats(0, 1),
    retracted=st.integers(0, 3),
)


@given(st.lists(st.one_of(st.none(), st.tuples(loads, st.integers(0, 40_000))), max_size=60))
def test_the_limit_stays_within_its_bounds(history: list[tuple[Load, int] | None]) -> None:
    rules = ConcurrencyRules(floor=4, start=64, ceiling=1000)
    controller = ConcurrencyController(rules)
    for event in history:
        limit = controller.refused(64) if event is None else controller.observe(*event)
        assert rules.floor <= limit <= rules.ceiling


@given(loads, st.integers(0, 40_000), st.lists(st.tuples(loads, st.integers(0, 40_000))))
def test_only_pressure_lowers_the_limit_and_only_a_used_limit_grows(
    load: Load, in_flight: int, before: list[tuple[Load, int]]
) -> None:
    controller = ConcurrencyController()
    for event in before:
        controller.observe(*event)
    old = controller.limit
    new = controller.observe(load, in_flight)
    calm = load.waiting <= 16 and load.kv_usage <= 0.95 and not load.retracted
    if calm:
        assert new >= old
    if new > old:
        assert in_flight >= 0.9 * old


@given(st.integers(1, 3000))
def test_it_settles_near_what_an_engine_can_run(capacity: int) -> None:
    """An engine that runs `capacity` requests; everything above waits there."""
    controller = ConcurrencyController()
    limits: list[int] = []
    for _ in range(400):
        in_flight = controller.limit
        running = min(in_flight, capacity)
        limits.append(
            controller.observe(Load(running=running, waiting=in_flight - running), in_flight)
        )
    allowed = capacity + max(16, 0.25 * capacity)
    assert max(limits[200:]) <= allowed + 32
    assert min(limits[200:]) >= max(8, 0.7 * allowed) - 1


def test_it_doubles_until_the_first_pressure_and_grows_by_steps_afterwards() -> None:
    controller = ConcurrencyController()
    assert [controller.observe(CALM, 10_000) for _ in range(3)] == [2048, 4096, 8192]
    assert controller.observe(WAITING, 8192) == 5734
    assert controller.observe(CALM, 5734) == 5766


def test_one_burst_is_punished_once() -> None:
    controller = ConcurrencyController()
    assert [controller.refused(20) for _ in range(5)] == [1024] * 4 + [716]
    # Those that were in flight by then are of the same burst.
    assert {controller.refused(20) for _ in range(20)} == {716}
    assert [controller.refused(20) for _ in range(5)] == [716] * 4 + [501]


HOSTED = ConcurrencyRules(start=64, ceiling=256, slow=4.0)


def test_a_server_that_refuses_now_and_then_keeps_its_requests() -> None:
    controller = ConcurrencyController(HOSTED)
    for number in range(20_000):
        if number % 30 == 0:
            controller.refused(controller.limit)
        controller.answered(0.2, controller.limit)
    assert controller.limit == 256


@pytest.mark.parametrize("most", [16, 64, 256])
def test_refusals_by_chance_do_not_lower_the_limit(most: int) -> None:
    controller = ConcurrencyController(HOSTED.within(most))
    chance = random.Random(1)
    for _ in range(10_000):
        before = controller.limit
        if chance.random() < 0.03:
            assert controller.refused(before) == before
        else:
            controller.answered(0.2, before)


def test_a_server_that_refuses_a_fifth_is_given_fewer_requests() -> None:
    controller = ConcurrencyController(HOSTED)
    chance = random.Random(1)
    for _ in range(2000):
        if chance.random() < 0.2:
            controller.refused(controller.limit)
        else:
            controller.answered(0.2, controller.limit)
    assert controller.limit < 64


def test_answers_that_take_far_longer_than_usual_lower_the_limit() -> None:
    controller = ConcurrencyController(HOSTED)
    for _ in range(64):
        controller.answered(0.2, 64)
    assert (controller.limit, controller.signal) == (128, Signal.USED)
    for _ in range(128):
        controller.answered(1.0, 128)
    assert (controller.limit, controller.signal) == (89, Signal.SLOW)


@pytest.mark.parametrize(("before", "after"), [(0.1, 0.1), (0.1, 10.0), (10.0, 0.1)])
def test_tasks_with_longer_answers_do_not_keep_the_limit_low(before: float, after: float) -> None:
    controller = ConcurrencyController(HOSTED)
    for seconds in (before, after):
        for _ in range(30_000):
            controller.answered(seconds, controller.limit)
    assert controller.limit == 256


@pytest.mark.parametrize("capacity", [8, 60, 200])
def test_it_settles_near_what_a_server_without_a_queue_takes(capacity: int) -> None:
    """A server that refuses at once what it cannot run."""
    controller, limits = ConcurrencyController(HOSTED), list[int]()
    for _ in range(400):
        limit = controller.limit
        for _ in range(min(limit, capacity)):
            controller.answered(0.2, limit)
        for _ in range(limit - capacity):
            controller.refused(limit)
        limits.append(controller.limit)
    assert max(limits[200:]) <= 1.3 * capacity + 64
    assert min(limits[200:]) >= min(256, capacity) * 0.5 - 1


@pytest.mark.parametrize(
    "pressed", [WAITING, Load(running=9, kv_usage=0.99), Load(running=9, retracted=1)]
)
def test_each_sign_of_pressure_counts(pressed: Load) -> None:
    assert ConcurrencyController().observe(pressed, 1024) < 1024


@pytest.mark.parametrize("wrong", [{"floor": 0}, {"factor": 1.0}, {"start": 1}, {"step": 0}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        ConcurrencyRules(**wrong)  # type: ignore[arg-type]


def test_the_signal_says_why_the_limit_is_what_it_is() -> None:
    controller = ConcurrencyController()
    assert controller.signal is Signal.NOTHING
    for load, in_flight, signal in (
        (CALM, 1, Signal.UNUSED),
        (CALM, 10_000, Signal.USED),
        (WAITING, 10_000, Signal.WAITING),
        (Load(running=9, kv_usage=0.99), 9, Signal.KV_CACHE),
        (Load(running=9, retracted=1), 9, Signal.RETRACTED),
    ):
        controller.observe(load, in_flight)
        assert controller.signal is signal
    for _ in range(5):
        controller.refused(9)
    assert controller.signal is Signal.REFUSED
