"""What the evaluators need of a browser's page."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Page"]


class Page(Protocol):
    """The current page of an episode. Every method raises PageFailed where the page cannot."""

    @property
    def url(self) -> str:
        """Address of the page as it is now."""
        ...

    async def content(self) -> str:
        """Return the page as HTML, as scripts have left it."""
        ...

    async def evaluate(self, expression: str) -> object:
        """Return the value of a JavaScript expression: None, bool, number, str, list or dict."""
        ...

    async def run(self, statement: str) -> None:
        """Run a JavaScript statement, and wait for what it began."""
        ...

    async def goto(self, url: str) -> None:
        """Open an address and wait until the page is settled."""
        ...
