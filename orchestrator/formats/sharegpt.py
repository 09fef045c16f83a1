"""ShareGPT JSONL: `{"conversations": [{"from", "value"}, ...], "id", ...}`, for SFT trainers.

`from` is `system`, `human` or `gpt`; a conversation ends with the policy's last reply, because
readers of this format pair the turns.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import JsonLinesWriter, metadata, trained_turns

__all__ = ["ShareGptWriter"]

_SPEAKERS: Final = MappingProxyType(
    {episode_pb2.ROLE_SYSTEM: "system", episode_pb2.ROLE_ASSISTANT: "gpt"}
)


class ShareGptWriter(JsonLinesWriter):
    """Writes conversations with the record's columns beside them."""

    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        return {
            "conversations": [
                {"from": _SPEAKERS.get(message.role, "human"), "value": message.text}
                for message in trained_turns(episode)
            ],
            "id": episode.episode_id,
            **metadata(episode),
        }
