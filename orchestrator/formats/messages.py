"""Messages JSONL: the chat format of OpenAI-style and Hugging Face trainers, with metadata.

Each line is `{"messages": [{"role", "content"}, ...], "sampled": [bool, ...], ...}`; `sampled` is
parallel to `messages` and marks what the policy wrote, hence what to train on. The conversation is
whole, the last observation included.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import JsonLinesWriter, metadata

__all__ = ["MessagesWriter", "role_name"]

_ROLES: Final = MappingProxyType(
    {
        episode_pb2.ROLE_SYSTEM: "system",
        episode_pb2.ROLE_USER: "user",
        episode_pb2.ROLE_ASSISTANT: "assistant",
    }
)


def role_name(role: episode_pb2.Role) -> str:
    """Return `system`, `user` or `assistant`; what has no role was said to the policy."""
    return _ROLES.get(role, "user")


class MessagesWriter(JsonLinesWriter):
    """Writes messages with the record's columns beside them."""

    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        return {
            "messages": [
                {"role": role_name(message.role), "content": message.text}
                for message in episode.messages
            ],
            "sampled": [message.sampled for message in episode.messages],
            **metadata(episode),
        }
