import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.env.v1 import types_pb2
from orchestrator.errors import UsageError
from orchestrator.records import EpisodeKey
from orchestrator.retry import FailedAttempt, Failure, Retry, RetryBudget, RetryPolicy
from orchestrator.scheduler import (
    EnvironmentPlan,
    Limits,
    RoundRobin,
    Scheduler,
    work_items,
)

FAILURE = Failure(fault=types_pb2.FAULT_INFRASTRUCTURE, reason="CONNECTION_LOST")
FATAL = Failure(fault=types_pb2.FAULT_POLICY, reason="POLICY_REJECTED", retriable=False)


def keys_of(**sizes: int) -> list[EpisodeKey]:
    plans = [
        EnvironmentPlan(environment=name, item_ids=[f"{name}_{at}" for at in range(size)])
        for name, size in sizes.items()
    ]
    return work_items(plans, policies=["p"])


def scheduler_of(keys, *, total=4, retries=None, **options) -> Scheduler:
    limits = options.pop("limits", Limits(total=total))
    return Scheduler(keys, limits=limits, retries=retries or lavish(), **options)


def lavish(max_attempts: int = 3) -> RetryBudget:
    return RetryBudget(RetryPolicy(max_attempts=max_attempts, budget=math.inf))


def start_all(scheduler: Scheduler, now: float = 0.0) -> list:
    started = []
    while (assignment := scheduler.start(now)) is not None:
        started.append(assignment)
    return started


class Simulation:
    """Drives a scheduler with drawn outcomes and keeps its own account of what happened."""

    def __init__(self, scheduler: Scheduler, data) -> None:
        self.scheduler = scheduler
        self.data = data
        self.now = 0.0
        self.running: list = []
        self.order: list = []
        self.succeeded: Counter = Counter()
        self.attempts: Counter = Counter()

    def run(self, *, until_drained_after: int | None = None) -> None:
        while not self.scheduler.done:
            if until_drained_after is not None and len(self.order) >= until_drained_after:
                self.scheduler.drain()
            self.start()
            if self.running:
                self.finish_one()
            elif not self.scheduler.done:
                self.now = max(self.now, self.scheduler.next_wake())

    def start(self) -> None:
        while (assignment := self.scheduler.start(self.now)) is not None:
            self.running.append(assignment)
            self.order.append(assignment)
            self.check_limits()

    def check_limits(self) -> None:
        limits = self.scheduler.limits
        assert len(self.running) == self.scheduler.running <= limits.total
        by_environment = Counter(it.key.environment for it in self.running)
        for name, limit in limits.per_environment.items():
            assert by_environment[name] <= limit
        assert len({it.key for it in self.running}) == len(self.running)

    def finish_one(self) -> None:
        assignment = self.running.pop(self.data.draw(st.integers(0, len(self.running) - 1)))
        outcome = self.data.draw(st.sampled_from(["ok", "ok", "fail", "fatal", "cancel"]))
        self.now += 0.1
        if outcome == "cancel":
            self.scheduler.cancelled(assignment.key)
            return
        self.attempts[assignment.key] += 1
        assert self.attempts[assignment.key] == assignment.attempt
        if outcome == "ok":
            self.succeeded[assignment.key] += 1
            self.scheduler.succeeded(assignment.key)
        else:
            failure = FAILURE if outcome == "fail" else FATAL
            self.scheduler.failed(assignment.key, failure, self.now)


SIZES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 8), min_size=1)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 5), st.integers(1, 3), st.data())
def test_every_episode_finishes_exactly_once_or_is_reported_failed(
    sizes, total, max_attempts, data
):
    keys = keys_of(**sizes)
    limits = Limits(total=total, per_environment={"a": 1, "b": 2})
    scheduler = scheduler_of(keys, limits=limits, retries=lavish(max_attempts))
    simulation = Simulation(scheduler, data)
    simulation.run()
    failed = set(scheduler.failed_keys)
    assert set(simulation.succeeded) | failed == set(keys)
    assert not set(simulation.succeeded) & failed
    assert all(times == 1 for times in simulation.succeeded.values())
    assert all(times <= max_attempts for times in simulation.attempts.values())
    assert scheduler.finished == len(simulation.succeeded)
    assert scheduler.pending == scheduler.running == 0
    for key, given_up in scheduler.failed_keys.items():
        assert given_up.attempt == simulation.attempts[key]


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 5), st.integers(0, 10), st.data())
def test_a_resumed_run_plays_exactly_what_is_left(sizes, total, stop_after, data):
    keys = keys_of(**sizes)
    first = scheduler_of(keys, total=total)
    before = Simulation(first, data)
    before.run(until_drained_after=stop_after)
    recorded = {
        key: FailedAttempt(times, FAILURE)
        for key, times in before.attempts.items()
        if key not in before.succeeded and key not in first.failed_keys
    } | {key: FailedAttempt(it.attempt, it.failure) for key, it in first.failed_keys.items()}
    second = scheduler_of(keys, total=total, finished=set(before.succeeded), failed=recorded)
    after = Simulation(second, data)
    after.attempts.update({key: it.attempt for key, it in recorded.items()})
    after.run()
    assert not set(before.succeeded) & set(after.succeeded)
    assert set(before.succeeded) | set(after.succeeded) | set(second.failed_keys) == set(keys)
    assert second.finished == len(before.succeeded) + len(after.succeeded)
    assert all(
        times - (recorded[key].attempt if key in recorded else 0) <= 3
        for key, times in after.attempts.items()
    )


