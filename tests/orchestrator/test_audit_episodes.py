import pytest

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.audit.episodes import CHECKS, audit_episode
from tests.orchestrator.records import (
    build_branch,
    build_episode,
    build_failed,
    build_manifest,
    build_seeing,
)

FIRST_SAMPLED = 3


def findings(episode) -> list[tuple[str, str]]:
    return audit_episode(episode, build_manifest())


@pytest.mark.parametrize(
    "episode",
    [
        build_episode(),
        build_episode(tokens=False),
        build_episode(replies=()),
        build_episode("wordle_1", environment="wordle", sample=3, reward=0.0, success=False),
        build_failed(),
        build_branch(),
        build_branch(turn=0, policy="person"),
    ],
)
def test_a_sound_record_passes(episode):
    assert findings(episode) == []


def test_a_parents_turns_are_nobodys_targets_and_have_no_calls():
    episode = build_branch()
    episode.messages[FIRST_SAMPLED].sampled = True
    assert "conversation" in [name for name, _ in findings(episode)]
    episode = build_branch()
    episode.generations[0].turn = 0
    assert ("generations", "generation 0 is of turn 0") in findings(episode)
    episode = build_branch()
    episode.parent.turn = 3
    assert ("steps", "it is a branch at turn 3 and has 3 steps") in findings(episode)


def test_the_last_observation_may_be_missing_from_the_conversation():
    episode = build_episode()
    del episode.messages[-1]
    assert findings(episode) == []


def test_a_reply_that_failed_to_be_played_is_no_lie():
    episode = build_failed()
    episode.messages.add(role=episode_pb2.ROLE_ASSISTANT, text="Action: up", sampled=True)
    episode.generations.add(
        turn=2,
        sampling_seed=seeds.sampling_seed(
            7, environment="maze", item_id="maze_1", sample=0, turn=2
        ),
    )
    assert findings(episode) == []


def test_a_reset_that_failed_leaves_a_sound_record():
    episode = build_failed(replies=(), tokens=False)
    del episode.steps[:]
    del episode.messages[2:]
    assert findings(episode) == []


def test_an_end_of_sequence_mark_that_was_cut_off_is_no_difference():
    episode = build_episode()
    episode.messages[3].text += "</s>"
    assert findings(episode) == []


def test_entropies_of_sampled_tokens_are_no_problem():
    episode = build_episode()
    with_entropies({FIRST_SAMPLED: 1.5})(episode)
    assert findings(episode) == []


def test_seeds_of_31_bits_are_recognised():
    episode = build_episode()
    for call in episode.generations:
        call.sampling_seed = seeds.to_31_bits(call.sampling_seed)
    assert findings(episode) == []


def of_segment(**changes):
    def spoil(episode):
        for field, (at, value) in changes.items():
            getattr(episode.token_segments[0], field)[at] = value

    return spoil


def with_entropies(values):
    def spoil(episode):
        segment = episode.token_segments[0]
        segment.entropies.extend(values.get(at, 0.0) for at in range(len(segment.ids)))

    return spoil


def flip_mask(segment):
    """As thoroughly as somebody would who knows the layout."""
    segment.origins[FIRST_SAMPLED] = episode_pb2.TOKEN_ORIGIN_CONTEXT
    segment.generations[FIRST_SAMPLED] = 0
    segment.logprobs[FIRST_SAMPLED] = 0.0
    segment.version_spans[0].start += 1


