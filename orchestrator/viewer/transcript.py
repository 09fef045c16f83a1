"""One record as the pages show it: what was said and done by turns, and its tokens. Pure.

Turn 0 is the reset. Turn n is the n-th reply of the policy and what came of it. Long texts are cut;
`whole_text` gives them whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToJson
from google.protobuf.struct_pb2 import Struct

from agentgym.env.v1 import types_pb2
from agentgym.episode.v1 import episode_pb2
from orchestrator.errors import UsageError
from orchestrator.formats.messages import role_name
from orchestrator.records import blamed, enum_name, fault_name, stop_reason_name
from orchestrator.turns import call_of_turn, reply_places

__all__ = ["as_data", "token_data", "whole_text"]

_SHOWN: Final = 20_000
"""Characters of a text that a page gets unasked."""


def as_data(episode: episode_pb2.Episode) -> dict[str, Any]:
    """Return an episode as JSON data; 64-bit numbers that JavaScript has not are texts."""
    return {
        "environment_version": episode.environment_version,
        "environment_digest": episode.environment_digest,
        "seed": str(episode.seed),
        "action_format": enum_name(types_pb2.ActionFormat, episode.action_format),
        "profile": episode.profile,
        "options": _json(episode.options),
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "error": _error(episode.error) if episode.HasField("error") else None,
        "turns": _turns(episode),
        "segments": [
            {"tokens": len(segment.ids), "fork_reason": segment.fork_reason}
            for segment in episode.token_segments
        ],
    }


def whole_text(episode: episode_pb2.Episode, part: str, index: int) -> str:
    """Return a text uncut; raises UsageError where the episode has no such one."""
    texts: dict[str, Sequence[str]] = {
        "message": [message.text for message in episode.messages],
        "input": [_input_text(step.input) for step in episode.steps],
        "action": [step.parsed_action for step in episode.steps],
        "observation": [step.observation for step in episode.steps],
        "info": [_json(step.info) for step in episode.steps],
        "reasoning": [call.reasoning for call in episode.generations],
        "error": [episode.error.message],
    }
    if part not in texts:
        raise UsageError(f"an episode has no {part!r}", valid=texts)
    if not 0 <= index < len(texts[part]):
        raise UsageError(f"the episode has {len(texts[part])} texts of {part}, none is {index}")
    return texts[part][index]


def token_data(episode: episode_pb2.Episode, number: int) -> dict[str, Any]:
    """Return a segment of the token ledger as parallel lists; raises UsageError."""
    if not 0 <= number < len(episode.token_segments):
        raise UsageError(f"the episode has {len(episode.token_segments)} token segments")
    segment = episode.token_segments[number]
    versions = [-1] * len(segment.ids)
    for span in segment.version_spans:
        versions[span.start : span.end] = [span.version] * (span.end - span.start)
    return {
        "fork_reason": segment.fork_reason,
        "ids": list(segment.ids),
        "origins": [enum_name(episode_pb2.TokenOrigin, it).lower() for it in segment.origins],
        "logprobs": list(segment.logprobs),
        "entropies": list(segment.entropies),
        "kept": _kept(episode.token_segments[number - 1], segment) if number else 0,
        "generations": list(segment.generations),
        "versions": versions,
        "policy_versions": list(segment.policy_versions),
    }


def _kept(before: episode_pb2.TokenSegment, segment: episode_pb2.TokenSegment) -> int:
    """Return how many leading ids a segment has as the one before it: the rest was rewritten."""
    pairs = zip(before.ids, segment.ids, strict=False)
    shorter = min(len(before.ids), len(segment.ids))
    return next((place for place, (old, new) in enumerate(pairs) if old != new), shorter)


def _turns(episode: episode_pb2.Episode) -> list[dict[str, Any]]:
    """Return the turns: the n-th reply with its call, and the step that it caused."""
    turns: list[dict[str, Any]] = [_turn(episode, 0, None)]
    replies = set(reply_places(episode))
    for index, message in enumerate(episode.messages):
        if index in replies:
            turns.append(_turn(episode, len(turns), _cut(message.text, "message", index)))
        elif message.text != _observation(episode, len(turns) - 1):
            # Mostly the policy was told the observation itself, which is there already.
            said = _cut(message.text, "message", index)
            turns[-1]["told"].append({"role": role_name(message.role), **said})
    calls = episode.parent.turn + len(episode.generations) if episode.generations else 0
    while len(turns) < max(len(episode.steps), calls + 1):
        turns.append(_turn(episode, len(turns), None))
    return turns


def _turn(
    episode: episode_pb2.Episode, number: int, reply: dict[str, Any] | None
) -> dict[str, Any]:
    call = call_of_turn(episode, number)
    has_step = number < len(episode.steps)
    return {
        "turn": number,
        "reply": reply,
        "inherited": 0 < number <= episode.parent.turn,
        "call": _call(call, number - 1 - episode.parent.turn) if call is not None else None,
        "step": _step(episode.steps[number], number) if has_step else None,
        "told": [],
    }


def _observation(episode: episode_pb2.Episode, turn: int) -> str | None:
    return episode.steps[turn].observation if turn < len(episode.steps) else None


def _step(step: episode_pb2.Step, index: int) -> dict[str, Any]:
    kind = step.input.WhichOneof("input")
    return {
        "input_kind": kind,
        # A reply stands in the conversation.
        "input": None if kind in (None, "reply") else _cut(_input_text(step.input), "input", index),
        "action": _cut(step.parsed_action, "action", index)
        if step.HasField("parsed_action")
        else None,
        "observation": _cut(step.observation, "observation", index),
        "images": list(step.images),
        "reward": step.reward if step.HasField("reward") else None,
        "score": step.score if step.HasField("score") else None,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "stop_reason": stop_reason_name(step.stop_reason) if step.stop_reason else "",
        "state_hash": step.state_hash.hex(),
        "seconds": step.seconds if step.HasField("seconds") else None,
        "info": _cut(_json(step.info), "info", index) if step.info.fields else None,
    }


def _input_text(sent: types_pb2.ActionInput) -> str:
    if sent.WhichOneof("input") == "tool_call":
        return f"{sent.tool_call.name} {sent.tool_call.arguments_json}"
    return sent.reply or sent.action


def _call(call: episode_pb2.Generation, index: int) -> dict[str, Any]:
    return {
        "reasoning": _cut(call.reasoning, "reasoning", index) if call.reasoning else None,
        "finish_reason": call.finish_reason,
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cached_tokens": call.cached_tokens,
        "reasoning_tokens": call.reasoning_tokens,
        "sampling_seed": str(call.sampling_seed),
        "seconds": call.seconds,
        "policy_version": call.policy_version,
        "cost_usd": call.cost_usd if call.HasField("cost_usd") else None,
        "repeats": dict(call.repeats),
        "same_completion": call.same_completion,
        "from_cache": call.from_cache,
        "policy": call.policy,
    }


def _error(error: episode_pb2.EpisodeError) -> dict[str, Any]:
    fault = fault_name(error.fault)
    return {
        "reason": error.reason,
        "message": _cut(error.message, "error", 0),
        "fault": fault,
        "blamed": blamed(fault),
        "retriable": error.retriable,
        "at_seq": error.at_seq,
    }


def _cut(text: str, part: str, index: int) -> dict[str, Any]:
    return {"text": text[:_SHOWN], "length": len(text), "part": part, "index": index}


def _json(message: Struct) -> str:
    return MessageToJson(message, indent=1, ensure_ascii=False)
