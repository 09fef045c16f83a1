"""Concurrency: the limit adapts to pressure, stays within bounds, and recovers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.sglang.concurrency import (
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
        limit = controller.refused() if event is None else controller.observe(*event)
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
    assert controller.refused() == 716
    assert [controller.refused() for _ in range(3)] == [716, 716, 716]
    assert controller.refused() == 501


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
    controller.refused()
    assert controller.signal is Signal.REFUSED
