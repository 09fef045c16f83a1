"""A request to the engine and its result.

Invariant: a result has one finite logprob, entropy and weight version for each id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from agent_runtime.ledger import VersionSpan
from agent_runtime.sampling import FinishReason, Sampling

__all__ = ["GenerationRequest", "GenerationResult", "SampledTokens"]


class SampledTokens(NamedTuple):
    """What a step sampled: one token for each row."""

    ids: list[int]
    logprobs: list[float]
    """In nats, of the whole distribution at the row's temperature (at 1 where that is 0)."""
    entropies: list[float]
    """In nats, of the same distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One reply to be generated."""

    prompt: list[int]
    """All ids of the context; not empty. The engine itself finds out which of their keys and
    values are cached."""
    sampling: Sampling = field(default_factory=Sampling)
    seed: int = 0
    """Together with the ids before a token it decides that token, whatever else is in the batch:
    a reply that is aborted and requested again from its last token continues as it would have."""
    stop_ids: frozenset[int] = frozenset()
    """Ids that end the reply; the sampled one is the reply's last."""
    episode_id: str = ""
    """Requests of one episode share a cache slot from turn to turn; empty = a single request."""
    cache_salt: str = ""
    """Requests with different salts use none of each other's keys and values."""
    request_id: str = ""
    """The name under which the request can be aborted from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """One reply."""

    ids: list[int]
    logprobs: list[float]
    """In nats, of the whole distribution at the request's temperature (at 1 where that is 0):
    neither top_p nor top_k changes them."""
    entropies: list[float]
    """In nats, of the distributions that the logprobs are of."""
    versions: list[VersionSpan]
    """Versions of the weights that sampled each token, as spans that tile `ids`."""
    finish: FinishReason
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens whose keys and values were in the cache already."""
