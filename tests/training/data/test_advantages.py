from __future__ import annotations

import math

import numpy as np
import pytest

from training.data.advantages import (
    AdvantageConfig,
    branch_advantages,
    episode_advantages,
    generalized_advantages,
    telling_groups,
    turn_advantages,
)

REWARDS = [1.0, 0.0, 5.0, 5.0, 3.0]
GROUPS = ["a", "a", "b", "b", "c"]


def advantages(normalise: bool = False, **config) -> list[float]:
    return episode_advantages(REWARDS, GROUPS, AdvantageConfig(**config), normalise=normalise)


def test_episodes_are_compared_with_their_own_group_alone():
    assert advantages() == [0.5, -0.5, 0.0, 0.0, 0.0]
    assert advantages(normalise=True) == [1.0, -1.0, 0.0, 0.0, 0.0]
    assert telling_groups(REWARDS, GROUPS) == 1


def test_advantages_of_a_group_sum_to_zero_and_have_unit_deviation():
    found = episode_advantages([0.1, 0.7, 0.3, 0.9], ["g"] * 4, AdvantageConfig(), normalise=True)
    assert math.fsum(found) == pytest.approx(0.0, abs=1e-12)
    assert math.fsum(it * it for it in found) / 4 == pytest.approx(1.0)


def test_leaving_one_out_compares_with_the_others_alone():
    found = episode_advantages(
        [1.0, 0.0, 0.0, 0.5], ["g"] * 4, AdvantageConfig(baseline="leave_one_out"), normalise=False
    )
    assert found == pytest.approx([1 - 0.5 / 3, -0.5, -0.5, 0.5 - 1 / 3])


def test_the_batch_compares_all_episodes_of_a_step():
    found = advantages(baseline="batch", normalise=True)
    assert math.fsum(found) == pytest.approx(0.0, abs=1e-12)
    assert math.fsum(it * it for it in found) / 5 == pytest.approx(1.0)
    assert found[2] == found[3] > 0 > found[0] > found[1]
    same = episode_advantages(
        [2.0] * 3, GROUPS[:3], AdvantageConfig(baseline="batch"), normalise=True
    )
    assert same == [0.0] * 3


def test_groups_may_share_the_deviation_of_all():
    found = episode_advantages(
        [1.0, 0.0, 0.6, 0.4],
        ["a", "a", "b", "b"],
        AdvantageConfig(deviation="batch"),
        normalise=True,
    )
    assert found[0] == pytest.approx(5 * found[2]), "the small difference stays the smaller one"


def test_turns_that_began_in_one_state_are_compared_with_each_other():
    """Two episodes leave the first state for different ones; the one that wins comes back once."""
    states = [[b"s", b"x"], [b"s", b"y", b"s", b"x"], [b"s"]]
    config = AdvantageConfig(turn_weight=1.0, turn_discount=0.5)
    rewards, groups = [0.0, 1.0, 1.0], ["a", "a", "b"]
    lost, won, other = turn_advantages(rewards, groups, states, config, normalise=False)
    # Returns from s: 0 of the first; 1/8 and 1/2 of the second.
    mean = (0 + 1 / 8 + 1 / 2) / 3
    assert [lost[0], won[0], won[2]] == pytest.approx([-mean, 1 / 8 - mean, 1 / 2 - mean])
    assert [lost[1], won[3]] == [-0.5, 0.5]
    assert won[1] == 0.0, "nobody else was there"
    assert other == [0.0], "another task's states are other states"


@pytest.mark.parametrize("changes", [{"turn_weight": -1}, {"turn_discount": 0}])
def test_what_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match="turn_discount above 0"):
        AdvantageConfig(**changes)


# From values ----------------------------------------------------------------------

VALUES = np.array([0.5, 0.25, 0.75], np.float32)


