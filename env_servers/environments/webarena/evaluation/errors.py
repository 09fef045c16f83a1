"""What can keep an answer from being scored.

    EvaluationFailed                base: there is no score, which is not a score of 0
    ├── UnusableCriteria            the task's criteria are not what they should be
    ├── UnreadableVerdict           the judge said none of the words that it may say
    └── PageFailed                  a page could not be opened or asked

The original shows the text of its exception to the agent and lets the episode go on: `shown` is
that text, the error's own message says more.
"""

from __future__ import annotations

__all__ = ["EvaluationFailed", "PageFailed", "UnreadableVerdict", "UnusableCriteria"]


class EvaluationFailed(Exception):
    """Base of the evaluation's errors."""

    def __init__(self, message: str, *, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = message if shown is None else shown
        """What the original shows in this case."""


class UnusableCriteria(EvaluationFailed):
    """Raised when the criteria of a task cannot be applied."""


class UnreadableVerdict(EvaluationFailed):
    """Raised when a judge's answer is no verdict."""


class PageFailed(EvaluationFailed):
    """Raised by a page for an address that does not open, or a script that fails."""
