"""The conversation of one episode: an append-only list of messages."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from agent_runtime.images import Image
from agentgym.episode.v1 import episode_pb2

__all__ = ["CHAT_ROLES", "Message", "Role", "normalize_reply"]


class Role(IntEnum):
    """Who speaks; values equal those of `agentgym.episode.v1.Role`."""

    SYSTEM = episode_pb2.ROLE_SYSTEM
    USER = episode_pb2.ROLE_USER
    ASSISTANT = episode_pb2.ROLE_ASSISTANT


CHAT_ROLES: Final = {Role.SYSTEM: "system", Role.USER: "user", Role.ASSISTANT: "assistant"}
"""What chat templates and chat APIs call who speaks."""


class Message(NamedTuple):
    """One message; `sampled` marks what the policy wrote."""

    role: Role
    text: str
    sampled: bool = False
    images: tuple[Image, ...] = ()
    """What was shown with the text."""


def normalize_reply(text: str) -> str:
    """Return a model's reply as the environment is to see it.

    A trailing `</s>` goes, as in the original; code points that no UTF-8 text can hold become
    U+FFFD, so that every reply can travel.
    """
    text = text.removesuffix("</s>")
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