def test_with_lambda_one_a_token_is_credited_with_what_came_of_it_less_its_value():
    found, returns = generalized_advantages(VALUES, 1.0, discount=1.0, gae_lambda=1.0)
    np.testing.assert_allclose(found, 1.0 - VALUES)
    np.testing.assert_allclose(returns, np.ones(3))
    discounted, _ = generalized_advantages(VALUES, 1.0, discount=0.5, gae_lambda=1.0)
    np.testing.assert_allclose(discounted, [0.25 - 0.5, 0.5 - 0.25, 1.0 - 0.75])


def test_with_lambda_zero_it_is_credited_with_the_next_value():
    found, returns = generalized_advantages(VALUES, 1.0, discount=1.0, gae_lambda=0.0)
    np.testing.assert_allclose(found, [-0.25, 0.5, 0.25])
    np.testing.assert_allclose(returns, [0.25, 0.75, 1.0])


def test_in_between_errors_of_later_values_count_less():
    found, _ = generalized_advantages(VALUES, 0.0, discount=0.9, gae_lambda=0.5)
    last = -0.75
    middle = 0.9 * 0.75 - 0.25 + 0.45 * last
    first = 0.9 * 0.25 - 0.5 + 0.45 * middle
    np.testing.assert_allclose(found, [first, middle, last], rtol=1e-6)
    nothing, _ = generalized_advantages(VALUES[:0], 1.0, discount=1.0, gae_lambda=1.0)
    assert len(nothing) == 0


def test_a_value_head_leaves_no_room_for_credit_by_states():
    with pytest.raises(ValueError, match="turn_weight is 0"):
        AdvantageConfig(baseline="value", turn_weight=1.0)


def of_branches(branches, rewards=(1.0, 0.0), *, normalise=False, **config) -> list[list[float]]:
    """Of episodes of one task and four turns each."""
    found = branch_advantages(
        rewards,
        ["g"] * len(rewards),
        [4] * len(rewards),
        branches,
        AdvantageConfig(**config),
        normalise=normalise,
    )
    assert [len(it) for it in found] == [4] * len(rewards)
    return found


def test_turns_between_two_valued_states_share_what_the_worth_rose_by():
    won, lost = of_branches([{1: [1.0, 0.0, 0.0, 0.0], 3: [1.0, 1.0, 1.0, 0.0]}, {2: [1.0, 1.0]}])
    # The start is worth the group's mean, 0.5; the states 0.25 and 0.75; the end the reward, 1.
    assert won == [-0.25, 0.5, 0.5, 0.25]
    # All was well until the third turn, which lost what had been won.
    assert lost == [0.5, 0.5, -1.0, -1.0]


def test_without_branches_all_turns_have_their_episodes_advantage():
    rewards = [1.0, 0.0, 0.5]
    for config in ({}, {"baseline": "leave_one_out"}, {"deviation": "batch"}):
        for normalise in (False, True):
            plain = episode_advantages(
                rewards, ["g"] * 3, AdvantageConfig(**config), normalise=normalise
            )
            found = of_branches([{}] * 3, rewards, normalise=normalise, **config)
            assert [it for it, *_ in found] == pytest.approx(plain)
            assert all(it == [it[0]] * 4 for it in found)


def test_the_deviation_is_that_of_all_rewards_branches_included():
    # Six rewards of mean 0.5: their deviation is 0.5.
    won, lost = of_branches([{2: [0.0, 1.0]}, {2: [1.0, 0.0]}], normalise=True)
    assert won == [0.0, 0.0, 1.0, 1.0]
    assert lost == [0.0, 0.0, -1.0, -1.0]


def test_episodes_that_agree_teach_by_branches_that_do_not():
    assert of_branches([{}, {}], (0.0, 0.0), normalise=True) == [[0.0] * 4] * 2
    assert of_branches([{2: [0.3, 0.3, 0.3]}, {}], (0.3, 0.3), normalise=True) == [[0.0] * 4] * 2
    wasted, other = of_branches([{2: [1.0, 0.0]}, {}], (0.0, 0.0))
    assert wasted == [0.5, 0.5, -0.5, -0.5]
    assert other == [0.0] * 4
