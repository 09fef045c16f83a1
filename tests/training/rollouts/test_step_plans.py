"""Plans of all steps in one run folder: those of steps with a barrier, under other keys."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2
from orchestrator.episode_plans import EnvironmentPlay
from orchestrator.records import EpisodeKey, encode
from orchestrator.scheduler import Assignment
from training.rollouts.step_plans import StepPlans, StreamPlans, limit_rounds
from training.rollouts.told_records import ToldRecords
from training.rollouts.turn_limits import TurnLimit, max_rounds

LIMITS = (TurnLimit(from_step=0, rounds=3), TurnLimit(from_step=4, rounds=9))
PLAY = EnvironmentPlay(described=pb.GetEnvironmentResponse(name="echo", max_rounds=7), max_rounds=7)
SAMPLES = 4


def test_the_last_limit_that_was_reached_counts() -> None:
    assert [max_rounds(LIMITS, step) for step in (0, 3, 4, 50)] == [3, 3, 9, 9]
    assert max_rounds((), 3) == 0
    assert max_rounds(LIMITS[1:], 3) == 0
    with pytest.raises(ValueError, match="rounds at least 1"):
        TurnLimit(from_step=0, rounds=0)


@given(step=st.integers(0, 30), sample=st.integers(0, SAMPLES - 1), attempt=st.integers(1, 3))
def test_an_episode_is_planned_as_with_a_barrier_but_for_its_key(
    step: int, sample: int, attempt: int
) -> None:
    shared = StreamPlans(
        plays={"echo": PLAY},
        run_id="stream",
        seed=5,
        samples=SAMPLES,
        max_rounds=partial(max_rounds, LIMITS),
    )
    shared = pickle.loads(pickle.dumps(shared))  # as it comes to a worker
    rounds = max_rounds(LIMITS, step)
    alone = StepPlans(plays={"echo": limit_rounds(PLAY, rounds)}, run_id="step", seed=5, step=step)
    key = EpisodeKey("echo", "echo_1", sample, "agent")
    one = alone(Assignment(key, attempt))
    other = shared(Assignment(key._replace(sample=step * SAMPLES + sample), attempt))
    assert one.max_rounds == other.max_rounds == min(7, rounds)
    assert one.seed == other.seed
    assert [one.turn_seed(turn) for turn in range(3)] == [other.turn_seed(it) for it in range(3)]
    assert other.sample == step * SAMPLES + sample
    assert one.episode_id != other.episode_id


def told(sample: int) -> tuple[EpisodeKey, bytes]:
    record = episode_pb2.Episode(schema_version=1, environment="echo", sample=sample)
    return EpisodeKey("echo", "echo_1", sample, "agent"), encode(record)


def test_what_was_told_is_read_once_in_the_order_of_groups_and_samples() -> None:
    records = ToldRecords()
    for number, sample in ((3, 7), (1, 5), (3, 6), (2, 0), (1, 4)):
        records.note(number, *told(sample))
    assert [it.sample for it in records.take([3, 1, 8])] == [6, 7, 4, 5]
    assert records.take([3, 1]) == []
    records.forget({2, 9})
    assert records.take([2]) == []
