# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""From logits to tokens, for a whole batch at once.

Invariant: a row's token depends on its own logits, settings and random number only, so who else is
in the batch changes nothing (beyond the rounding of the matrix products before). Reported logprobs
are of the whole distribution at the row's temperature, at 1 for greedy rows, as SGLang reports.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agent_runtime.sampling import Sampling

__all__ = ["sample"]


@torch.inference_mode()
def sample(
    logits: torch.Tensor, settings: Sequence[Sampling], uniforms: Sequence[float]
) -> tuple[list[int], list[float]]:
    """One token and its logprob for each row of logits [rows, vocab].

    `uniforms` are numbers in [0, 1), one for each row; greedy rows ignore theirs. Rows with NaN
    among their logits give a logprob that is not finite.
    """
    greedy = [each.temperature == 0 for each in settings]
    if not all(each.temperature in (0, 1) for each in settings):
        divisors = [each.temperature or 1.0 for each in settings]
        logits = logits / torch.tensor(divisors, device=logits.device)[:, None]
    logprobs = torch.log_softmax(logits, -1)
    chosen = logprobs.argmax(-1)
    if not all(greedy):
        _draw(logprobs, settings, uniforms, chosen)
    taken = logprobs.gather(1, chosen[:, None])[:, 0]
    return chosen.tolist(), taken.tolist()


def _draw(
    logprobs: torch.Tensor,
    settings: Sequence[Sampling],
    uniforms: Sequence[float],
    chosen: torch.Tensor,
) -> None:
    """Put drawn tokens into `chosen` for all rows that are not greedy."""
    cut = [each.top_p < 1 or each.top_k > 0 for each in settings]
    drawn = [row for row in range(len(cut)) if settings[row].temperature > 0]
    whole = [row for row in drawn if not cut[row]]
    some = [row for row in drawn if cut[row]]

    def numbers(rows: list[int]) -> torch.Tensor:
        picked = [uniforms[row] for row in rows]
        return torch.tensor(picked, device=logprobs.device, dtype=torch.float64)[:, None]

    if whole:
        if len(whole) == len(cut):
            chosen.copy_(_invert(logprobs.exp(), numbers(whole)))
        else:
            chosen[whole] = _invert(logprobs[whole].exp(), numbers(whole))
    if some:
        rows = logprobs if len(some) == len(cut) else logprobs[some]
        probabilities, order = torch.sort(rows.exp(), stable=True, dim=-1, descending=True)
        kept = _truncate(probabilities, [settings[row] for row in some])
        chosen[some] = order.gather(1, _invert(kept, numbers(some))[:, None])[:, 0]


def _truncate(probabilities: torch.Tensor, settings: Sequence[Sampling]) -> torch.Tensor:
    """Descending probabilities with zeros for what top_k, then top_p of the rest, leave out."""
    device, vocab = probabilities.device, probabilities.shape[-1]
    most = torch.tensor([s.top_k if s.top_k > 0 else vocab for s in settings], device=device)
    share = torch.tensor([s.top_p for s in settings], device=device)[:, None]
    ranks = torch.arange(vocab, device=device)
    kept = probabilities.masked_fill(ranks >= most[:, None], 0)
    above = kept.cumsum(-1) - kept
    # With top_p = 1 nothing goes: rounding must not decide about the tail.
    out = (above >= share * kept.sum(-1, keepdim=True)) & (share < 1)
    return kept.masked_fill(out, 0)


def _invert(probabilities: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The index at which the running sum passes a uniform share of the whole."""
    sums = probabilities.cumsum(-1, dtype=torch.float64)
    at = torch.searchsorted(sums, uniforms * sums[:, -1:], right=True)[:, 0]
    return at.clamp_(max=probabilities.shape[-1] - 1)
