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
        self,
        choices: list[int],
        *,
        batch: int,
        staleness: int,
        steps: int,
        in_order: bool,
        replacements: int = 0,
    ) -> None:
        self.batch, self.staleness, self.steps = batch, staleness, steps
        self.sizes = {"batch": batch, "staleness": staleness, "steps": steps}
        self.sizes["replacements"] = replacements
        self.admission = GroupAdmission(**self.sizes)
        self.choices = iter(choices)
        self.in_order = in_order
        self.began: dict[int, int] = {}
        """The version of the weights when each group began, which is that of its oldest token."""
        self.newest: dict[int, int] = {}
        self.agree: dict[int, bool] = {}
        self.taken: list[tuple[int, ...]] = []
        self.beside: list[tuple[int, ...]] = []
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
        waiting = len(self.admission.playing) + len(self.admission.ready)
        kept = len({it for step in self.taken for it in step}) + waiting
        assert kept <= (self.admission.version + self.staleness + 1) * self.batch
        assert kept <= self.steps * self.batch
        assert waiting <= (self.staleness + 1) * self.batch

    def finish(self) -> None:
        playing = sorted(self.admission.playing)
        number = playing[0] if self.in_order else self.choose(playing)
        newest: int | None = self.admission.version
        if not self.in_order:
            of_its_time = range(self.began[number], self.admission.version + 1)
            newest = self.choose([*reversed(of_its_time), None])
        self.agree[number] = self.choose([False, True])
        self.admission.finish(number, newest, agrees=self.agree[number])
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
        beside = self.admission.beside
        assert len(beside) <= self.sizes["replacements"]
        assert all(self.agree[number] for number in beside)
        read = earlier.union(*self.beside)
        assert read.isdisjoint(beside) and set(numbers).isdisjoint(beside)
        self.taken.append(numbers)
        self.beside.append(beside)
        self.learning = True

    def learn(self) -> None:
        before = self.admission.version
        self.admission.advance()
        assert self.admission.version == before + 1 == len(self.taken)
        self.learning = False

    def cut_off(self) -> None:
        """Go on as a process would that finds the groups on disk."""
        before = self.admission
        passed = before.dropped.union(*self.beside)
        taken = {number for step in self.taken for number in step}
        self.admission = GroupAdmission(
            **self.sizes, taken=taken, dropped=passed, begun=len(self.began)
        )
        # In any order: those that were replaced, and that no step was given, among them.
        for number in sorted(set(self.began) - passed - taken - before.playing):
            agrees = self.agree[number] and number not in before.ready
            self.admission.finish(number, self.newest[number], agrees=agrees)
        assert self.admission.version == before.version
        assert self.admission.playing == before.playing
        assert self.admission.ready == before.ready
        assert self.admission.capacity == before.capacity


drawn = st.fixed_dictionaries(
    {
        "choices": st.lists(st.integers(0, 10**6), max_size=200),
        "batch": st.integers(1, 4),
        "staleness": st.integers(0, 3),
        "steps": st.integers(1, 6),
        "replacements": st.integers(0, 5),
    }
)


@given(drawn)
@settings(max_examples=200, deadline=None)
def test_every_step_gets_groups_that_no_other_gets_however_they_end(drawn):
    simulation = Simulation(**drawn, in_order=False)
    simulation.run()
    assert len(simulation.taken) == drawn["steps"]
    assert begin_all(simulation.admission) == []


@given(drawn)
@settings(max_examples=100, deadline=None)
def test_groups_that_end_in_their_order_have_no_token_that_is_too_old(drawn):
    simulation = Simulation(**drawn, in_order=True)
    simulation.run()
    for step, numbers in enumerate(simulation.taken):
        if not drawn["replacements"]:
            batch = drawn["batch"]
            assert numbers == tuple(range(step * batch, (step + 1) * batch))
        assert all(step - simulation.began[number] <= drawn["staleness"] for number in numbers)
    assert simulation.admission.dropped <= set().union(*simulation.beside)


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


def test_groups_that_agree_are_replaced_so_often_as_is_allowed_and_come_beside_a_step():
    admission = admission_of(staleness=0, replacements=2)
    assert begin_all(admission) == [0, 1]
    admission.finish(1, 0, agrees=True)
    assert begin_all(admission) == [2]
    admission.finish(2, 0, agrees=True)
    assert begin_all(admission) == [3]
    # Two were replaced: this one counts, whatever it teaches.
    admission.finish(3, 0, agrees=True)
    assert begin_all(admission) == [] and admission.take() is None
    admission.finish(0, 0)
    assert admission.take() == (0, 3) and admission.beside == (1, 2)
    assert admission.dropped == frozenset()
    admission.advance()
    # And so often again before the next.
    assert begin_all(admission) == [4, 5]
    admission.finish(4, 1, agrees=True)
    assert begin_all(admission) == [6]


def test_what_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="whole steps"):
        admission_of(taken=[0])
    with pytest.raises(ValueError, match="none of them was dropped"):
        admission_of(taken=[0, 1], dropped=[1])
    with pytest.raises(ValueError, match="staleness and replacements at least 0"):
        admission_of(staleness=-1)
    admission = admission_of()
    with pytest.raises(ValueError, match="no step was taken"):
        admission.advance()
    with pytest.raises(ValueError, match="not being played"):
        admission.finish(0, 0)
