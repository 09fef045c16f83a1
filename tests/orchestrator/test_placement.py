"""Which server a new episode goes to: properties of the pure rule, whatever happened before."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.placement import OutlierPolicy, Placement

POLICY = OutlierPolicy()
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["played", "failed", "returned", "remove", "add"]),
        st.integers(0, 11).map(str),
        st.floats(0, 40),
        st.floats(0.001, 10),
    ),
    max_size=120,
)


def fleet(size: int) -> Placement:
    placement = Placement()
    for number in range(size):
        placement.add(str(number))
    return placement


def eject(placement: Placement, server: str, now: float) -> None:
    ejected = [placement.failed(server, now) for _ in range(POLICY.failures)]
    assert ejected == [False] * (POLICY.failures - 1) + [True]


@given(size=st.integers(1, 12), events=EVENTS)
def test_whatever_happens_few_are_ejected_shares_are_sane_and_somebody_is_chosen(
    size: int, events: list[tuple[str, str, float, float]]
) -> None:
    placement, now, present = fleet(size), 0.0, {str(it) for it in range(size)}
    for what, server, pause, seconds in events:
        now += pause
        before = placement.ejected(now)
        ejected = False
        match what:
            case "played":
                placement.played(server, "maze", 4, 4 * seconds)
            case "failed":
                ejected = placement.failed(server, now)
            case "returned":
                ejected = placement.returned(server, now)
            case "remove":
                placement.remove(server)
                present.discard(server)
            case _:
                placement.add(server)
                present.add(server)
        if ejected:
            most = max(1, math.floor(len(present) * POLICY.most_ejected))
            assert before + 1 == placement.ejected(now) <= min(most, len(present) - 1)
            assert 0 < placement.ejected_for(server, now) <= POLICY.longest_ejection
        for each in present:
            share = placement.share(each, "maze", now)
            assert POLICY.smallest_share <= share <= 1
        chosen = placement.choose(dict.fromkeys(sorted(present), 0.5), "maze", now)
        assert (chosen is None) == (not present)
        if chosen is not None and placement.ejected_for(chosen, now):
            assert placement.ejected(now) == len(present)


@given(seconds=st.lists(st.floats(1e-6, 100), min_size=2, max_size=12))
def test_a_faster_server_never_gets_less_and_no_faster_half_is_punished(
    seconds: list[float],
) -> None:
    placement = fleet(len(seconds))
    for _ in range(POLICY.measured):
        for number, each in enumerate(seconds):
            placement.played(str(number), "maze", 3, 3 * each)
    shares = [placement.share(str(number), "maze", 0.0) for number in range(len(seconds))]
    ordered = sorted(zip(seconds, shares, strict=True))
    assert [share for _, share in ordered] == sorted(shares, reverse=True)
    assert all(share == 1 for _, share in ordered[: (len(seconds) + 1) // 2])


def test_a_slow_server_gets_in_proportion_to_its_speed_in_its_environment_alone() -> None:
    placement = fleet(3)
    for _ in range(POLICY.measured):
        for server, seconds in (("0", 0.1), ("1", 0.1), ("2", 0.8)):
            placement.played(server, "maze", 10, 10 * seconds)
    assert placement.share("2", "maze", 0.0) == pytest.approx(POLICY.tolerance / 8)
    assert placement.share("2", "babyai", 0.0) == 1
    loads = dict.fromkeys("012", 0)
    for _ in range(900):
        offered = {it: (loads[it] + 1) / 1000 for it in loads}
        chosen = placement.choose(offered, "maze", 0.0)
        assert chosen is not None
        loads[chosen] += 1
    assert loads == {"0": 400, "1": 400, "2": 100}


def test_ejections_in_a_row_grow_and_calm_takes_them_back() -> None:
    placement, now = fleet(10), 0.0
    for times in range(1, 15):
        eject(placement, "3", now)
        lasted = placement.ejected_for("3", now)
        assert lasted == min(times * POLICY.ejection, POLICY.longest_ejection)
        now += lasted
    now += 12 * POLICY.ejection
    eject(placement, "3", now)
    assert placement.ejected_for("3", now) == 3 * POLICY.ejection
    now += 100 * POLICY.ejection
    eject(placement, "3", now)
    assert placement.ejected_for("3", now) == POLICY.ejection


def test_a_played_episode_between_failures_is_no_row() -> None:
    placement = fleet(3)
    for _ in range(20):
        assert not any(placement.failed("0", 0.0) for _ in range(POLICY.failures - 1))
        placement.played("0", "maze", 1, 1.0)
    assert placement.ejected(0.0) == 0


def test_an_update_is_no_flapping_and_returns_within_the_window_are() -> None:
    placement = fleet(3)
    seldom = [placement.returned("0", hour * 3600.0) for hour in range(24)]
    assert not any(seldom)
    often = [placement.returned("1", second) for second in (0.0, 10.0, 20.0)]
    assert often == [False, False, True]
    assert placement.ejected_for("1", 20.0) == POLICY.ejection


def test_an_ejected_server_comes_back_slowly() -> None:
    placement = fleet(2)
    eject(placement, "0", 0.0)
    assert placement.choose({"0": 0.1, "1": 0.9}, "maze", 1.0) == "1"
    back = POLICY.ejection
    shares = [placement.share("0", "maze", back + part * POLICY.slow_start) for part in (0, 0.5, 1)]
    assert shares == [POLICY.smallest_share, 0.5, 1.0]


def test_a_server_alone_is_never_ejected() -> None:
    placement = fleet(1)
    assert not any(placement.failed("0", 0.0) or placement.returned("0", 0.0) for _ in range(50))


def test_where_all_that_could_play_are_ejected_one_of_them_does() -> None:
    placement = fleet(20)
    eject(placement, "4", 0.0)
    eject(placement, "5", 0.0)
    assert placement.choose({"4": 0.9, "5": 0.2}, "maze", 1.0) == "5"


@given(
    loads=st.dictionaries(st.integers(0, 11).map(str), st.floats(0.01, 2), min_size=1),
    speeds=st.lists(st.floats(0.01, 10), min_size=12, max_size=12),
    ejected=st.sets(st.integers(0, 11).map(str), max_size=1),
)
def test_what_is_chosen_has_the_least_load_for_its_share(
    loads: dict[str, float], speeds: list[float], ejected: set[str]
) -> None:
    placement = fleet(12)
    for number, seconds in enumerate(speeds):
        for _ in range(POLICY.measured):
            placement.played(str(number), "maze", 1, seconds)
    for server in ejected:
        eject(placement, server, 0.0)
    sound = {it: load for it, load in loads.items() if it not in ejected} or loads
    least = min(load / placement.share(it, "maze", 1.0) for it, load in sound.items())
    chosen = placement.choose(loads, "maze", 1.0)
    assert chosen in sound
    assert sound[chosen] / placement.share(chosen, "maze", 1.0) == least


@given(
    loads=st.dictionaries(st.integers(0, 5).map(str), st.floats(0.01, 2.0), min_size=1),
    near=st.sets(st.integers(0, 5).map(str)),
    ejected=st.sampled_from("012345"),
)
def test_a_near_server_is_chosen_while_it_is_sound_and_has_room(
    loads: dict[str, float], near: set[str], ejected: str
) -> None:
    placement = fleet(6)
    eject(placement, ejected, 0.0)
    chosen = placement.choose(loads, "maze", 1.0, near)
    able = {it for it in loads if it in near and it != ejected and loads[it] <= 1}
    if able:
        assert chosen in able and loads[chosen] == min(loads[it] for it in able)
    else:
        assert chosen == placement.choose(loads, "maze", 1.0)
