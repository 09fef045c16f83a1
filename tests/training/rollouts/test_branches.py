from __future__ import annotations

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from training.errors import RecipeError
from training.rollouts.branches import (
    BranchConfig,
    branch_turns,
    plan_branches,
    require_branches,
)


def episode(turns: int, sample: int = 0) -> episode_pb2.Episode:
    return episode_pb2.Episode(
        environment="echo",
        item_id="echo_1",
        policy="agent",
        sample=sample,
        episode_id=f"e{sample}",
        steps=[episode_pb2.Step(seq=seq) for seq in range(turns + 1)],
    )


def test_turns_are_drawn_by_the_seed_between_the_first_reply_and_the_last():
    drawn = [branch_turns(episode(9, it), 3, seed=1, step=2) for it in range(40)]
    assert drawn == [branch_turns(episode(9, it), 3, seed=1, step=2) for it in range(40)]
    assert drawn != [branch_turns(episode(9, it), 3, seed=2, step=2) for it in range(40)]
    assert {turn for turns in drawn for turn in turns} == set(range(1, 9))
    assert all(turns == sorted(set(turns)) and len(turns) == 3 for turns in drawn)


@pytest.mark.parametrize(("turns", "expected"), [(0, []), (1, []), (2, [1]), (3, [1, 2])])
def test_short_episodes_have_fewer_states(turns, expected):
    assert branch_turns(episode(turns), 5, seed=0, step=0) == expected


def test_branches_have_numbers_of_their_own():
    episodes = [episode(6, sample) for sample in range(4)]
    planned = plan_branches(
        episodes, BranchConfig(states=2, per_state=3), samples=4, seed=0, step=0
    )
    assert sorted(key.sample for key in planned) == list(range(4, 4 + 4 * 2 * 3))
    for parent in episodes:
        turns = [turn for of, turn in planned.values() if of is parent]
        assert sorted(turns) == sorted(branch_turns(parent, 2, seed=0, step=0) * 3)
    assert not plan_branches(episodes, BranchConfig(), samples=4, seed=0, step=0)


def test_an_environment_that_cannot_come_back_to_a_state_is_refused():
    replayable = pb.GetEnvironmentResponse(capabilities=[pb.CAPABILITY_DETERMINISTIC])
    require_branches({"echo": replayable})
    with pytest.raises(RecipeError, match="web is not deterministic") as refused:
        require_branches({"echo": replayable, "web": pb.GetEnvironmentResponse()})
    assert refused.value.field == "branches.states"
