"""One training sequence: token ids, which of them are targets, and where they come from.

Owns the invariant that the arrays of a sequence are parallel and that a sequence ends with its last
target: what follows it (a closing observation) teaches nothing. A target at position t is predicted
from the ids before t, so position 0 is never one. Knows no files and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Provenance", "TokenSequence", "make_sequence", "train_on_all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Which record a sequence was made of."""

    source: str
    """The run folder or file."""
    name: str
    """How reports call it: episode id, or item id with its place in the file."""
    environment: str = ""
    item_id: str = ""
    sample: int = 0
    segment: int = 0
    """Which segment of the episode's ledger; above 0 where the template rewrote history."""
    policy: str = ""
    policy_version: str = ""
    """The version that sampled the last target; empty = none recorded."""
    reward: float | None = None
    score: float | None = None
    success: bool | None = None
    content: str = ""
    """Digest of the state that the episode began in (`training.data.contents`); empty = unknown."""

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Provenance:
        """The inverse of `to_plain`."""
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSequence:
    """Parallel arrays of one sequence of n tokens."""

    ids: NDArray[np.uint32]
    """[n]"""
    mask: NDArray[np.bool_]
    """[n]; true = a target."""
    logprobs: NDArray[np.float32] | None
    """[n], nats, as sampled, 0 where the mask is false; None = not recorded."""
    weight: float = 1.0
    """Factor of every target's loss."""
    origin: Provenance

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def targets(self) -> int:
        """Number of tokens that are trained on."""
        return int(self.mask.sum())


def make_sequence(
    ids: NDArray[np.uint32],
    mask: NDArray[np.bool_],
    logprobs: NDArray[np.float32] | None,
    origin: Provenance,
    weight: float = 1.0,
) -> TokenSequence | None:
    """A sequence that ends with its last target; None = it has none.

    Raises ValueError where the arrays are not parallel.
    """
    if len(mask) != len(ids) or (logprobs is not None and len(logprobs) != len(ids)):
        raise ValueError(f"{origin.name}: ids, mask and logprobs differ in length")
    mask = mask.copy()
    mask[:1] = False  # nothing before the first token could predict it
    (targets,) = np.nonzero(mask)
    if not len(targets):
        return None
    end = int(targets[-1]) + 1
    if logprobs is not None:
        logprobs = np.where(mask, logprobs, 0)[:end].astype(np.float32)
    return TokenSequence(
        ids=ids[:end], mask=mask[:end], logprobs=logprobs, weight=weight, origin=origin
    )


def train_on_all(sequence: TokenSequence) -> TokenSequence:
    """Return the sequence with every token but the first as a target."""
    mask = np.ones(len(sequence), np.bool_)
    mask[:1] = False
    return replace(sequence, mask=mask, logprobs=None)
