"""Checks of one episode against the run's manifest.

`CHECKS` lists them; each is a pure function from an episode and its manifest to sentences about
what is wrong. A check never repairs and never guesses: what cannot be judged from the record is
not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agent_runtime.conversation import normalize_reply
from agent_runtime.scores import recorded_score
from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.audit.tokens import ledger_problems
from orchestrator.manifest import IMPORTED_FROM, Manifest
from orchestrator.records import stop_reason_name
from orchestrator.turns import reply_places

__all__ = ["CHECKS", "Check", "audit_episode", "checks_of"]

Check = Callable[[episode_pb2.Episode, Manifest], Iterator[str]]

_ERROR_REASONS: Final = frozenset(
    {
        types_pb2.STOP_REASON_POLICY_ERROR,
        types_pb2.STOP_REASON_ENVIRONMENT_ERROR,
        types_pb2.STOP_REASON_INFRASTRUCTURE_ERROR,
        types_pb2.STOP_REASON_CANCELLED,
    }
)
_CUT_REASONS: Final = frozenset(
    {types_pb2.STOP_REASON_CONTEXT_EXHAUSTED, types_pb2.STOP_REASON_CANCELLED}
)
"""An episode without error may end by these with a reply that was never played."""
_LOGPROB_SLACK: Final = 1e-3
"""Engines round: a certain token may come out slightly above log 1."""


def audit_episode(episode: episode_pb2.Episode, manifest: Manifest) -> list[tuple[str, str]]:
    """Return what is wrong with a record, as pairs (check, sentence); empty = it is sound."""
    checks = checks_of(manifest)
    return [
        (name, problem) for name, check in checks.items() for problem in check(episode, manifest)
    ]


def checks_of(manifest: Manifest) -> Mapping[str, Check]:
    """Return the checks that a run's records can be judged by, by name."""
    if IMPORTED_FROM not in manifest.config:
        return CHECKS
    return {name: check for name, check in CHECKS.items() if name not in _OWN_ONLY}


