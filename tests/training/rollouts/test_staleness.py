from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.rollouts.staleness import GroupAdmission


def admission_of(**changes) -> GroupAdmission:
    return GroupAdmission(**{"batch": 2, "staleness": 1, "steps": 10, **changes})


def begin_all(admission: GroupAdmission) -> list[int]:
    begun = []
    while (number := admission.begin()) is not None:
        begun.append(number)
    return begun


class Simulation:
    """Plays and learns in a drawn order, and keeps its own account of what happened."""

    def __init__(
        self, choices: list[int], *, batch: int, staleness: int, steps: int, in_order: bool
    ) -> None:
        self.batch, self.staleness, self.steps = batch, staleness, steps
        self.admission = GroupAdmission(batch=batch, staleness=staleness, steps=steps)
        self.choices = iter(choices)
        self.in_order = in_order
        self.began: dict[int, int] = {}
        """The version of the weights when each group began, which is that of its oldest token."""
        self.newest: dict[int, int] = {}
        self.taken: list[tuple[int, ...]] = []
        self.learning = False

    def choose(self, options):
        """Return one of some, as drawn; the first where nothing is drawn any more."""
        return options[next(self.choices, 0) % len(options)]

    def run(self) -> None:
        while len(self.taken) < self.steps or self.learning:
            self.begin()
            actions = [self.finish] if self.admission.playing else []
            if self.learning:
                actions.append(self.learn)
            elif len(self.admission.ready) >= self.batch:
                actions.append(self.take)
            # Whatever is dropped: there is always something to do.
            assert actions
            self.choose(actions)()
            if self.choose(range(10)) == 9 and not self.learning:
                self.cut_off()

    def begin(self) -> None:
        for number in begin_all(self.admission):
            assert number not in self.began
            self.began[number] = self.admission.version
        kept = len(self.began) - len(self.admission.dropped)
        assert kept <= (self.admission.version + self.staleness + 1) * self.batch
        assert kept <= self.steps * self.batch
        waiting = len(self.admission.playing) + len(self.admission.ready)
        assert waiting <= (self.staleness + 1) * self.batch

    def finish(self) -> None:
        playing = sorted(self.admission.playing)
        number = playing[0] if self.in_order else self.choose(playing)
        newest: int | None = self.admission.version
        if not self.in_order:
            of_its_time = range(self.began[number], self.admission.version + 1)
            newest = self.choose([*reversed(of_its_time), None])
        self.admission.finish(number, newest)
        if newest is not None:
            self.newest[number] = newest

    def take(self) -> None:
        numbers = self.admission.take()
        assert numbers is not None and len(numbers) == self.batch
        earlier = {it for step in self.taken for it in step}
        assert earlier.isdisjoint(numbers) and self.admission.dropped.isdisjoint(numbers)
        # Something of each is fresh enough to be learned from.
        assert all(
            self.admission.version - self.newest[number] <= self.staleness for number in numbers
        )
        assert all(number < other for number in numbers for other in self.admission.ready)
        self.taken.append(numbers)
        self.learning = True

    def learn(self) -> None:
        before = self.admission.version
        self.admission.advance()
        assert self.admission.version == before + 1 == len(self.taken)
        self.learning = False

    def cut_off(self) -> None:
        """Go on as a process would that finds the groups on disk."""
        before = self.admission
        self.admission = GroupAdmission(
            batch=self.batch,
            staleness=self.staleness,
            steps=self.steps,
            taken=[number for step in self.taken for number in step],
            dropped=before.dropped,
            begun=len(self.began),
        )
        for number in before.ready:
            self.admission.finish(number, self.newest[number])
        assert self.admission.version == before.version
        assert self.admission.playing == before.playing
        assert self.admission.ready == before.ready
        assert self.admission.capacity == before.capacity


drawn = {
    "choices": st.lists(st.integers(0, 10**6), max_size=200),
    "batch": st.integers(1, 4),
    "staleness": st.integers(0, 3),
    "steps": st.integers(1, 6),
}


@given(**drawn)
@settings(max_examples=200, deadline=None)
def test_every_step_gets_groups_that_no_other_gets_however_they_end(
    choices, batch, staleness, steps
):
    simulation = Simulation(choices, batch=batch, staleness=staleness, steps=steps, in_order=False)
    simulation.run()
    assert len(simulation.taken) == steps
    assert begin_all(simulation.admission) == []


@given(**drawn)
@settings(max_examples=100, deadline=None)
def test_groups_that_end_in_their_order_have_no_token_that_is_too_old(
    choices, batch, staleness, steps
):
    simulation = Simulation(choices, batch=batch, staleness=staleness, steps=steps, in_order=True)
    simulation.run()
    for step, numbers in enumerate(simulation.taken):
        assert numbers == tuple(range(step * batch, (step + 1) * batch))
        assert all(step - simulation.began[number] <= staleness for number in numbers)
    assert not simulation.admission.dropped


def test_without_staleness_a_step_begins_when_the_one_before_was_learned():
    admission = admission_of(staleness=0)
    assert begin_all(admission) == [0, 1]
    admission.finish(1, 0)
    assert admission.take() is None
    admission.finish(0, 0)
    assert admission.take() == (0, 1)
    assert begin_all(admission) == []
    admission.advance()
    assert begin_all(admission) == [2, 3]


def test_a_group_whose_newest_token_is_too_old_is_replaced():
    admission = admission_of()
    assert begin_all(admission) == [0, 1, 2, 3]
    for number in (1, 2):
        admission.finish(number, 0)
    assert admission.take() == (1, 2)
    admission.advance()
    assert begin_all(admission) == [4, 5]
    for number in (4, 5):
        admission.finish(number, 1)
    assert admission.take() == (4, 5)
    admission.advance()
    assert begin_all(admission) == [6, 7]
    # Every reply of group 3 was sampled by the first weights, which two steps have changed.
    admission.finish(3, 0)
    assert admission.dropped == {3} and admission.ready == ()
    assert begin_all(admission) == [8]


def test_a_group_without_episodes_is_replaced():
    admission = admission_of()
    begin_all(admission)
    admission.finish(0, None)
    assert admission.dropped == {0}
    assert begin_all(admission) == [4]


def test_what_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="whole steps"):
        admission_of(taken=[0])
    with pytest.raises(ValueError, match="none of them was dropped"):
        admission_of(taken=[0, 1], dropped=[1])
    with pytest.raises(ValueError, match="staleness at least 0"):
        admission_of(staleness=-1)
    admission = admission_of()
    with pytest.raises(ValueError, match="no step was taken"):
        admission.advance()
    with pytest.raises(ValueError, match="not being played"):
        admission.finish(0, 0)
