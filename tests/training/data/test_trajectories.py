from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the extra `tokenizers` is not installed")

from agentgym.episode.v1 import episode_pb2
from tests.orchestrator.records import build_episode
from tests.training.makers import chatml_renderer, played_episode
from training.data.trajectories import (
    WeightVersions,
    read_trajectories,
)
from training.errors import LogprobsMissing


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    return chatml_renderer(tmp_path_factory.mktemp("tokenizer"))


def versioned(renderer, *versions: str) -> episode_pb2.Episode:
    """An episode of two replies, sampled by these versions in turn."""
    episode = played_episode("maze_1", ("move up", "move down"), renderer)
    segment = episode.token_segments[0]
    del segment.version_spans[:]
    del segment.policy_versions[:]
    segment.policy_versions.extend(versions)
    for turn in range(2):
        places = [at for at, number in enumerate(segment.generations) if number == turn + 1]
        segment.version_spans.add(
            start=places[0], end=places[-1] + 1, version=min(turn, len(versions) - 1)
        )
    return episode


def test_every_sampled_token_is_a_target_with_its_recorded_logprob(renderer):
    (found,) = read_trajectories(versioned(renderer, "step-3"), step=3)
    segment = versioned(renderer, "step-3").token_segments[0]
    sampled = np.array(segment.origins) == episode_pb2.TOKEN_ORIGIN_SAMPLED
    count = len(found.sequence)
    assert found.stale == 0
    assert found.sequence.mask.tolist() == sampled[:count].tolist()
    assert found.sequence.ids.tolist() == list(segment.ids)[:count]
    assert found.sequence.logprobs is not None
    assert set(found.sequence.logprobs[found.sequence.mask].tolist()) == {-0.25}


def test_tokens_of_weights_that_are_too_old_are_no_targets(renderer):
    episode = versioned(renderer, "step-1", "step-3")
    (strict,) = read_trajectories(episode, step=3, max_off_policy_steps=1)
    (loose,) = read_trajectories(episode, step=3, max_off_policy_steps=2)
    assert loose.stale == 0
    assert strict.stale > 0
    assert strict.sequence.targets + strict.stale == loose.sequence.targets


def test_versions_that_are_not_steps_may_be_named(renderer):
    episode = versioned(renderer, "weights-abc")
    with pytest.raises(LogprobsMissing, match="weights-abc") as caught:
        read_trajectories(episode)
    assert caught.value.field == "token_segments.policy_versions"
    assert read_trajectories(episode, versions=WeightVersions(others={"weights-abc": 0}))


def test_no_two_trainings_and_no_two_starts_of_one_name_their_weights_alike(renderer):
    ours = WeightVersions("aa01", "01")
    resumed, other = WeightVersions("aa01", "02"), WeightVersions("bb02", "01")
    assert len({it.name(7) for it in (ours, resumed, other)}) == 3
    assert resumed.step(ours.name(7)) == 7
    assert other.step(ours.name(7)) is None
    assert ours.step("step-7") == 7, "records of earlier releases"
    episode = versioned(renderer, ours.name(3))
    assert read_trajectories(episode, step=3, versions=resumed)
    with pytest.raises(LogprobsMissing, match="play it with the weights that are to learn"):
        read_trajectories(episode, step=3, versions=other)


def test_a_run_without_tokens_is_refused_with_the_field_and_the_fix():
    episode = build_episode("maze_1", tokens=False)
    with pytest.raises(LogprobsMissing, match="records text only: sample it with") as caught:
        read_trajectories(episode)
    assert caught.value.field == "token_segments"


@pytest.mark.parametrize("broken", ["absent", "zero", "nan"])
def test_a_run_without_logprobs_is_refused_with_the_field_and_the_fix(renderer, broken):
    episode = versioned(renderer, "step-0")
    segment = episode.token_segments[0]
    count = len(segment.ids)
    del segment.logprobs[:]
    if broken != "absent":
        segment.logprobs.extend([0.0 if broken == "zero" else math.nan] * count)
    with pytest.raises(LogprobsMissing, match="sample it again with logprobs") as caught:
        read_trajectories(episode)
    assert caught.value.field == "token_segments.logprobs"


def test_each_target_knows_the_turn_that_it_was_sampled_in(renderer):
    (trajectory,) = read_trajectories(versioned(renderer, "step-0"))
    assert sorted(set(trajectory.turns)) == [0, 1]
    assert (np.diff(trajectory.turns) >= 0).all()
    assert len(trajectory.turns) == trajectory.sequence.targets
