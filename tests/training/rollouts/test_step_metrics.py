from __future__ import annotations

import numpy as np
import pytest

from agentgym.episode.v1 import episode_pb2
from tests.orchestrator.records import build_episode
from training.rollouts.step_metrics import StepClock, describe_episodes


def sampled_logprobs(episode: episode_pb2.Episode) -> list[float]:
    return [
        logprob
        for segment in episode.token_segments
        for logprob, origin in zip(segment.logprobs, segment.origins, strict=True)
        if origin == episode_pb2.TOKEN_ORIGIN_SAMPLED
    ]


def test_a_step_is_described_together_and_by_environment():
    short = build_episode("maze_1", replies=("up",))
    long = build_episode("maze_2", replies=("up", "down", "left"))
    long.truncated = True
    long.generations[2].finish_reason = "length"
    other = build_episode("wordle_1", environment="wordle", replies=("crane", "slate"))
    found = describe_episodes([short, other, long], [1.0, 0.25, 0.0])
    counts = [found[f"{of}episodes"] for of in ("", "env/maze/", "env/wordle/")]
    assert counts == [3, 2, 1]
    assert found["reward"] == pytest.approx(1.25 / 3)
    assert (found["env/maze/reward"], found["env/wordle/reward"]) == (0.5, 0.25)
    assert (found["turns"], found["env/maze/turns"]) == (2, 2)
    assert (found["truncated"], found["env/maze/truncated"]) == (pytest.approx(1 / 3), 0.5)
    assert (found["cut_replies"], found["env/wordle/cut_replies"]) == (pytest.approx(1 / 6), 0)
    logprobs = sampled_logprobs(short) + sampled_logprobs(long)
    assert found["env/maze/reply_tokens"] == len(logprobs) / 2
    assert found["env/maze/entropy"] == pytest.approx(-np.mean(logprobs))
    assert (found["policy_seconds"], found["environment_seconds"]) == (2.0, 0.5)


def test_a_step_without_episodes_has_no_means():
    assert describe_episodes([], []) == {"episodes": 0}
    text_only = describe_episodes([build_episode(tokens=False)], [1.0])
    assert "entropy" not in text_only and text_only["reply_tokens"] == 0


def test_each_step_has_seconds_of_its_own():
    clock = StepClock()
    with clock.measure(3, "learn"), clock.measure(4, "rollout"):
        pass
    with clock.measure(3, "learn"):
        pass
    assert list(clock.take(3)) == ["seconds/learn"]
    assert list(clock.take(4)) == ["seconds/rollout"]
    assert clock.take(3) == {}
