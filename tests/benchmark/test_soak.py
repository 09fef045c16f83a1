"""The soak's own machinery, for seconds instead of minutes."""

import pytest

from benchmark.soak import Part, Soak, play_a_run, play_on_one_server


@pytest.mark.slow
@pytest.mark.parametrize("play", [play_on_one_server, play_a_run])
async def test_a_soak_plays_and_watches_every_process(play):
    part = await play(Soak(env="echo", minutes=0.1, concurrency=8, drop_every=2, sample_every=0.5))
    assert part.episodes > 8
    assert not part.failed, part.failures
    assert len(part.processes) == 2
    for figures in part.processes.values():
        assert figures["peak_rss_mib"] > 1


def test_what_grows_beyond_its_bound_is_named():
    flat = {"rss_mib": [90, 91], "files": [20, 21], "threads": [9, 9], "children": [0, 0]}
    part = Part("server", processes={"flat": flat, "leaking": flat | {"files": [20, 320]}})
    assert part.problems(Soak()) == ["server, leaking: files 20 -> 320"]
