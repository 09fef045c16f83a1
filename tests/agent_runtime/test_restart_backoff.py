"""When a spawned server that died is started again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.spawned_server import RestartBackoff


def test_delays_double_up_to_a_bound_and_end_at_last() -> None:
    backoff = RestartBackoff(draw=lambda: 0.0)
    delays = [backoff.next_delay(uptime=1.0) for _ in range(backoff.MAX_RESTARTS)]
    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == backoff.LONGEST_SECONDS
    assert backoff.next_delay(uptime=1.0) is None
    assert backoff.next_delay(uptime=1.0) is None


def test_a_server_that_lived_long_enough_begins_a_new_row() -> None:
    backoff = RestartBackoff(draw=lambda: 0.0)
    while backoff.next_delay(uptime=0.0) is not None:
        pass
    assert backoff.next_delay(uptime=backoff.STABLE_SECONDS) == backoff.FIRST_SECONDS
    assert backoff.restarts == 1


@given(st.lists(st.floats(0, 59), min_size=1, max_size=30), st.floats(0, 1, exclude_max=True))
def test_jitter_only_shortens_and_restarts_are_counted(uptimes: list[float], drawn: float) -> None:
    plain, jittered = RestartBackoff(draw=lambda: 0.0), RestartBackoff(draw=lambda: drawn)
    for uptime in uptimes:
        longest, delay = plain.next_delay(uptime), jittered.next_delay(uptime)
        if longest is None:
            assert delay is None
        else:
            assert delay is not None
            assert longest / 2 <= delay <= longest
    assert plain.restarts == min(len(uptimes), plain.MAX_RESTARTS)
