"""Ids that clients hold: each is used once, and what nobody asks for is closed."""

import pytest

from env_servers.gateways.errors import NoRoom
from env_servers.gateways.leases import Leases


class Thing:
    """Counts how often it was closed."""

    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


class Clock:
    """A clock that is told the time."""

    now = 0.0

    def __call__(self):
        return self.now


def make(idle_limit=60.0):
    clock = Clock()
    return Leases(idle_limit, clock), clock


def test_ids_count_from_0_and_are_never_used_again():
    leases, _ = make()
    assert [leases.add(Thing()).id for _ in range(3)] == [0, 1, 2]
    assert leases.end(2)
    assert not leases.end(2)
    assert leases.add(Thing()).id == 3


def test_a_number_may_be_reserved_and_stay_unused():
    leases, _ = make()
    number = leases.reserve()
    assert leases.get(number) is None
    assert leases.add(Thing()).id == number + 1


async def test_what_is_used_stays_and_what_is_not_lapses():
    leases, clock = make()
    used, unused = leases.add(Thing()), leases.add(Thing())
    clock.now = 50
    async with used:
        pass
    clock.now = 61
    leases.sweep()
    leases.sweep()
    assert (used.lapsed, unused.lapsed) == (False, True)
    assert (used.held.closed, unused.held.closed) == (0, 1)
    assert leases.get(unused.id) is unused, "a late client is told what happened"


async def test_nothing_lapses_during_a_request():
    leases, clock = make()
    lease = leases.add(Thing())
    async with lease:
        clock.now = 1000
        leases.sweep()
    assert not lease.lapsed


def test_a_lapsed_id_is_forgotten_in_the_end():
    leases, clock = make()
    leases.add(Thing())
    clock.now = 60 * 100
    leases.sweep()
    assert len(leases) == 0


def test_closing_closes_everything():
    leases, _ = make()
    things = [leases.add(Thing()).held for _ in range(2)]
    leases.close()
    assert [it.closed for it in things] == [1, 1]
    assert len(leases) == 0


def test_there_are_not_more_ids_than_fit():
    leases = Leases(60.0, most=2)
    for _ in range(2):
        leases.add(Thing())
    surplus = Thing()
    with pytest.raises(NoRoom):
        leases.add(surplus)
    assert surplus.closed == 1
    leases.end(0)
    leases.add(Thing())
