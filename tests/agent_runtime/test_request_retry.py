"""Whether a request is sent again, and whether its server is down: pure decisions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import Trouble
from agent_runtime.request_retry import (
    Breaker,
    Overdue,
    Patience,
    Repeat,
    RequestCounts,
    RequestRetries,
    RequestRetry,
    Stop,
)

troubles = st.sampled_from(Trouble)
shares = st.floats(0, 1)
waits = st.one_of(st.none(), st.floats(0, 300))
COSTLY = {Trouble.BROKEN, Trouble.TIMEOUT, Trouble.INVALID, Trouble.STALE}


@given(st.lists(st.tuples(troubles, st.floats(0, 700), waits, shares), max_size=60))
def test_a_request_ends_within_its_time_its_sends_and_the_budget(
    failures: list[tuple[Trouble, float, float | None, float]],
) -> None:
    draws = iter([share for *_, share in failures])
    policy = RequestRetry(budget=20, refill=0)
    retries = RequestRetries(policy, draw=lambda: next(draws))
    seen = dict.fromkeys(Trouble, 0)
    elapsed, repeats = 0.0, 0
    for trouble, took, retry_after, _ in failures:
        seen[trouble] += 1
        elapsed += took if repeats else 0.0
        decision = retries.decide(seen, elapsed=elapsed, retry_after=retry_after)
        if isinstance(decision, Stop):
            break
        repeats += 1
        assert decision.delay >= min(retry_after or 0.0, policy.seconds - elapsed)
        elapsed += decision.delay
        assert elapsed <= policy.seconds
    assert repeats <= 20
    assert sum(seen[trouble] for trouble in COSTLY) <= policy.sends


@given(st.integers(1, 10**6), shares)
def test_pauses_have_full_jitter_below_a_doubling_bound(repeats: int, share: float) -> None:
    policy = RequestRetry(seconds=1e9)
    decision = RequestRetries(policy, draw=lambda: share).decide(
        {Trouble.REFUSED: repeats}, elapsed=0, retry_after=None
    )
    assert isinstance(decision, Repeat)
    assert decision.delay == share * min(30.0, 0.5 * 2.0 ** min(repeats - 1, 10))


def test_the_budget_ends_repeats_and_answers_refill_it() -> None:
    retries = RequestRetries(RequestRetry(budget=2, refill=0.5))

    def decide() -> Repeat | Stop:
        return retries.decide({Trouble.ERROR: 1}, elapsed=0, retry_after=None)

    assert [isinstance(decide(), Repeat) for _ in range(3)] == [True, True, False]
    assert decide() is Stop.BUDGET
    retries.answered()
    assert decide() is Stop.BUDGET
    retries.answered()
    assert isinstance(decide(), Repeat)
    for _ in range(100):
        retries.answered()
    assert retries.tokens == 2


def test_a_budget_without_an_end_is_one() -> None:
    assert RequestRetry(budget=math.inf) == RequestRetry(budget=None)
    retries = RequestRetries(RequestRetry(budget=math.inf))
    for _ in range(1000):
        decision = retries.decide({Trouble.ERROR: 1}, elapsed=0, retry_after=None)
        assert isinstance(decision, Repeat)


@pytest.mark.parametrize(
    "values",
    [
        {"sends": 0},
        {"seconds": -1},
        {"seconds": math.inf},
        {"budget": -1},
        {"budget": math.nan},
        {"max_delay": math.nan},
        {"hurried": 1.5},
    ],
)
def test_policies_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RequestRetry(**values)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the breaker


def failing(breaker: Breaker, times: int, now: float = 0.0, *, probe: bool = False) -> list[bool]:
    return [
        breaker.failed(Trouble.DOWN, "no connection", now, probe=probe, retry_after=None)
        for _ in range(times)
    ]


def test_a_server_is_down_after_failures_in_a_row_and_says_so_once() -> None:
    breaker = Breaker(RequestRetry())
    assert failing(breaker, 2) == [False, False]
    breaker.answered()
    assert failing(breaker, 6) == [False, False, True, False, False, False]
    assert breaker.open
    assert breaker.blocked(0.0) > 0


def test_refusals_now_and_then_are_no_outage() -> None:
    breaker = Breaker(RequestRetry())
    for _ in range(100):
        for _ in range(7):
            breaker.failed(Trouble.REFUSED, "later", 0.0, probe=False, retry_after=9.0)
        breaker.answered()
    assert not breaker.open


def test_one_request_at_a_time_asks_whether_the_server_is_back() -> None:
    breaker = Breaker(RequestRetry())
    failing(breaker, 3)
    now = breaker.blocked(0.0)
    assert breaker.blocked(now) == 0
    assert breaker.enter()
    assert breaker.blocked(now) == math.inf
    failing(breaker, 1, now, probe=True)
    assert 0 < breaker.blocked(now) < math.inf
    now += breaker.blocked(now)
    assert breaker.enter()
    breaker.left()  # cancelled: another one may ask
    assert breaker.blocked(now) == 0
    assert breaker.enter()
    assert breaker.answered()
    assert breaker.blocked(now) == 0
    assert not breaker.enter()


def test_a_wish_to_be_left_alone_holds_for_all_requests() -> None:
    breaker = Breaker(RequestRetry())
    for _ in range(8):
        breaker.failed(Trouble.REFUSED, "later", 0.0, probe=False, retry_after=77.0)
    assert breaker.blocked(0.0) == 77.0


@given(st.lists(st.tuples(st.sampled_from("fasl"), troubles, st.floats(0, 40)), max_size=80))
def test_a_breaker_never_stays_blocked_for_ever(
    events: list[tuple[str, Trouble, float]],
) -> None:
    policy = RequestRetry()
    breaker, now, probing = Breaker(policy), 0.0, False
    for what, trouble, seconds in events:
        now += seconds
        if what == "s" and not breaker.blocked(now):
            probing = breaker.enter() or probing
        elif what == "f":
            breaker.failed(trouble, "no", now, probe=probing, retry_after=None)
            probing = False
        elif what == "a":
            breaker.answered()
            probing = False
        elif what == "l" and probing:
            breaker.left()
            probing = False
        blocked = breaker.blocked(now)
        assert blocked == math.inf if probing and breaker.open else blocked <= policy.max_delay


def test_patience_is_far_longer_than_all_answers_and_grows_with_each_disappointment() -> None:
    patience = Patience()
    for _ in range(199):
        patience.answered(0.3)
    assert patience.seconds(0) is None
    patience.answered(0.3)
    assert [patience.seconds(timeouts) for timeouts in range(3)] == [10.0, 20.0, 40.0]
    patience.answered(30.0)
    assert patience.seconds(0) == 240.0
    for _ in range(200):
        patience.answered(2.0)
    assert patience.seconds(0) == 16.0


def patient(seconds: float) -> Patience:
    patience = Patience()
    for _ in range(200):
        patience.answered(seconds)
    return patience


def test_an_answer_is_late_after_twice_the_slowest_of_those_before_it() -> None:
    assert Patience().late(0) is None
    assert [patient(0.3).late(timeouts) for timeouts in range(4)] == [0.6, 1.2, 2.4, None]
    assert patient(0.01).late(0) == 0.5, "a pause of this process is no sign of a lost request"
    assert patient(90.0).late(0) == 180.0, "models that think for long are given their time"


@pytest.mark.parametrize(
    ("waited", "timeouts", "pauses", "hurry", "verdict"),
    [
        (0.0, 0, 0, True, 0.6),
        (0.5, 0, 0, True, pytest.approx(0.1)),
        (0.6, 0, 0, True, Overdue.LATE),
        (0.6, 0, 0, False, 1.0),
        (0.6, 0, 1, True, 1.0),
        (0.6, 1, 0, True, pytest.approx(0.6)),
        (1.2, 1, 0, True, Overdue.LATE),
        (9.8, 0, 0, False, pytest.approx(0.2)),
        (10.0, 0, 0, True, Overdue.SILENT),
        (10.0, 3, 0, True, 1.0),
        (80.0, 3, 0, True, Overdue.SILENT),
    ],
)
def test_a_request_is_looked_at_until_it_is_late_or_given_up(
    waited: float, timeouts: int, pauses: int, hurry: bool, verdict: Overdue | float
) -> None:
    look = patient(0.3).look(waited, timeouts=timeouts, pauses=pauses, hurry=lambda: hurry)
    assert look == verdict


def test_a_request_that_was_sent_before_anything_was_known_is_late_by_what_is_known_now() -> None:
    patience = Patience()
    assert patience.look(5.0, timeouts=0, pauses=0, hurry=lambda: True) == 1.0
    for _ in range(200):
        patience.answered(0.3)
    assert patience.look(6.0, timeouts=0, pauses=0, hurry=lambda: True) is Overdue.LATE


def test_few_requests_are_hurried_at_once_and_a_small_share_of_answers_in_the_long_run() -> None:
    retries = RequestRetries(RequestRetry(hurried=0.02))
    assert sum(retries.hurry({}) for _ in range(256)) == 16
    assert not retries.hurry({})
    hurried = 0
    for _ in range(10_000):
        retries.answered()
        hurried += retries.hurry({})
    assert hurried == pytest.approx(200, abs=1)


def test_hurry_keeps_to_the_number_of_sends_and_to_the_budget() -> None:
    assert not RequestRetries(RequestRetry(hurried=0)).hurry({})
    assert not RequestRetries(RequestRetry(budget=0)).hurry({})
    assert not RequestRetries(RequestRetry(sends=1)).hurry({})
    retries = RequestRetries(RequestRetry(sends=3))
    assert retries.hurry({Trouble.TIMEOUT: 1, Trouble.REFUSED: 9})
    assert not retries.hurry({Trouble.TIMEOUT: 1, Trouble.BROKEN: 1})


def test_counts_are_said_in_a_line() -> None:
    counts = RequestCounts(answered=1200)
    assert counts.describe() == "1,200 requests answered"
    counts.resent.update({"refused": 3, "invalid": 2})
    assert counts.describe().endswith("5 sent again (refused 3, invalid 2), 2 replies thrown away")
