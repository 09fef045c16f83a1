"""A command that was sent and waits for the event that answers it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from agentgym.env.v1 import environment_pb2 as pb

__all__ = ["Pending", "StreamBroke"]

_ANSWERS: Final = {
    "attach": "attached",
    "consult": "advice",
    "cancel": "cancelled",
    "heartbeat": "lease_extended",
    "close": "closed",
}
"""What answers a command; an observation where it is not listed."""


class StreamBroke(Exception):
    """Raised for a command that was in flight when its server ended or its stream choked.

    It may be what did it: whoever sends it again should know how often that has happened.
    """

    def __init__(self, cause: str, *, by_message: bool) -> None:
        """`by_message`: the stream alone broke, of a message that is too large for it."""
        super().__init__(cause)
        self.by_message = by_message


class Pending:
    """A command that waits for its event; kept so that it can be sent again."""

    __slots__ = (
        "action_format",
        "answer",
        "body",
        "deadline_ms",
        "episode_id",
        "future",
        "seq",
        "value",
    )

    def __init__(
        self,
        episode_id: str,
        seq: int,
        body: str,
        value: Any,
        future: asyncio.Future[pb.Event],
        action_format: int = 0,
        deadline_ms: int = 0,
    ) -> None:
        """Describe a command.

        Args:
            episode_id: The episode that it is for.
            seq: Its number within the episode; sent again, it keeps it.
            body: Name of the command's field, for example "reply" or "attach".
            value: What that field gets: a text for `action` and `reply`, else a message.
            future: Gets the event that answers it.
            action_format: How a `reply` is to be read; 0 = as the episode was opened.
            deadline_ms: Milliseconds until the server gives up; 0 = its own limit.
        """
        self.episode_id = episode_id
        self.seq = seq
        self.body = body
        self.answer = _ANSWERS.get(body, "observation")
        """Field of the event that answers it, where no error does."""
        self.value = value
        self.future = future
        self.action_format = action_format
        self.deadline_ms = deadline_ms

    def fill(self, command: pb.Command) -> None:
        """Write the command into a message that is about to be sent."""
        command.episode_id = self.episode_id
        command.seq = self.seq
        body = self.body
        if body == "action":
            command.action = self.value
        elif body == "reply":
            command.reply = self.value
            if self.action_format:
                command.action_format = self.action_format  # pyright: ignore[reportAttributeAccessIssue]
        else:
            getattr(command, body).CopyFrom(self.value)
        if self.deadline_ms:
            command.deadline_ms = self.deadline_ms
