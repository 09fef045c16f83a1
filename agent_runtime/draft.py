"""The reply that a policy is writing, for whoever watches the episode.

While nobody does, a policy asks `wanted`, which is an attribute, and does nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Draft"]


class Draft:
    """A reply as far as it is written; told and read in the event loop's thread."""

    __slots__ = ("_read", "_text", "on_change")

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None
        """Is called when there is more of the reply; None = nobody watches."""
        self._read: Callable[[], str] | None = None
        self._text = ""

    @property
    def wanted(self) -> bool:
        """Whether anybody watches now; any thread may ask."""
        return self.on_change is not None

    def write(self, read: Callable[[], str]) -> None:
        """Take the reply so far, as what reads it: decoding all tokens for each of them is dear."""
        self._read = read
        if self.on_change is not None:
            self.on_change()

    def clear(self) -> None:
        """Begin another reply."""
        self._read, self._text = None, ""

    def text(self) -> str:
        """Return the reply so far; empty where the policy does not tell."""
        if self._read is not None:
            self._text, self._read = self._read(), None
        return self._text
