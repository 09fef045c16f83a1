from hypothesis import given
from hypothesis import strategies as st

from orchestrator import seeds

PLACE = {"environment": "maze", "item_id": "maze_1", "sample": 0, "turn": 0}


def test_a_rerun_draws_the_same_numbers():
    # Fixed digits: a change of the derivation would silently break every recorded run.
    assert seeds.sampling_seed(7, **PLACE) == 8483617321178824090
    assert seeds.episode_seed(7, environment="maze", item_id="maze_1") == 8343941534389214598
    assert (
        seeds.episode_id("r", environment="maze", item_id="maze_1", sample=0, policy="p", attempt=1)
        == "f7eb9fe8317f07dee18fea8ea1e2576e"
    )


def test_every_part_of_a_sampling_seed_matters():
    changes = ({"environment": "wordle"}, {"item_id": "maze_2"}, {"sample": 1}, {"turn": 1})
    drawn = [seeds.sampling_seed(7, **(PLACE | change)) for change in changes]
    drawn += [seeds.sampling_seed(8, **PLACE), seeds.sampling_seed(7, step=1, **PLACE)]
    assert len({seeds.sampling_seed(7, **PLACE), *drawn}) == len(changes) + 3


def test_the_samples_of_a_group_draw_differently_from_one_initial_state():
    drawn = {
        seeds.sampling_seed(7, **(PLACE | {"sample": sample, "turn": turn}))
        for sample in range(64)
        for turn in range(32)
    }
    assert len(drawn) == 64 * 32
    assert len({seeds.to_31_bits(seed) for seed in drawn}) == 64 * 32


def test_another_attempt_has_another_id_and_no_other_seed():
    place = {"environment": "maze", "item_id": "maze_1", "sample": 0, "policy": "p"}
    ids = {seeds.episode_id("r", attempt=attempt, **place) for attempt in (1, 2, 3)}
    assert len(ids) == 3


@given(st.integers(), st.text(), st.text(), st.integers(), st.integers(min_value=0))
def test_seeds_fit_their_widths(run_seed, environment, item_id, sample, turn):
    seed = seeds.sampling_seed(
        run_seed, environment=environment, item_id=item_id, sample=sample, turn=turn
    )
    assert 0 <= seed < 2**63
    assert 0 <= seeds.to_31_bits(seed) < 2**31


@given(st.lists(st.one_of(st.text(), st.integers()), max_size=4), st.data())
def test_different_parts_never_run_together(parts, data):
    others = data.draw(st.lists(st.one_of(st.text(), st.integers()), max_size=4))
    if [(type(it), it) for it in parts] != [(type(it), it) for it in others]:
        assert seeds.derive("test", *parts) != seeds.derive("test", *others)


def test_the_boundary_between_parts_matters():
    assert seeds.derive("test", "a", "bc") != seeds.derive("test", "ab", "c")
    assert seeds.derive("test", 1) != seeds.derive("test", "1")
    assert 0 <= seeds.unit_interval("test", 1) < 1


def test_the_seeds_of_an_episodes_turns_are_those_of_its_calls():
    place = {name: value for name, value in PLACE.items() if name != "turn"}
    drawn = seeds.sampling_seeds(7, **place, step=2)
    for turn in (0, 3, 1, 12):  # in any order, any number of times
        assert drawn(turn) == seeds.sampling_seed(7, **place, turn=turn, step=2)
