"""AgentTraj: the format of the AgentTraj and AgentTraj-L datasets, readable by their tools.

One JSON list of `{"conversations": [{"from", "loss", "value"}, ...], "item_id"}`. The rule of
`loss`: null for what the policy was told (`human`), true for what it wrote, false for what was put
into its mouth (the acknowledgement). As there, a conversation ends with the policy's last reply.
Source: https://huggingface.co/datasets/AgentGym/AgentTraj-L
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import EpisodeWriter, dump_json, trained_turns

__all__ = ["AgentTrajWriter", "to_conversation"]


def to_conversation(episode: episode_pb2.Episode) -> dict[str, Any]:
    """Return one entry of an AgentTraj file.

    The format has no system role: a system message goes before the next human one.
    """
    turns: list[dict[str, Any]] = []
    system: list[str] = []
    for message in trained_turns(episode):
        if message.role == episode_pb2.ROLE_SYSTEM:
            system.append(message.text)
        elif message.role == episode_pb2.ROLE_ASSISTANT:
            turns.append({"from": "gpt", "loss": message.sampled, "value": message.text})
        else:
            value = "\n\n".join([*system, message.text])
            system.clear()
            turns.append({"from": "human", "loss": None, "value": value})
    return {"conversations": turns, "item_id": episode.item_id}


class AgentTrajWriter(EpisodeWriter):
    """Writes one JSON list, one conversation per line."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8", newline="\n")
        self._opening = "[\n"

    def write(self, episode: episode_pb2.Episode) -> None:
        self._stream.write(self._opening + dump_json(to_conversation(episode)))
        self._opening = ",\n"

    def close(self) -> None:
        self._stream.write("[]\n" if self._opening == "[\n" else "\n]\n")
        self._stream.close()
