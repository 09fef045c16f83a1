# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""A micro-batch as tensors, and the log-likelihood of its targets.

Owns the layout: sequences lie end to end in one row, positions restart with each, and the model's
head is computed only where a target follows. Invariant: the logprob of a target does not depend on
what else is in the micro-batch. Knows no loss: algorithms combine logprobs and weights themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its common name)
from torch.utils.checkpoint import checkpoint

from training.data.sequences import TokenSequence

__all__ = ["Batch", "collate", "target_logprobs"]

_ROWS: Final = 2048
"""Rows of logits that are turned to float32 at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """T tokens of N sequences with K targets."""

    ids: torch.Tensor
    """int64 [1, T]"""
    positions: torch.Tensor
    """int64 [1, T]; restarts at 0 with each sequence."""
    bounds: torch.Tensor
    """int32 [N + 1]: where each sequence begins; T at last."""
    longest: int
    keep: torch.Tensor
    """int64 [K]: places from which a target is predicted."""
    targets: torch.Tensor
    """int64 [K]: the ids that follow there."""
    weights: torch.Tensor
    """float32 [K]: weight of the target's sequence."""
    owners: torch.Tensor
    """int64 [K]: which sequence of the micro-batch a target belongs to, from 0."""
    sampled: torch.Tensor | None
    """float32 [K], nats: logprobs as sampled; None where a sequence has none."""
    tokens: int
    """Tokens that are no padding."""
    squares: int
    """Sum of squared lengths, for counting attention's work."""


def collate(sequences: Sequence[TokenSequence], device: torch.device, *, pad_to: int = 0) -> Batch:
    """Sequences as one batch. None at all gives one token with a target of weight 0, so that a
    process without work still takes part. `pad_to` fills up to so many tokens, for compiled models.
    """
    lengths = [len(it) for it in sequences]
    tokens = sum(lengths)
    fill = max(pad_to - tokens, 0 if tokens else 1)
    parts = [*lengths, fill] if fill else lengths
    bounds = np.concatenate([[0], np.cumsum(parts)]).astype(np.int32)
    total = int(bounds[-1])
    ids, mask = np.zeros(total, np.int64), np.zeros(total, np.bool_)
    owners, sampled = np.zeros(total, np.int64), np.zeros(total, np.float32)
    for number, (it, start) in enumerate(zip(sequences, bounds, strict=False)):
        span = slice(int(start), int(start) + len(it))
        ids[span], mask[span], owners[span] = it.ids, it.mask, number
        if it.logprobs is not None:
            sampled[span] = it.logprobs
    positions = np.concatenate([np.arange(size) for size in parts])
    (places,) = np.nonzero(mask)
    weights = np.array([it.weight for it in sequences], np.float32)[owners[places]]
    if not len(places):
        places, weights = np.array([min(1, total - 1)]), np.zeros(1, np.float32)
    recorded = bool(sequences) and all(it.logprobs is not None for it in sequences)

    def put(values: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        return (
            tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
        )

    return Batch(
        ids=put(ids)[None],
        positions=put(positions)[None],
        bounds=put(bounds),
        longest=max(parts),
        keep=put(np.maximum(places - 1, 0)),
        targets=put(ids[places]),
        weights=put(weights),
        owners=put(owners[places]),
        sampled=put(sampled[places]) if recorded else None,
        tokens=tokens,
        squares=sum(size * size for size in lengths),
    )


def target_logprobs(
    model: torch.nn.Module, batch: Batch, *, temperature: float = 1.0
) -> torch.Tensor:
    """Log-likelihood of each target given what comes before it in its sequence: float32 [K]."""
    logits = model(
        input_ids=batch.ids,
        position_ids=batch.positions,
        use_cache=False,
        logits_to_keep=batch.keep,
        cu_seq_lens_q=batch.bounds,
        cu_seq_lens_k=batch.bounds,
        max_length_q=batch.longest,
        max_length_k=batch.longest,
    ).logits[0]
    if temperature != 1.0:
        logits = logits / temperature
    parts = zip(logits.split(_ROWS), batch.targets.split(_ROWS), strict=True)
    if torch.is_grad_enabled() and logits.requires_grad:
        # Float32 copies of the logits are made again in the backward pass instead of being kept.
        again = {"use_reentrant": False, "preserve_rng_state": False}
        return torch.cat([checkpoint(_pick, *it, **again) for it in parts])
    return torch.cat([_pick(*it) for it in parts])


def _pick(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(logits.float(), targets, reduction="none")
