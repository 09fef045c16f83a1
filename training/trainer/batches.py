"""A micro-batch as tensors, and the log-likelihood of its targets.

Sequences lie end to end in one row, positions restart with each, and logits are computed only where
a target follows. Invariant: the logprob of a target does not depend on what else is in the
micro-batch. Losses are the algorithms' own: they combine logprobs and weights.
"""

# torch leaves `Tensor.split`, `from_numpy` and `checkpoint` untyped.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its common name)
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint

from training.data.sequences import TokenSequence

__all__ = ["Batch", "collate", "target_logprobs"]

_ROWS: Final = 2048
"""Rows of logits that are turned to float32 at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A micro-batch: T tokens of N sequences with K targets."""

    ids: torch.Tensor
    """int64 [1, T]"""
    positions: torch.Tensor
    """int64 [1, T]; restarts at 0 with each sequence."""
    cu_seqlens: torch.Tensor
    """int32 [N + 1]: where each sequence begins; T at last."""
    max_seqlen: int
    logit_indices: torch.Tensor
    """int64 [K]: the tokens after which a target follows."""
    targets: torch.Tensor
    """int64 [K]: the ids that follow there."""
    weights: torch.Tensor
    """float32 [K]: weight of the target's sequence."""
    sequence_index: torch.Tensor
    """int64 [K]: which sequence of the micro-batch a target belongs to, from 0."""
    old_logprobs: torch.Tensor | None
    """float32 [K], nats: of the targets as they were sampled; None where a sequence has none."""
    tokens: int
    """Tokens that are not padding."""
    squared_lengths: int
    """Sum of squared lengths, for counting attention's work."""


def collate(sequences: Sequence[TokenSequence], device: torch.device, *, pad_to: int = 0) -> Batch:
    """Return sequences as one micro-batch.

    Args:
        sequences: What it consists of. Of none, the batch is one token with a target of weight 0,
            so that a process without work still takes part in collective operations.
        device: Where the tensors are.
        pad_to: Pad to this many tokens, for compiled models; 0 = no padding.
    """
    lengths = [len(sequence) for sequence in sequences]
    tokens = sum(lengths)
    padding = max(pad_to - tokens, 0 if tokens else 1)
    parts = [*lengths, padding] if padding else lengths
    cu_seqlens = np.concatenate([[0], np.cumsum(parts)]).astype(np.int32)
    total = int(cu_seqlens[-1])
    ids, mask = np.zeros(total, np.int64), np.zeros(total, np.bool_)
    sequence_index, old_logprobs = np.zeros(total, np.int64), np.zeros(total, np.float32)
    for index, (sequence, start) in enumerate(zip(sequences, cu_seqlens, strict=False)):
        span = slice(int(start), int(start) + len(sequence))
        ids[span], mask[span], sequence_index[span] = sequence.ids, sequence.mask, index
        if sequence.logprobs is not None:
            old_logprobs[span] = sequence.logprobs
    positions = np.concatenate([np.arange(size) for size in parts])
    (places,) = np.nonzero(mask)
    sequence_weights = np.array([sequence.weight for sequence in sequences], np.float32)
    weights: NDArray[Any] = sequence_weights[sequence_index[places]]
    if not len(places):
        places, weights = np.array([min(1, total - 1)]), np.zeros(1, np.float32)
    sampled = bool(sequences) and all(it.logprobs is not None for it in sequences)

    def put(values: NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        return (
            tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
        )

    return Batch(
        ids=put(ids)[None],
        positions=put(positions)[None],
        cu_seqlens=put(cu_seqlens),
        max_seqlen=max(parts),
        logit_indices=put(np.maximum(places - 1, 0)),
        targets=put(ids[places]),
        weights=put(weights),
        sequence_index=put(sequence_index[places]),
        old_logprobs=put(old_logprobs[places]) if sampled else None,
        tokens=tokens,
        squared_lengths=sum(length * length for length in lengths),
    )


def target_logprobs(
    model: torch.nn.Module, batch: Batch, *, temperature: float = 1.0
) -> torch.Tensor:
    """Return the logprob of each target given what comes before it in its sequence.

    Args:
        model: A causal language model of `transformers`.
        batch: With K targets.
        temperature: The logits are divided by it.

    Returns:
        float32 [K], in nats.
    """
    output: Any = model(
        input_ids=batch.ids,
        position_ids=batch.positions,
        use_cache=False,
        logits_to_keep=batch.logit_indices,
        cu_seq_lens_q=batch.cu_seqlens,
        cu_seq_lens_k=batch.cu_seqlens,
        max_length_q=batch.max_seqlen,
        max_length_k=batch.max_seqlen,
    )
    logits: torch.Tensor = output.logits[0]
    if temperature != 1.0:
        logits = logits / temperature
    parts = zip(logits.split(_ROWS), batch.targets.split(_ROWS), strict=True)
    if torch.is_grad_enabled() and logits.requires_grad:
        # The float32 copy of the logits would be the largest tensor of all: it is made again in
        # the backward pass instead of being kept.
        return torch.cat(
            [cast("torch.Tensor", checkpoint(_logprobs, *part, **_RECOMPUTE)) for part in parts]
        )
    return torch.cat([_logprobs(*part) for part in parts])


_RECOMPUTE: Final[dict[str, Any]] = {"use_reentrant": False, "preserve_rng_state": False}


def _logprobs(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(logits.float(), targets, reduction="none")