def _check_identity(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that the record belongs to the run and to an environment of its manifest."""
    if episode.run_id != manifest.run_id:
        yield f"it belongs to run {episode.run_id!r}"
    identities = {identity.name: identity for identity in manifest.environments}
    identity = identities.get(episode.environment)
    if identity is None:
        yield f"the manifest has no environment {episode.environment!r}"
    else:
        if episode.environment_version != identity.version:
            yield f"environment version {episode.environment_version!r}, not {identity.version!r}"
        if episode.environment_digest != identity.digest:
            yield f"environment digest {episode.environment_digest!r}, not {identity.digest!r}"
    if episode.ended_unix_ms < episode.started_unix_ms:
        yield "it ended before it started"


def _check_outcome(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that a failure has no result, and a result is that of the last step."""
    ended_by_error = episode.stop_reason in _ERROR_REASONS
    if episode.HasField("error"):
        for field in ("reward", "score", "success"):
            if episode.HasField(field):
                yield f"it failed and has a {field}"
        if not ended_by_error:
            yield f"it failed and its stop reason is {stop_reason_name(episode.stop_reason)}"
        return
    if ended_by_error and episode.stop_reason != types_pb2.STOP_REASON_CANCELLED:
        yield f"its stop reason is {stop_reason_name(episode.stop_reason)} and no error is recorded"
    imported = IMPORTED_FROM in manifest.config  # others may not say why it ended
    if episode.stop_reason == types_pb2.STOP_REASON_UNSPECIFIED and not imported:
        yield "it has neither an error nor a stop reason"
    if episode.steps:
        yield from _result_problems(episode, episode.steps[-1])
    else:
        yield "it has no steps and no error"


def _result_problems(episode: episode_pb2.Episode, last: episode_pb2.Step) -> Iterator[str]:
    if episode.HasField("reward") and episode.reward != last.reward:
        yield f"its reward is {episode.reward:g}, the last step's {last.reward:g}"
    if episode.HasField("score"):
        expected = recorded_score(last) or 0.0
        if episode.score != expected:
            yield f"its score is {episode.score:g}, the last step's {expected:g}"


def _check_steps(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that steps count from 0, only the reset has no input, nothing follows the end."""
    for index, step in enumerate(episode.steps):
        if step.seq != index:
            yield f"step {index} has seq {step.seq}"
        has_input = step.HasField("input") and step.input.WhichOneof("input") is not None
        if has_input == (index == 0):
            yield f"step {index} has {'an' if has_input else 'no'} input"
        if (step.terminated or step.truncated) and index + 1 < len(episode.steps):
            yield f"steps follow step {index}, which ended the episode"
    if episode.HasField("parent") and episode.parent.turn >= len(episode.steps):
        yield f"it is a branch at turn {episode.parent.turn} and has {len(episode.steps)} steps"


def _check_state_hashes(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that every observation carries the hash of the state behind it."""
    for step in episode.steps:
        if not step.state_hash:
            yield f"step {step.seq} has no state hash"


def _check_conversation(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that observations and replies alternate as the steps do.

    The conversation may stop before the last observation, which nobody replied to. What a branch
    has of its parent is no target: it is not marked as sampled.
    """
    replies = reply_places(episode)
    if not episode.steps:
        if replies:
            yield "the policy replied before the environment was reset"
        return
    turns = list(episode.messages[_first_observation(episode, replies) :])
    steps = episode.steps
    all_turns = 2 * len(steps) - 1
    for position, turn in enumerate(turns[:all_turns]):
        step, is_reply = steps[(position + 1) // 2], position % 2 == 1
        inherited = is_reply and step.seq <= episode.parent.turn
        is_missing = inherited and turn.role != episode_pb2.ROLE_ASSISTANT
        if turn.sampled != (is_reply and not inherited) or is_missing:
            expected = "reply" if is_reply else "observation"
            yield f"the {expected} of step {step.seq} is missing from the conversation"
            return
        yield from _reply_problems(step, turn) if is_reply else _shown_problems(step, turn)
    if len(turns) < max(all_turns - 1, 1):
        yield f"the conversation ends before step {steps[-1].seq} was played"
    yield from _leftover_problems(episode, turns[all_turns:])


def _reply_problems(step: episode_pb2.Step, reply: episode_pb2.Message) -> Iterator[str]:
    # A native action or a tool call is derived from the reply, and how is the policy's business.
    played = step.input.reply if step.input.WhichOneof("input") == "reply" else None
    if played is not None and played not in (reply.text, normalize_reply(reply.text)):
        yield f"step {step.seq} was played with another text than the policy's reply"


def _shown_problems(step: episode_pb2.Step, shown: episode_pb2.Message) -> Iterator[str]:
    if shown.role != episode_pb2.ROLE_USER or shown.text != step.observation:
        yield f"the conversation shows another observation than step {step.seq} gave"
    elif shown.images != step.images:
        yield f"the conversation shows other images than step {step.seq} gave"


def _leftover_problems(
    episode: episode_pb2.Episode, leftover: list[episode_pb2.Message]
) -> Iterator[str]:
    unplayed = sum(turn.sampled for turn in leftover)
    cut_short = episode.HasField("error") or episode.stop_reason in _CUT_REASONS
    if unplayed > int(cut_short):
        yield f"{unplayed} replies were never played"
    if len(leftover) > unplayed:
        yield "messages follow the last observation"


def _first_observation(episode: episode_pb2.Episode, replies: Sequence[int]) -> int:
    """Return the index of the reset's observation: the last user message before a reply."""
    before = range(replies[0] if replies else len(episode.messages))
    users = [index for index in before if episode.messages[index].role == episode_pb2.ROLE_USER]
    return users[-1] if users else 0


def _check_generations(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that policy calls are numbered by turn, one for each reply."""
    for index, call in enumerate(episode.generations):
        if call.turn != index + episode.parent.turn:
            yield f"generation {index} is of turn {call.turn}"
    if not episode.generations and IMPORTED_FROM in manifest.config:
        return  # others recorded what was said, not how it came about
    replies = sum(message.sampled for message in episode.messages)
    # The call that failed may or may not have been recorded; a reply without a call never.
    allowed = {replies, replies + 1}
    if len(episode.generations) not in allowed:
        yield f"{len(episode.generations)} generations for {replies} replies"


def _check_seeds(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that seeds are those that `orchestrator.seeds` derives."""
    names = {"environment": episode.environment, "item_id": episode.item_id}
    expected = seeds.episode_seed(manifest.run_seed, step=manifest.step, **names)
    if episode.seed != expected:
        yield f"its seed is {episode.seed}, derived {expected}"
    for call in episode.generations:
        drawn = seeds.sampling_seed(
            manifest.run_seed, step=manifest.step, sample=episode.sample, turn=call.turn, **names
        )
        if call.sampling_seed not in (drawn, seeds.to_31_bits(drawn)):
            yield f"turn {call.turn} was sampled with seed {call.sampling_seed}, derived {drawn}"


def _check_tokens(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that every sampled token has a logprob, a generation, a version."""
    for index, segment in enumerate(episode.token_segments):
        for problem in _segment_problems(segment, len(episode.generations)):
            yield f"token segment {index}: {problem}"
        if bool(segment.fork_reason) == (index == 0):
            yield f"token segment {index} has {'a' if segment.fork_reason else 'no'} fork reason"
    if episode.token_segments:
        yield from _coverage_problems(episode)


def _check_ledger(episode: episode_pb2.Episode, manifest: Manifest) -> Iterator[str]:
    """Check that each call read all that the ledger held, and its sample follows there."""
    yield from ledger_problems(episode)


def _segment_problems(segment: episode_pb2.TokenSegment, generations: int) -> Iterator[str]:
    size = len(segment.ids)
    for field in ("origins", "logprobs", "generations"):
        if len(getattr(segment, field)) != size:
            yield f"{len(getattr(segment, field))} {field} for {size} ids"
            return
    yield from _entropy_problems(segment)
    spans = list(segment.version_spans)
    yield from _span_problems(segment, size)
    covered = _covered(spans, size)
    latest = 0
    for position, origin in enumerate(segment.origins):
        logprob, generation = segment.logprobs[position], segment.generations[position]
        if origin == episode_pb2.TOKEN_ORIGIN_SAMPLED:
            yield from _sampled_problems(position, logprob, generation, generations, latest)
            latest = max(latest, generation)
            if not covered[position]:
                yield f"sampled token {position} lies in no version span"
        elif origin not in (episode_pb2.TOKEN_ORIGIN_CONTEXT, episode_pb2.TOKEN_ORIGIN_FORCED):
            yield f"token {position} has no origin"
        elif logprob != 0 or generation != 0:
            yield f"token {position} was not sampled and has a logprob or a generation"


def _sampled_problems(
    position: int, logprob: float, generation: int, generations: int, latest: int
) -> Iterator[str]:
    if not math.isfinite(logprob) or logprob > _LOGPROB_SLACK:
        yield f"sampled token {position} has the logprob {logprob}"
    if not 1 <= generation <= generations:
        yield f"sampled token {position} names generation {generation} of {generations}"
    elif generation < latest:
        yield f"sampled token {position} is of generation {generation}, after one of {latest}"


def _entropy_problems(segment: episode_pb2.TokenSegment) -> Iterator[str]:
    """Check entropies, which an engine tells of all sampled tokens or of none."""
    if segment.entropies and len(segment.entropies) != len(segment.ids):
        yield f"{len(segment.entropies)} entropies for {len(segment.ids)} ids"
        return
    for position, entropy in enumerate(segment.entropies):
        sampled = segment.origins[position] == episode_pb2.TOKEN_ORIGIN_SAMPLED
        if not math.isfinite(entropy) or entropy < -_LOGPROB_SLACK or (entropy and not sampled):
            yield f"token {position} has the entropy {entropy}"


def _span_problems(segment: episode_pb2.TokenSegment, size: int) -> Iterator[str]:
    end = 0
    for span in segment.version_spans:
        if not end <= span.start < span.end <= size:
            yield f"version span [{span.start}, {span.end}) overlaps, is empty or out of order"
        if span.version >= len(segment.policy_versions):
            yield f"version span [{span.start}, {span.end}) names an unknown version"
        end = max(end, span.end)


def _covered(spans: list[episode_pb2.VersionSpan], size: int) -> list[bool]:
    covered = [False] * size
    for span in spans:
        for position in range(span.start, min(span.end, size)):
            covered[position] = True
    return covered


def _coverage_problems(episode: episode_pb2.Episode) -> Iterator[str]:
    """Check that each reply's tokens are in the ledger, no more than the engine counted."""
    sampled: dict[int, int] = {}
    for segment in episode.token_segments:
        here: dict[int, int] = {}
        for generation in segment.generations:
            here[generation] = here.get(generation, 0) + 1
        # A fork repeats earlier tokens; the longest appearance is the reply itself.
        sampled = {call: max(sampled.get(call, 0), here.get(call, 0)) for call in sampled | here}
    for index, call in enumerate(episode.generations, start=1):
        recorded = sampled.get(index, 0)
        if recorded > call.completion_tokens:
            yield f"turn {call.turn} has {recorded} tokens of {call.completion_tokens} sampled"
        if call.completion_tokens and not recorded and not episode.HasField("error"):
            yield f"turn {call.turn} has no tokens in any segment"


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "identity": _check_identity,
        "outcome": _check_outcome,
        "steps": _check_steps,
        "state_hashes": _check_state_hashes,
        "conversation": _check_conversation,
        "generations": _check_generations,
        "seeds": _check_seeds,
        "tokens": _check_tokens,
        "ledger": _check_ledger,
    }
)
"""Every check by name; a certificate counts each."""
_OWN_ONLY: Final = frozenset({"state_hashes", "seeds"})
"""Checks of what only this program records."""
