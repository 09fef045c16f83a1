"""What a policy is: from a conversation to the next reply.

A `Policy` is shared by all episodes of a run; it opens one `PolicySession` per episode, which owns
what that episode accumulates (token ledger, cache affinity). Sessions are single-shot: they raise
typed errors and never retry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from agent_runtime.conversation import Message
from agentgym.env.v1 import environment_pb2, types_pb2
from agentgym.episode.v1 import episode_pb2

__all__ = [
    "Completion",
    "EpisodeContext",
    "FinishReason",
    "LiveEpisode",
    "Policy",
    "PolicySession",
    "Sampling",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One reply of a policy."""

    text: str
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    policy_version: str = ""
    """The version that the engine reported; empty = none reported."""
    cost_usd: float | None = None
    """None = prices unknown."""


class LiveEpisode(Protocol):
    """The part of a live environment episode that scripted policies may use."""

    async def consult(self, advisor: environment_pb2.Advisor, seed: int) -> environment_pb2.Advice:
        """A scripted player's advice for the current state; changes nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeContext:
    """What a session may know of its episode when it opens."""

    episode_id: str
    environment: str
    item_id: str
    action_format: types_pb2.ActionFormat
    live: LiveEpisode
    tools_json: str = "[]"
    """The environment's functions as a JSON list of OpenAI-style tools."""


class PolicySession(ABC):
    """A policy's side of one episode."""

    @abstractmethod
    async def reply(self, messages: Sequence[Message], *, turn: int, seed: int) -> Completion:
        """The next reply to an append-only conversation whose last message is the user's.

        `turn` counts replies from 0; `seed` is the sampling seed of this turn. Raises PolicyError.
        """

    def token_segments(self) -> list[episode_pb2.TokenSegment]:
        """The token ledger; empty for text-only policies."""
        return []

    async def close(self) -> None:
        """Abort what is in flight and release what the session holds."""


class Policy(ABC):
    """A source of replies for many episodes at once."""

    name: str = ""
    """Identifies the policy in records, for example `openai:gpt-x`."""

    def identity(self) -> Mapping[str, str]:
        """What decides the replies beyond the configuration, known once the policy is started:
        weights, and what computes them. Recorded; a resumed run must find the same.
        """
        return {}

    @abstractmethod
    def open(self, context: EpisodeContext) -> PolicySession:
        """A session for one episode."""

    async def start(self) -> None:
        """Connect and check; called once before the first session. Raises PolicyError."""

    async def close(self) -> None:
        """Release connections."""