SPOILS = {
    "another run": ("identity", lambda it: setattr(it, "run_id", "x")),
    "unknown environment": ("identity", lambda it: setattr(it, "environment", "x")),
    "other digest": ("identity", lambda it: setattr(it, "environment_digest", "x")),
    "time runs back": ("identity", lambda it: setattr(it, "ended_unix_ms", 1)),
    "reward is not the last step's": ("outcome", lambda it: setattr(it, "reward", 0.5)),
    "score is not the last step's": ("outcome", lambda it: setattr(it, "score", 0.5)),
    "no stop reason": ("outcome", lambda it: setattr(it, "stop_reason", 0)),
    "stopped by an error without one": ("outcome", lambda it: setattr(it, "stop_reason", 23)),
    "a step is missing": ("steps", lambda it: it.steps.pop(1)),
    "the reset has an input": (
        "steps",
        lambda it: it.steps[0].input.CopyFrom(types_pb2.ActionInput(action="x")),
    ),
    "a step without input": ("steps", lambda it: it.steps[1].ClearField("input")),
    "played on after the end": ("steps", lambda it: setattr(it.steps[1], "terminated", True)),
    "no state hash": ("state_hashes", lambda it: setattr(it.steps[1], "state_hash", b"")),
    "other observation": ("conversation", lambda it: setattr(it.messages[4], "text", "x")),
    "other first observation": ("conversation", lambda it: setattr(it.messages[2], "text", "x")),
    "other reply": ("conversation", lambda it: setattr(it.messages[3], "text", "x")),
    "a turn left out": ("conversation", lambda it: it.messages.pop(4)),
    "the end left out": ("conversation", lambda it: [it.messages.pop() for _ in range(3)]),
    "a message too many": ("conversation", lambda it: it.messages.add(role=2, text="x")),
    "a reply never played": (
        "conversation",
        lambda it: it.messages.add(role=3, text="x", sampled=True),
    ),
    "turns out of order": ("generations", lambda it: setattr(it.generations[1], "turn", 5)),
    "a call is missing": ("generations", lambda it: it.generations.pop()),
    "other episode seed": ("seeds", lambda it: setattr(it, "seed", 1)),
    "other sampling seed": ("seeds", lambda it: setattr(it.generations[0], "sampling_seed", 1)),
    "an id too many": ("tokens", lambda it: it.token_segments[0].ids.append(1)),
    "NaN": ("tokens", of_segment(logprobs=(FIRST_SAMPLED, float("nan")))),
    "minus infinity": ("tokens", of_segment(logprobs=(FIRST_SAMPLED, float("-inf")))),
    "probability above 1": ("tokens", of_segment(logprobs=(FIRST_SAMPLED, 0.5))),
    "too few entropies": ("tokens", lambda it: it.token_segments[0].entropies.append(0.5)),
    "a negative entropy": ("tokens", with_entropies({FIRST_SAMPLED: -0.5})),
    "an entropy that is no number": ("tokens", with_entropies({FIRST_SAMPLED: float("nan")})),
    "entropy of the context": ("tokens", with_entropies({0: 0.5})),
    "logprob of the context": ("tokens", of_segment(logprobs=(0, -0.5))),
    "context of a generation": ("tokens", of_segment(generations=(0, 1))),
    "no origin": ("tokens", of_segment(origins=(0, 0))),
    "sampled by nobody": ("tokens", of_segment(generations=(FIRST_SAMPLED, 0))),
    "sampled by a later call": ("tokens", of_segment(generations=(FIRST_SAMPLED, 3))),
    "calls out of order": ("tokens", of_segment(generations=(FIRST_SAMPLED, 2))),
    "no version span": ("tokens", lambda it: it.token_segments[0].version_spans.pop()),
    "unknown version": (
        "tokens",
        lambda it: setattr(it.token_segments[0].version_spans[0], "version", 1),
    ),
    "spans overlap": (
        "tokens",
        lambda it: setattr(it.token_segments[0].version_spans[1], "start", 4),
    ),
    "span beyond the end": (
        "tokens",
        lambda it: setattr(it.token_segments[0].version_spans[1], "end", 99),
    ),
    "fork without a reason": (
        "tokens",
        lambda it: it.token_segments.append(it.token_segments[0]),
    ),
    "more tokens than sampled": (
        "tokens",
        lambda it: setattr(it.generations[0], "completion_tokens", 2),
    ),
    "another prompt was sent": (
        "ledger",
        lambda it: setattr(it.generations[1], "prompt_tokens", 7),
    ),
    "a mask flipped": ("ledger", lambda it: flip_mask(it.token_segments[0])),
    "a version altered": (
        "ledger",
        lambda it: it.token_segments[0].policy_versions.__setitem__(0, "v2"),
    ),
    "a reply without tokens": (
        "tokens",
        lambda it: it.generations.add(turn=2, completion_tokens=3),
    ),
}


@pytest.mark.parametrize("name", SPOILS)
def test_what_is_wrong_is_found_by_its_check(name):
    check, spoil = SPOILS[name]
    episode = build_episode()
    spoil(episode)
    assert check in {found for found, _ in findings(episode)}


def test_images_belong_to_the_observations_that_had_them():
    episode = build_seeing()
    assert not findings(episode)
    episode.steps[1].images[:] = [0]
    expected = "the conversation shows other images than step 1 gave"
    assert findings(episode) == [("conversation", expected)]


@pytest.mark.parametrize("field", ["reward", "score"])
def test_a_failure_with_a_result_is_found(field):
    episode = build_failed()
    setattr(episode, field, 0.0)
    assert findings(episode) == [("outcome", f"it failed and has a {field}")]


def test_every_check_has_a_record_that_it_refuses():
    assert {check for check, _ in SPOILS.values()} == set(CHECKS)
