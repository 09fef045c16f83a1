"""Errors that environments and task sets raise about what they were asked for.

    SdkError                        base: anything below
    ├── UnknownItem                 no such item id
    ├── UnknownSplit                no such split
    ├── UnknownEnvironment          no such environment
    ├── InvalidOption               profile, option or option value that does not exist
    └── EnvironmentUnavailable      engine or data missing; says what to install or fetch

An invalid *agent action* is never an error: the environment answers it with an observation.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "EnvironmentUnavailable",
    "InvalidOption",
    "SdkError",
    "UnknownEnvironment",
    "UnknownItem",
    "UnknownSplit",
]


class SdkError(Exception):
    """Base of the SDK's errors; `valid` tells what would have been right."""

    retry_after: float | None = None
    """Seconds after which the same may succeed, where somebody said so."""

    def __init__(self, message: str, *, valid: str | Iterable[str] = "") -> None:
        self.valid = valid if isinstance(valid, str) else ", ".join(valid)
        super().__init__(f"{message} (valid: {self.valid})" if self.valid else message)


class UnknownItem(SdkError):
    """Raised when a task set has no such item id."""


class UnknownSplit(SdkError):
    """Raised when a task set has no such split."""


class UnknownEnvironment(SdkError):
    """Raised when no environment of that name is registered or importable."""


class InvalidOption(SdkError):
    """Raised when a profile, option or option value does not exist."""


class EnvironmentUnavailable(SdkError):
    """Raised when an environment's engine or data is not installed; the message says what to do."""
