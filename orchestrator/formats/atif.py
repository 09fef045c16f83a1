"""ATIF: Harbor's Agent Trajectory Interchange Format, version 1.7, one trajectory per line.

A reply and the observation that it led to are one step of the agent; what was put into its mouth is
a step without a model call. Sampled token ids and logprobs go along where the policy kept a ledger.
What the format has no field for (reward, score, state hashes) is in `extra`; `orchestrator.imports`
reads it back. Images of observations are left out: in this format they are files beside the
trajectory, and this is one file of many trajectories.
Source: https://harborframework.com/docs/trajectory-format
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.json_format import MessageToDict

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import JsonLinesWriter, metadata
from orchestrator.turns import call_of_turn, reply_places

__all__ = ["RECORD_FIELDS", "AtifWriter", "to_trajectory"]

_VERSION: Final = "ATIF-v1.7"
RECORD_FIELDS: Final = (
    *("seed", "action_format", "profile", "options", "parent", "generations", "token_segments"),
    *("terminated", "truncated", "error", "ended_unix_ms"),
    *("environment_seconds", "policy_seconds"),
)
"""Of a record, kept as they are in `extra.record`."""


class AtifWriter(JsonLinesWriter):
    """Writes one trajectory per line; each alone is a `trajectory.json`."""

    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        return to_trajectory(episode)


def to_trajectory(episode: episode_pb2.Episode) -> dict[str, Any]:
    """Return an episode as an ATIF trajectory."""
    begun = datetime.fromtimestamp(episode.started_unix_ms / 1000, UTC).isoformat()
    versions = [it.policy_version for it in episode.generations if it.policy_version]
    steps = _steps(episode)
    # The format has no empty trajectory: an episode that failed before it was told anything.
    steps = steps or [{"source": "system", "message": episode.error.message}]
    return {
        "schema_version": _VERSION,
        "session_id": episode.run_id,
        "trajectory_id": episode.episode_id,
        "agent": {"name": episode.policy, "version": versions[-1] if versions else "unknown"},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
        "final_metrics": _final_metrics(episode, len(steps)),
        "extra": {"begun": begun, **metadata(episode), "record": _record(episode)},
    }


def _record(episode: episode_pb2.Episode) -> dict[str, Any]:
    whole = MessageToDict(episode, preserving_proto_field_name=True, use_integers_for_enums=True)
    return {name: whole[name] for name in RECORD_FIELDS if name in whole}


def _steps(episode: episode_pb2.Episode) -> list[dict[str, Any]]:
    tokens = _sampled_tokens(episode)
    replies = set(reply_places(episode))
    steps: list[dict[str, Any]] = []
    turn = 0
    for index, message in enumerate(episode.messages):
        if index in replies:
            turn += 1
            steps.append(_agent_step(episode, turn, message.text, tokens))
        elif message.role == episode_pb2.ROLE_ASSISTANT:
            steps.append({"source": "agent", "message": message.text, "llm_call_count": 0})
        elif not (0 < turn < len(episode.steps) and message.text == _observed(episode, turn)):
            source = "system" if message.role == episode_pb2.ROLE_SYSTEM else "user"
            steps.append({"source": source, "message": message.text})
    return steps


def _observed(episode: episode_pb2.Episode, turn: int) -> str:
    return episode.steps[turn].observation


def _agent_step(
    episode: episode_pb2.Episode,
    turn: int,
    reply: str,
    tokens: dict[int, tuple[list[int], list[float]]],
) -> dict[str, Any]:
    step: dict[str, Any] = {"source": "agent", "message": reply}
    call = call_of_turn(episode, turn)
    if call is not None:
        if call.reasoning:
            step["reasoning_content"] = call.reasoning
        step["metrics"] = _metrics(call, tokens.get(turn - episode.parent.turn))
        step["llm_call_count"] = 1
    if turn <= episode.parent.turn:
        step["is_copied_context"] = True
    if turn < len(episode.steps):
        played = episode.steps[turn]
        result: dict[str, Any] = {"content": played.observation}
        if played.input.HasField("tool_call"):
            result["source_call_id"] = f"call-{turn}"
            step["tool_calls"] = [_tool_call(played, turn)]
        step["observation"] = {"results": [result]}
        step["extra"] = {
            "action": played.parsed_action if played.HasField("parsed_action") else None,
            "reward": played.reward if played.HasField("reward") else None,
            "score": played.score if played.HasField("score") else None,
            "state_hash": played.state_hash.hex(),
        }
    return step


def _tool_call(played: episode_pb2.Step, turn: int) -> dict[str, Any]:
    call = played.input.tool_call
    try:
        arguments: object = json.loads(call.arguments_json or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):  # what the model wrote is kept, though it is no object
        arguments = {"arguments_json": call.arguments_json}
    return {"tool_call_id": f"call-{turn}", "function_name": call.name, "arguments": arguments}


def _metrics(
    call: episode_pb2.Generation, sampled: tuple[list[int], list[float]] | None
) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "prompt_tokens": call.prompt_tokens,
        "completion_tokens": call.completion_tokens,
        "cached_tokens": call.cached_tokens,
    }
    if call.HasField("cost_usd"):
        metrics["cost_usd"] = call.cost_usd
    if sampled is not None:
        metrics["completion_token_ids"], metrics["logprobs"] = sampled
    return metrics


def _sampled_tokens(episode: episode_pb2.Episode) -> dict[int, tuple[list[int], list[float]]]:
    """Sampled ids and their logprobs by the call that sampled them, from 1."""
    found: dict[int, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
    for segment in episode.token_segments:
        columns = zip(
            segment.ids, segment.origins, segment.logprobs, segment.generations, strict=True
        )
        for token, origin, logprob, generation in columns:
            if origin == episode_pb2.TOKEN_ORIGIN_SAMPLED:
                ids, logprobs = found[generation]
                ids.append(token)
                logprobs.append(logprob)
    return found


def _final_metrics(episode: episode_pb2.Episode, steps: int) -> dict[str, Any]:
    calls = episode.generations
    metrics: dict[str, Any] = {
        "total_prompt_tokens": sum(it.prompt_tokens for it in calls),
        "total_completion_tokens": sum(it.completion_tokens for it in calls),
        "total_cached_tokens": sum(it.cached_tokens for it in calls),
        "total_steps": steps,
    }
    if calls and all(it.HasField("cost_usd") for it in calls):
        metrics["total_cost_usd"] = sum(it.cost_usd for it in calls)
    return metrics
