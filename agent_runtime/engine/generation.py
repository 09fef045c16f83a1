"""What the engine is asked for, and what it gives back.

Invariant: a result has one finite logprob and one weight version for each id. Knows no tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_runtime.ledger import VersionSpan
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["GenerationRequest", "GenerationResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One reply to be generated."""

    prompt: list[int]
    """All ids of the context; not empty. The engine finds out what of it is computed already."""
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    """With the ids before a token it decides that token, whatever else is being generated: a reply
    that is aborted and asked for again from its last token goes on as it would have."""
    stop_ids: frozenset[int] = frozenset()
    """Ids that end the reply; the sampled one is the reply's last."""
    episode: str = ""
    """Requests of one episode share a slot from turn to turn; empty = a single request."""
    space: str = ""
    """Requests of different spaces use none of each other's keys and values."""
    name: str = ""
    """What aborts from outside call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """One reply."""

    ids: list[int]
    logprobs: list[float]
    """In nats, of the whole distribution at the request's temperature (at 1 where that is 0):
    neither top_p nor top_k changes them."""
    versions: list[VersionSpan]
    """Names of the weights that gave each token, by spans that tile `ids`."""
    finish: FinishReason
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose keys and values were there already."""
