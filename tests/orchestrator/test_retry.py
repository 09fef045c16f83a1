import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.env.v1 import types_pb2
from orchestrator.retry import Failure, GiveUp, Retry, RetryBudget, RetryPolicy

FAILURE = Failure(fault=types_pb2.FAULT_POLICY, reason="POLICY_UNAVAILABLE")


@given(st.integers(min_value=1, max_value=12))
def test_no_episode_gets_more_attempts_than_configured(max_attempts):
    budget = RetryBudget(RetryPolicy(max_attempts=max_attempts, budget=math.inf))
    attempts = 1
    while isinstance(budget.decide("key", attempts=attempts, failure=FAILURE), Retry):
        attempts += 1
    assert attempts == max_attempts


def test_what_would_fail_again_is_not_retried():
    budget = RetryBudget(RetryPolicy())
    rejected = Failure(fault=types_pb2.FAULT_POLICY, retriable=False)
    our_own = Failure(fault=types_pb2.FAULT_AGENT)
    assert budget.decide("key", attempts=1, failure=rejected) is GiveUp.NOT_RETRIABLE
    assert budget.decide("key", attempts=1, failure=our_own) is GiveUp.NOT_RETRIABLE
    assert budget.tokens == RetryPolicy().budget


def test_the_run_s_budget_ends_retries_and_success_refills_it():
    budget = RetryBudget(RetryPolicy(budget=2, refill=0.5))
    decisions = [budget.decide(key, attempts=1, failure=FAILURE) for key in range(3)]
    assert [isinstance(it, Retry) for it in decisions] == [True, True, False]
    assert decisions[2] is GiveUp.BUDGET_EXHAUSTED
    budget.succeeded()
    assert budget.decide("key", attempts=1, failure=FAILURE) is GiveUp.BUDGET_EXHAUSTED
    budget.succeeded()
    assert isinstance(budget.decide("key", attempts=1, failure=FAILURE), Retry)
    for _ in range(100):
        budget.succeeded()
    assert budget.tokens == 2


@given(st.integers(min_value=1, max_value=10**6), st.text(), st.floats(0, 1))
def test_delays_grow_within_their_bounds(attempts, key, jitter):
    policy = RetryPolicy(max_attempts=10**7, jitter=jitter, first_delay=1, max_delay=60)
    decision = RetryBudget(policy).decide(key, attempts=attempts, failure=FAILURE)
    assert isinstance(decision, Retry)
    full = min(60.0, 2.0 ** min(attempts - 1, 10))
    assert full * (1 - jitter) - 1e-9 <= decision.delay <= full


def test_delays_are_reproducible_and_spread():
    def delays(seed):
        budget = RetryBudget(RetryPolicy(), seed=seed)
        return [budget.decide(key, attempts=1, failure=FAILURE).delay for key in range(20)]

    assert delays(1) == delays(1)
    assert delays(1) != delays(2)
    assert len(set(delays(1))) == 20


def test_a_server_s_wish_to_wait_is_respected():
    overloaded = Failure(fault=types_pb2.FAULT_INFRASTRUCTURE, retry_after=90.0)
    assert RetryBudget(RetryPolicy()).decide("key", attempts=1, failure=overloaded).delay == 90.0


def test_a_server_that_asks_for_years_is_asked_again_after_minutes():
    overloaded = Failure(fault=types_pb2.FAULT_INFRASTRUCTURE, retry_after=1e8)
    assert RetryBudget(RetryPolicy()).decide("key", attempts=1, failure=overloaded).delay == 300.0


@pytest.mark.parametrize(
    "values", [{"max_attempts": 0}, {"jitter": 1.5}, {"budget": -1}, {"max_delay": -1}]
)
def test_policies_that_make_no_sense_are_refused(values):
    with pytest.raises(ValueError):
        RetryPolicy(**values)
