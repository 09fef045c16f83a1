"""Who holds which episode: properties of the rule, whatever workers, clocks and messages do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.env.v1 import types_pb2
from orchestrator.leases import LeasePolicy, Leases
from orchestrator.records import EpisodeKey
from orchestrator.retry import Failure, RetryBudget, RetryPolicy
from orchestrator.scheduler import Assignment, Limits, Scheduler

POLICY = LeasePolicy(seconds=10.0, fence=20.0)
FAILURE = Failure(fault=types_pb2.FAULT_INFRASTRUCTURE)


def assignment(number: int, attempt: int = 1) -> Assignment:
    return Assignment(EpisodeKey("maze", f"maze_{number}", 0, "expert"), attempt)


def test_what_one_holds_nobody_else_gets_until_it_is_lost_and_released() -> None:
    leases = Leases(POLICY)
    leases.join("a", 0.0)
    leases.join("b", 0.0)
    leases.grant("a", [assignment(1), assignment(2)])
    with pytest.raises(ValueError, match="a holds"):
        leases.grant("b", [assignment(1)])
    assert leases.renew("b", 9.0) and leases.silent(10.0) == ["a"]
    assert not leases.renew("a", 11.0) and not leases.takes("a")
    with pytest.raises(ValueError, match="a holds"):
        leases.grant("b", [assignment(1)])
    # What it recorded before anybody was told counts as its own.
    assert leases.settle("a", assignment(2))
    assert leases.release("a") == [assignment(1)]
    leases.grant("b", [assignment(1)])
    assert not leases.settle("a", assignment(1)) and leases.settle("b", assignment(1))


def test_a_lost_worker_is_waited_for_no_longer_than_the_fence() -> None:
    leases = Leases(POLICY)
    leases.join("a", 0.0)
    assert leases.lose("a", 5.0) and not leases.lose("a", 6.0)
    assert leases.overdue(24.9) == [] and leases.overdue(25.0) == ["a"]
    assert leases.next_wake() == 25.0


def test_another_attempt_is_another_lease() -> None:
    leases = Leases(POLICY)
    leases.join("a", 0.0)
    leases.grant("a", [assignment(1)])
    assert not leases.settle("a", assignment(1, attempt=2))
    assert leases.held("a") == {assignment(1)}


def test_who_retires_gets_nothing_more_and_leaves_when_it_holds_nothing() -> None:
    leases = Leases(POLICY)
    leases.join("a", 0.0)
    leases.grant("a", [assignment(1)])
    leases.retire("a")
    leases.retire("a")
    assert leases.renew("a", 1.0) and not leases.takes("a")
    assert leases.at_work == 0 and not leases.retired("a")
    with pytest.raises(ValueError, match="holds 1"):
        leases.leave("a")
    assert leases.settle("a", assignment(1)) and leases.retired("a")
    leases.leave("a")
    assert leases.at_work == 0
    with pytest.raises(ValueError, match="before"):
        leases.join("a", 2.0)


class Worker:
    """A worker that may die, be cut off, or be held up, with the store that it writes."""

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.runs = True
        self.ends = now + POLICY.seconds
        """Of its lease, as it reckons."""
        self.holds: list[Assignment] = []
        self.store: dict[EpisodeKey, tuple[int, bool]] = {}
        """Attempt, and whether it failed."""
        self.unreported: list[tuple[Assignment, bool]] = []

    def play(self, *, fails: bool) -> None:
        if self.holds:
            done = self.holds.pop(0)
            self.store[done.key] = (done.attempt, fails)
            self.unreported.append((done, fails))


class Run:
    """A driver's part, by the pure rules alone, under a clock of its own."""

    def __init__(self, keys: int) -> None:
        self.now = 0.0
        self.keys = [assignment(number).key for number in range(keys)]
        retries = RetryBudget(RetryPolicy(max_attempts=100, budget=math.inf, first_delay=1.0))
        self.scheduler = Scheduler(self.keys, limits=Limits(total=10_000), retries=retries)
        self.leases = Leases(POLICY)
        self.workers: dict[str, Worker] = {}
        self.late = 0
        """Records of workers that went on after the fence."""

    def hire(self) -> None:
        worker = Worker(f"w{len(self.workers)}", self.now)
        self.workers[worker.name] = worker
        self.leases.join(worker.name, self.now)

    def exchange(self, worker: Worker, room: int, *, takes_seconds: float) -> None:
        """Ask a worker: its answer was on its way for a while."""
        grants: list[Assignment] = []
        while self.leases.takes(worker.name) and len(grants) < room:
            started = self.scheduler.start(self.now)
            if started is None:
                break
            grants.append(started)
        if grants:
            self.leases.grant(worker.name, grants)
        if not worker.runs:
            return  # the message is lost, and so are the grants
        worker.holds += grants
        told, worker.unreported = worker.unreported, []
        worker.ends = self.now + POLICY.seconds
        self.pass_time(takes_seconds)
        self.leases.renew(worker.name, self.now)
        self.settle(worker.name, told)

    def settle(self, name: str, told: list[tuple[Assignment, bool]]) -> None:
        for done, failed in told:
            if not self.leases.settle(name, done):
                continue
            if failed:
                self.scheduler.failed(done.key, FAILURE, self.now)
            else:
                self.scheduler.succeeded(done.key)

    def pass_time(self, seconds: float) -> None:
        """Workers whose own lease runs out meanwhile end themselves."""
        self.now += seconds
        for worker in self.workers.values():
            if worker.ends <= self.now:
                worker.runs = False

    def look(self) -> None:
        """Fence whoever is silent: release when it is certain that it writes no more."""
        self.leases.silent(self.now)
        overdue = self.leases.overdue(self.now)
        for name in tuple(self.leases.lost):
            worker = self.workers[name]
            if worker.runs and name not in overdue:
                continue
            held = self.leases.held(name)
            on_record = [
                (it, worker.store[it.key][1])
                for it in held
                if worker.store.get(it.key, (0, False))[0] == it.attempt
            ]
            self.settle(name, on_record)
            for given_back in self.leases.release(name):
                self.scheduler.cancelled(given_back.key)

    def check(self) -> None:
        held = Counter(it.key for name in self.workers for it in self.leases.held(name))
        assert all(count == 1 for count in held.values())
        assert held.total() == self.scheduler.running
        assert self.leases.at_work == len(self.leases.workers)
        # A key that counts as finished is on record somewhere.
        assert self.scheduler.finished <= len(self.finished())

    def finished(self) -> Counter[EpisodeKey]:
        """Finished records of each key in the union."""
        return Counter(
            key
            for worker in self.workers.values()
            for key, (_attempt, failed) in worker.store.items()
            if not failed
        )

    def follow(
        self, events: list[tuple[str, int, float]]
    ) -> Iterator[tuple[str, int, float, Worker]]:
        """Yield each event with the worker that it is about; look and check after each."""
        self.hire()
        for what, number, seconds in events:
            yield what, number, seconds, self.workers[f"w{number % len(self.workers)}"]
            self.look()
            self.check()

    def finish(self) -> None:
        """Let one worker play the rest."""
        self.hire()
        last = list(self.workers.values())[-1]
        for _ in range(2_000):
            if self.scheduler.done:
                return
            self.exchange(last, 5, takes_seconds=0.5)
            while last.holds:
                last.play(fails=False)
            self.pass_time(1.0)
            last.ends = self.now + POLICY.seconds
            self.look()
        raise AssertionError("the run does not end")


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["hire", "exchange", "play", "play", "fail", "die", "lose", "pass"]),
        st.integers(0, 5),
        st.floats(0.0, 12.0),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(keys=st.integers(1, 30), events=EVENTS)
