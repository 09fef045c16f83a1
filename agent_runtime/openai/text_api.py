"""What the APIs have in common that speak in messages: chat completions and responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from agent_runtime.openai.answer import Answer, Turn

__all__ = ["TextApi"]


class TextApi(Protocol):
    """How one episode speaks with a server; holds no state."""

    path: ClassVar[str]
    """Where requests go, under the base address."""

    def request(self, turns: Sequence[Turn], seed: int) -> dict[str, Any]:
        """Return the body that asks for the next reply."""
        ...

    def read(self, body: Mapping[str, Any], turn: int) -> Answer:
        """Read the answer of a turn of the episode.

        Raises:
            PolicyError: It is none, with a trouble where it may be better the next time; or it
                says that the server failed, or refused the conversation.
        """
        ...
