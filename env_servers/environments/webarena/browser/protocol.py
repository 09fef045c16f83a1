"""The browser's protocol, as far as this package speaks it: commands, answers, events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Event", "ProtocolSession"]

Event = dict[str, Any]


class ProtocolSession(Protocol):
    """A session with a page or with the whole browser: Playwright's, typed."""

    async def send(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return a command's answer."""
        ...

    def on(self, event: str, f: Callable[[Event], None]) -> object:
        """Call a function for each event of a name."""
        ...
