"""OpenAI's fine-tuning JSONL: conversations alone, with a weight for every assistant message.

The service refuses keys that it does not know, so that records' columns are left out. `weight` is 1
for what the policy wrote and 0 for what was put into its mouth, or was played by another. Images of
observations are parts of the user's messages, as addresses that hold them.
Source: https://platform.openai.com/docs/api-reference/fine-tuning/chat-input
"""

from __future__ import annotations

from typing import Any

from agent_runtime.images import shown_images
from agent_runtime.openai.chat import content_parts
from agentgym.episode.v1 import episode_pb2
from orchestrator.formats.base import JsonLinesWriter, trained_turns
from orchestrator.formats.messages import role_name

__all__ = ["OpenAiChatWriter"]


class OpenAiChatWriter(JsonLinesWriter):
    """Writes the conversation up to the policy's last reply."""

    keeps_images = True

    def to_data(self, episode: episode_pb2.Episode) -> dict[str, Any]:
        messages: list[dict[str, Any]] = []
        for message in trained_turns(episode):
            shown = shown_images(message, episode.images)
            content = content_parts(message.text, shown) if shown else message.text
            data: dict[str, Any] = {"role": role_name(message.role), "content": content}
            if message.role == episode_pb2.ROLE_ASSISTANT:
                data["weight"] = int(message.sampled)
            messages.append(data)
        return {"messages": messages}
