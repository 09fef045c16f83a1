import pytest

from agent_runtime.scores import metric_value, perfect_score, recorded_score, score_or_reward
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.episode.v1 import episode_pb2


@pytest.mark.parametrize(
    ("score", "reward", "expected"),
    [(0.5, 1.0, 0.5), (0.0, 1.0, 0.0), (None, 1.0, 1.0), (None, None, None), (2.0, None, 2.0)],
)
def test_the_score_counts_and_without_one_the_reward(
    score: float | None, reward: float | None, expected: float | None
):
    assert score_or_reward(score, reward) == expected
    assert recorded_score(episode_pb2.Episode(score=score, reward=reward)) == expected
    assert recorded_score(episode_pb2.Step(score=score, reward=reward)) == expected


@pytest.mark.parametrize(("success_score", "perfect"), [(100.0, 100.0), (1.0, 1.0), (1e-6, 1.0)])
def test_a_perfect_score_is_the_success_score_but_at_least_one(
    success_score: float, perfect: float
):
    assert perfect_score(pb.GetEnvironmentResponse(success_score=success_score)) == perfect


def test_an_environment_is_measured_by_its_own_metric():
    by_score = pb.GetEnvironmentResponse(success_score=100, metric=pb.METRIC_MEAN_SCORE)
    by_success = pb.GetEnvironmentResponse(success_score=100, metric=pb.METRIC_SUCCESS_RATE)
    assert metric_value(by_score, mean_score=25.0, success_rate=0.1) == 0.25
    assert metric_value(by_success, mean_score=25.0, success_rate=0.1) == 0.1
    assert metric_value(by_score, mean_score=None, success_rate=0.1) is None
