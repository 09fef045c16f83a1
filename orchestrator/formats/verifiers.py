"""JSONL as `vf-eval` of verifiers 0.1 saves it: `results.jsonl`, one rollout per line.

`prompt` is what was said before the policy's first reply, `completion` all from there on. Where an
episode has no reward, `reward` is null, which verifiers itself would write as 0. Later versions of
verifiers save traces of another form.
Source: https://github.com/PrimeIntellect-ai/verifiers (`verifiers/utils/save_utils.py`)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import JsonLinesWriter, metadata
from orchestrator.formats.messages import role_name

__all__ = ["VerifiersWriter"]


class VerifiersWriter(JsonLinesWriter):
    """Numbers the items of a file, which is how verifiers groups rollouts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._examples: dict[tuple[str, str], int] = {}

    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        item = episode.environment, episode.item_id
        replies = (at for at, message in enumerate(episode.messages) if message.sampled)
        messages = [{"role": role_name(it.role), "content": it.text} for it in episode.messages]
        first = next(replies, len(messages))
        metrics = _metrics(episode)
        data: dict[str, Any] = {
            "example_id": self._examples.setdefault(item, len(self._examples)),
            "prompt": messages[:first],
            "completion": messages[first:],
            "task": episode.environment,
            "info": metadata(episode),
            "reward": episode.reward if episode.HasField("reward") else None,
            "error": _error(episode.error) if episode.HasField("error") else None,
            "timing": _timing(episode),
            "is_completed": not episode.HasField("error"),
            "is_truncated": episode.truncated,
            "stop_condition": metadata(episode)["stop_reason"].lower(),
            "metrics": metrics,
        }
        if episode.generations:
            data["token_usage"] = {
                "input_tokens": float(sum(it.prompt_tokens for it in episode.generations)),
                "output_tokens": float(sum(it.completion_tokens for it in episode.generations)),
            }
        return data | metrics


def _metrics(episode: episode_pb2.Episode) -> dict[str, float]:
    """Return the other figures; one that the episode does not have is left out."""
    names = ("score", "success")
    return {name: float(getattr(episode, name)) for name in names if episode.HasField(name)}


def _error(error: episode_pb2.EpisodeError) -> dict[str, str]:
    whole = f"{error.reason}: {error.message}"
    return {"error": error.reason, "error_chain_repr": whole, "error_chain_str": whole}


def _timing(episode: episode_pb2.Episode) -> dict[str, Any]:
    """Return seconds; when the parts of an episode began is not recorded, so that they are 0."""
    begun, ended = episode.started_unix_ms / 1000, episode.ended_unix_ms / 1000
    return {
        "start_time": begun,
        "generation": {"start": begun, "end": ended, "duration": ended - begun},
        "model": {"spans": [], "duration": episode.policy_seconds},
        "env": {"spans": [], "duration": episode.environment_seconds},
    }
