"""From logits to tokens, for a whole batch at once: `sampler` in NumPy.

Invariant: equal logits, settings and random numbers give the tokens that torch's sampler gives, but
where a running sum passes the random number within rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agent_runtime.engine.tensor_file import Array
from agent_runtime.sampling import Sampling

__all__ = ["log_softmax", "sample"]

Whole = NDArray[np.intp]
Wide = NDArray[np.float64]


def sample(
    logits: Array, settings: Sequence[Sampling], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token and its logprob for each row of logits [rows, vocab].

    `uniforms` are numbers in [0, 1), one for each row; greedy rows ignore theirs. Rows with NaN
    among their logits give a logprob that is not finite.
    """
    if not all(each.temperature in (0, 1) for each in settings):
        divisors = np.array([each.temperature or 1.0 for each in settings], np.float32)
        logits = logits / divisors[:, None]
    logprobs = log_softmax(logits)
    chosen: Whole = logprobs.argmax(-1)
    drawn = [row for row, each in enumerate(settings) if each.temperature > 0]
    cut = [row for row in drawn if settings[row].top_p < 1 or settings[row].top_k > 0]
    whole = [row for row in drawn if row not in set(cut)]
    numbers: Wide = np.array(uniforms, np.float64)[:, None]
    if whole:
        chosen[whole] = _invert(np.exp(logprobs[whole]), numbers[whole])
    if cut:
        rows = np.exp(logprobs[cut])
        order = np.argsort(-rows, axis=-1, kind="stable")
        kept = _truncate(np.take_along_axis(rows, order, -1), [settings[row] for row in cut])
        places = _invert(kept, numbers[cut])
        chosen[cut] = np.take_along_axis(order, places[:, None], -1)[:, 0]
    taken = np.take_along_axis(logprobs, chosen[:, None], -1)[:, 0]
    return chosen.tolist(), taken.tolist()


def log_softmax(logits: Array) -> Array:
    """Logprobs of rows, in float32. Rows with NaN give NaN."""
    with np.errstate(invalid="ignore"):
        shifted = logits - logits.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _truncate(probabilities: Array, settings: Sequence[Sampling]) -> Array:
    """Descending probabilities with zeros for what top_k, then top_p of the rest, leave out."""
    vocab = int(probabilities.shape[-1])
    most = np.array([it.top_k if it.top_k > 0 else vocab for it in settings], np.intp)[:, None]
    share = np.array([it.top_p for it in settings], np.float32)[:, None]
    kept = np.where(np.arange(vocab) >= most, np.float32(0), probabilities)
    above: Array = kept.cumsum(-1) - kept
    # With top_p = 1 nothing goes: rounding must not decide about the tail.
    allowed: Array = share * kept.sum(-1, keepdims=True)
    out: NDArray[np.bool_] = np.logical_and(above >= allowed, share < 1)
    return np.where(out, np.float32(0), kept)


def _invert(probabilities: Array, uniforms: Wide) -> Whole:
    """The index at which the running sum passes a uniform share of the whole."""
    sums = probabilities.cumsum(-1, dtype=np.float64)
    at = (sums <= uniforms * sums[:, -1:]).sum(-1)
    return np.minimum(at, probabilities.shape[-1] - 1)
