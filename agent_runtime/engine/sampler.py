"""From logits to tokens in torch, for a whole batch at once.

Invariant: a row's token depends on its own logits, settings and random number only, so what else is
in the batch changes nothing (beyond the rounding of the matrix products before). Reported logprobs
are of the whole distribution at the row's temperature, at 1 for greedy rows, as SGLang reports.
"""

# torch types `Tensor.tolist` as a list of unknown elements.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, cast

import torch

from agent_runtime.engine.generation import SampledTokens
from agent_runtime.sampling import Sampling

__all__ = ["sample", "score"]

_SUMS_AT_ONCE: Final = 1 << 24
"""Running sums that are in memory at once: 128 MiB of float64."""
_SMALLEST_LOGPROB: Final = -200.0
"""The probability of a smaller one is 0 in float32."""


@torch.inference_mode()
def sample(
    logits: torch.Tensor, settings: Sequence[Sampling], uniforms: Sequence[float]
) -> SampledTokens:
    """Sample one token for each row.

    Args:
        logits: [rows, vocab]. A row with NaN gives a logprob that is not finite.
        settings: Of each row.
        uniforms: A number in [0, 1) for each row; greedy rows ignore theirs.
    """
    temperatures = {row.temperature for row in settings}
    if not temperatures <= {0, 1}:
        divisors = [row.temperature or 1.0 for row in settings]
        logits = logits / torch.tensor(divisors, device=logits.device)[:, None]
    logprobs = torch.log_softmax(logits, -1)
    probabilities = logprobs.exp()
    tokens = logprobs.argmax(-1)
    if temperatures != {0}:
        _draw(probabilities, settings, uniforms, tokens)
    token_logprobs = logprobs.gather(1, tokens[:, None])[:, 0]
    # What cannot be drawn has minus infinity, and 0 times that is no number.
    finite = logprobs.clamp_min(_SMALLEST_LOGPROB)
    entropies = -torch.einsum("rv,rv->r", probabilities, finite)
    return SampledTokens(
        cast("list[int]", tokens.tolist()),
        cast("list[float]", token_logprobs.tolist()),
        cast("list[float]", entropies.tolist()),
    )


def score(logits: torch.Tensor, ids: Sequence[int]) -> list[float]:
    """Return the logprob at temperature 1 of one id for each row of logits [rows, vocab]."""
    columns = torch.tensor(ids, device=logits.device)[:, None]
    logprobs = torch.log_softmax(logits, -1).gather(1, columns)[:, 0]
    return cast("list[float]", logprobs.tolist())


def _draw(
    probabilities: torch.Tensor,
    settings: Sequence[Sampling],
    uniforms: Sequence[float],
    tokens: torch.Tensor,
) -> None:
    """Put drawn tokens into `tokens` for all rows that are not greedy."""
    numbers = torch.frombuffer(array("d", uniforms), dtype=torch.float64)
    numbers = numbers.to(probabilities.device)[:, None]
    kinds = {(row.temperature > 0, row.top_p < 1 or row.top_k > 0) for row in settings}
    if kinds == {(True, False)}:  # the usual case needs no copy of the rows
        tokens.copy_(_invert(probabilities, numbers))
        return
    truncated = [row.top_p < 1 or row.top_k > 0 for row in settings]
    drawn = [index for index, row in enumerate(settings) if row.temperature > 0]
    plain_rows = [index for index in drawn if not truncated[index]]
    cut_rows = [index for index in drawn if truncated[index]]
    if plain_rows:
        tokens[plain_rows] = _invert(probabilities[plain_rows], numbers[plain_rows])
    # Sorted, a row takes four times what it is: those are made in parts, too.
    for rows in _parts(len(cut_rows), probabilities.shape[-1]):
        part = cut_rows[rows]
        descending, order = torch.sort(probabilities[part], stable=True, dim=-1, descending=True)
        remaining = _truncate(descending, [settings[row] for row in part])
        ranks = _invert(remaining, numbers[part])
        tokens[part] = order.gather(1, ranks[:, None])[:, 0]


def _parts(rows: int, vocab: int) -> list[slice]:
    """Return slices of so many rows, each of as many as `_SUMS_AT_ONCE` admits."""
    size = max(1, _SUMS_AT_ONCE // vocab)
    return [slice(at, at + size) for at in range(0, rows, size)]


def _truncate(probabilities: torch.Tensor, settings: Sequence[Sampling]) -> torch.Tensor:
    """Zero what top_k, then top_p of the rest, leave out of descending probabilities."""
    device, vocab = probabilities.device, probabilities.shape[-1]
    top_k = torch.tensor([s.top_k if s.top_k > 0 else vocab for s in settings], device=device)
    top_p = torch.tensor([s.top_p for s in settings], device=device)[:, None]
    ranks = torch.arange(vocab, device=device)
    remaining = probabilities.masked_fill(ranks >= top_k[:, None], 0)
    sum_before = remaining.cumsum(-1) - remaining
    # With top_p = 1 nothing is left out: rounding of the sum must not decide about the tail.
    out = (sum_before >= top_p * remaining.sum(-1, keepdim=True)) & (top_p < 1)
    return remaining.masked_fill(out, 0)


def _invert(probabilities: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return the index at which each row's running sum passes a uniform share of the whole.

    Rows are taken in parts: sums in float64 of all rows over a large vocabulary would be the
    largest tensor of a step, which no plan of memory counts.
    """
    parts = _parts(*probabilities.shape)
    return torch.cat([_invert_part(probabilities[rows], uniforms[rows]) for rows in parts])


def _invert_part(probabilities: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    sums = probabilities.cumsum(-1, dtype=torch.float64)
    index = torch.searchsorted(sums, uniforms * sums[:, -1:], right=True)[:, 0]
    return index.clamp_(max=probabilities.shape[-1] - 1)