def test_whatever_dies_every_key_has_exactly_one_finished_record(
    keys: int, events: list[tuple[str, int, float]]
) -> None:
    run = Run(keys)
    for what, number, seconds, worker in run.follow(events):
        match what:
            case "hire":
                run.hire()
            case "exchange":
                run.exchange(worker, number + 1, takes_seconds=seconds / 4)
            case "play" | "fail" if worker.runs:
                worker.play(fails=what == "fail")
            case "die":
                worker.runs = False
            case "lose":  # the driver gives it up, and it may go on until its lease ends
                run.leases.lose(worker.name, run.now)
            case _:
                run.pass_time(seconds)
    run.finish()
    run.check()
    assert run.finished() == Counter(run.keys)


@settings(max_examples=100, deadline=None)
@given(keys=st.integers(1, 20), events=EVENTS)
def test_a_worker_that_writes_after_its_fence_doubles_a_record_and_no_count(
    keys: int, events: list[tuple[str, int, float]]
) -> None:
    run = Run(keys)
    for what, number, seconds, worker in run.follow(events):
        worker.ends = math.inf  # it does not keep to its lease
        match what:
            case "exchange":
                run.exchange(worker, number + 1, takes_seconds=seconds / 4)
            case "play" | "fail":
                worker.play(fails=what == "fail")
            case "lose":
                run.leases.lose(worker.name, run.now)
                run.hire()
            case _:
                run.pass_time(2 * seconds)
    run.finish()
    assert run.scheduler.finished == keys
    assert set(run.finished()) == set(run.keys)


def test_a_lease_and_its_fence_make_sense() -> None:
    for seconds, fence in ((0.0, 1.0), (2.0, 1.0), (1.0, math.inf)):
        with pytest.raises(ValueError, match="fence"):
            LeasePolicy(seconds=seconds, fence=fence)
