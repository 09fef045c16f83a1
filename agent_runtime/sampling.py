"""How replies are sampled, and why they ended: the words that policies and engines share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["FinishReason", "Precision", "Sampling"]

Precision = Literal["auto", "float32", "bfloat16", "float16"]
"""Number format of weights and computation."""


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"
    """The policy ended its turn."""
    LENGTH = "length"
    """max_new_tokens was reached."""
    CONTEXT = "context"
    """The context cannot hold another turn; the reply is empty or cut."""
    ABORT = "abort"
    """It was aborted from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample; shared by all turns of a run."""

    temperature: float = 1.0
    """0 = greedy."""
    top_p: float = 1.0
    """Sample from the most likely tokens that together have this probability; 1 = all."""
    top_k: int = -1
    """Sample from this many of the most likely tokens; -1 = all."""
    max_new_tokens: int = 512
    """Longest reply, in tokens."""
    stop: tuple[str, ...] = ()
    """Strings that end a reply; the reply's text is cut before them."""

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError("temperature is at least 0, top_p above 0 and at most 1")
        if self.max_new_tokens < 1 or not (self.top_k == -1 or self.top_k >= 1):
            raise ValueError("max_new_tokens is at least 1, top_k at least 1 or -1")