@settings(max_examples=30, deadline=None)
@given(SIZES, st.lists(st.booleans(), max_size=40))
def test_the_same_events_give_the_same_order(sizes, outcomes):
    def play() -> list:
        scheduler = scheduler_of(keys_of(**sizes), total=3)
        order, now, fates = [], 0.0, iter(outcomes)
        while not scheduler.done:
            started = start_all(scheduler, now)
            order += started
            for assignment in started:
                if next(fates, True):
                    scheduler.succeeded(assignment.key)
                else:
                    scheduler.failed(assignment.key, FAILURE, now)
            now = max(now, scheduler.next_wake() or now)
        return order

    assert play() == play()


def test_samples_of_an_item_stand_together():
    plans = [EnvironmentPlan(environment="a", item_ids=["a_2", "a_1"], samples=2)]
    keys = work_items(plans, policies=["p", "q"])
    assert [(it.item_id, it.policy, it.sample) for it in keys[:5]] == [
        ("a_2", "p", 0),
        ("a_2", "p", 1),
        ("a_2", "q", 0),
        ("a_2", "q", 1),
        ("a_1", "p", 0),
    ]


def test_an_item_planned_twice_is_refused_by_name():
    plan = EnvironmentPlan(environment="a", item_ids=["a_1", "a_1"])
    with pytest.raises(UsageError, match="a_1"):
        work_items([plan], policies=["p"])


@given(st.lists(st.frozensets(st.sampled_from("abcd"), min_size=1), max_size=100))
def test_turns_are_taken_in_order_among_those_that_are_ready(rounds):
    turns, last = RoundRobin("abcd"), 0
    for ready in rounds:
        name = turns.choose(ready)
        steps = [("abcd"[(last + step) % 4]) for step in range(1, 5)]
        assert name == next(it for it in steps if it in ready)
        last = "abcd".index(name)
    assert turns.choose(()) is None


def test_environments_take_turns_and_an_empty_one_is_left_out():
    scheduler = scheduler_of(keys_of(a=1, b=3, c=3), total=7)
    order = [it.key.environment for it in start_all(scheduler)]
    assert Counter(order[:3]) == Counter("abc")
    assert Counter(order[3:]) == Counter("bbcc")
    assert order[3] != order[4]


def test_no_slot_stays_free_while_an_environment_has_room():
    scheduler = scheduler_of(
        keys_of(fast=50, slow=50), limits=Limits(total=8, per_environment={"slow": 1})
    )
    assert len(start_all(scheduler)) == 8


def test_a_drained_run_starts_nothing_and_keeps_the_rest_pending():
    scheduler = scheduler_of(keys_of(a=10), total=2)
    first, second = start_all(scheduler)
    scheduler.drain()
    scheduler.succeeded(first.key)
    assert scheduler.start(0.0) is None
    assert not scheduler.done
    scheduler.failed(second.key, FAILURE, 0.0)
    assert scheduler.done
    assert scheduler.pending == 9


def test_a_delayed_retry_waits_and_then_goes_first():
    scheduler = scheduler_of(keys_of(a=3), total=1)
    first = scheduler.start(0.0)
    delay = scheduler.failed(first.key, FAILURE, 0.0).delay
    assert scheduler.next_wake() == delay
    second = scheduler.start(0.0)
    assert second.key != first.key
    scheduler.succeeded(second.key)
    again = scheduler.start(delay)
    assert (again.key, again.attempt) == (first.key, 2)


def test_limits_may_change_while_the_run_goes_on():
    scheduler = scheduler_of(keys_of(a=10), total=1)
    assert len(start_all(scheduler)) == 1
    scheduler.limits = Limits(total=4)
    assert len(start_all(scheduler)) == 3


def test_reporting_what_does_not_run_is_an_error():
    scheduler = scheduler_of(keys_of(a=1))
    with pytest.raises(ValueError, match="not running"):
        scheduler.succeeded(EpisodeKey("a", "a_0", 0, "p"))


def test_a_resumed_run_plays_failed_keys_anew_and_goes_on_counting_their_attempts():
    keys = keys_of(a=3)
    failed = {keys[0]: FailedAttempt(3, FAILURE), keys[1]: FailedAttempt(1, FATAL)}
    scheduler = scheduler_of(keys, failed=failed)
    assert [it.attempt for it in start_all(scheduler)] == [4, 2, 1]
    assert scheduler.failed_keys == {}
    assert isinstance(scheduler.failed(keys[0], FAILURE, 0.0), Retry)


def test_an_endless_run_takes_further_keys_and_ends_by_draining():
    first, second = keys_of(maze=1)[0], keys_of(echo=2)
    scheduler = scheduler_of([], endless=True)
    assert scheduler.start(0.0) is None and not scheduler.done
    scheduler.add([first])
    scheduler.add(second, finished={second[1]})
    # Environments take turns, also those that came later.
    assert {it.key for it in start_all(scheduler)} == {first, second[0]}
    for key in (first, second[0]):
        assert scheduler.is_running(key)
        scheduler.succeeded(key)
    assert scheduler.finished == 3 and not scheduler.done
    scheduler.drain()
    assert scheduler.done


def test_a_key_that_failed_before_goes_on_with_its_attempts_where_it_is_added():
    (key,) = keys_of(maze=1)
    scheduler = scheduler_of([], endless=True)
    scheduler.add([key], failed={key: FailedAttempt(3, FAILURE)})
    assert [it.attempt for it in start_all(scheduler)] == [4]
