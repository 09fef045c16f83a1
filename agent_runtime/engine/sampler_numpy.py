"""From logits to tokens in NumPy, for a whole batch at once.

Invariant: equal logits, settings and random numbers give the tokens that torch's `sampler` gives,
except where a running sum is within rounding of the random number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agent_runtime.engine.generation import SampledTokens
from agent_runtime.engine.tensor_file import Array
from agent_runtime.sampling import Sampling

__all__ = ["log_softmax", "sample"]

_SMALLEST_LOGPROB: Final = np.float32(-200)
"""The probability of a smaller one is 0 in float32."""

Integers = NDArray[np.intp]
Doubles = NDArray[np.float64]


def sample(logits: Array, settings: Sequence[Sampling], uniforms: Sequence[float]) -> SampledTokens:
    """Sample one token for each row.

    Args:
        logits: [rows, vocab]. A row with NaN gives a logprob that is not finite.
        settings: Of each row.
        uniforms: A number in [0, 1) for each row; greedy rows ignore theirs.
    """
    if not all(row.temperature in (0, 1) for row in settings):
        divisors = np.array([row.temperature or 1.0 for row in settings], np.float32)
        logits = logits / divisors[:, None]
    logprobs = log_softmax(logits)
    probabilities: Array = np.exp(logprobs)
    tokens: Integers = logprobs.argmax(-1)
    drawn = [index for index, row in enumerate(settings) if row.temperature > 0]
    cut_rows = [row for row in drawn if settings[row].top_p < 1 or settings[row].top_k > 0]
    plain_rows = [row for row in drawn if row not in set(cut_rows)]
    numbers: Doubles = np.array(uniforms, np.float64)[:, None]
    if plain_rows:
        tokens[plain_rows] = _invert(probabilities[plain_rows], numbers[plain_rows])
    if cut_rows:
        rows = probabilities[cut_rows]
        order = np.argsort(-rows, axis=-1, kind="stable")
        descending = np.take_along_axis(rows, order, -1)
        remaining = _truncate(descending, [settings[row] for row in cut_rows])
        ranks = _invert(remaining, numbers[cut_rows])
        tokens[cut_rows] = np.take_along_axis(order, ranks[:, None], -1)[:, 0]
    token_logprobs = np.take_along_axis(logprobs, tokens[:, None], -1)[:, 0]
    # What cannot be drawn has minus infinity, and 0 times that is no number.
    finite = np.maximum(logprobs, _SMALLEST_LOGPROB)
    entropies: Array = -np.einsum("rv,rv->r", probabilities, finite)
    return SampledTokens(tokens.tolist(), token_logprobs.tolist(), entropies.tolist())


def log_softmax(logits: Array) -> Array:
    """Return the logprobs of rows, in float32. A row with NaN gives NaN."""
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _truncate(probabilities: Array, settings: Sequence[Sampling]) -> Array:
    """Zero what top_k, then top_p of the rest, leave out of descending probabilities."""
    vocab = int(probabilities.shape[-1])
    top_k = np.array([s.top_k if s.top_k > 0 else vocab for s in settings], np.intp)[:, None]
    top_p = np.array([s.top_p for s in settings], np.float32)[:, None]
    remaining = np.where(np.arange(vocab) >= top_k, np.float32(0), probabilities)
    sum_before: Array = remaining.cumsum(-1) - remaining
    # With top_p = 1 nothing is left out: rounding of the sum must not decide about the tail.
    limit: Array = top_p * remaining.sum(-1, keepdims=True)
    out: NDArray[np.bool_] = np.logical_and(sum_before >= limit, top_p < 1)
    return np.where(out, np.float32(0), remaining)


def _invert(probabilities: Array, uniforms: Doubles) -> Integers:
    """Return the index at which each row's running sum passes a uniform share of the whole."""
    sums = probabilities.cumsum(-1, dtype=np.float64)
    index = (sums <= uniforms * sums[:, -1:]).sum(-1)
    return np.minimum(index, probabilities.shape[-1] - 1)
