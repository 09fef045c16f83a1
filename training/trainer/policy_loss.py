"""The loss of sampled tokens: policy gradients by ratios that are clipped.

Pure: logprobs, advantages and weights in, a scalar and what describes it out. Who computes them, on
how many processes and in which batches, is the algorithm's. A loss of one's own takes its place by
name: `objective = "package.module:function"`, which is called as `policy_loss`.

Sources: clipped ratios https://arxiv.org/abs/1707.06347; the bound of both sides
https://arxiv.org/abs/1912.09729; ratios of whole sequences https://arxiv.org/abs/2507.18071;
truncated importance sampling https://fengyao.notion.site/off-policy-rl; decoupled old
probabilities https://arxiv.org/abs/2505.24298; estimates of the divergence
http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch

from training.errors import RecipeError

__all__ = ["ClipConfig", "Loss", "Objective", "SampledTokens", "load_objective", "policy_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipConfig:
    """The loss of a token."""

    eps_low: float = 0.2
    """Where the ratio falls below 1 - eps_low, making the token less likely gains nothing."""
    eps_high: float = 0.2
    """Where the ratio rises above 1 + eps_high, making the token likelier gains nothing."""
    kl_coef: float = 0.0
    """Weight of the divergence from the reference, which are the starting weights: a second model,
    or the one below `model.lora`; 0 = none."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """With d = ref logprob - logprob: k3 = exp(d) - d - 1 and k2 = d d / 2 are added to the loss.
    k1 = -d has no gradient there on average: it is taken off the token's advantage instead."""
    dual: float = 0.0
    """A token of negative advantage A loses at most -dual A, however likely it has become; above 1,
    0 = without this bound."""
    ratio: Literal["token", "sequence"] = "token"
    """Of which probability: each token's own, or the geometric mean over its sequence (GSPO)."""
    importance_cap: float = 0.0
    """Above 0, ratios are to the trainer's own probabilities before the step's first update, and
    each token counts by how much likelier it was there than in the engine that sampled it, at most
    this much. 0 = ratios are to the recorded probabilities. What engine and trainer differ by is
    corrected either way, here without being clipped."""

    def __post_init__(self) -> None:
        if not 0 < self.eps_low < 1 or self.eps_high <= 0 or self.kl_coef < 0:
            raise ValueError("eps_low is between 0 and 1, eps_high above 0, kl_coef at least 0")
        if self.dual and self.dual <= 1:
            raise ValueError("dual is above 1, or 0")
        if self.importance_cap < 0:
            raise ValueError("importance_cap is at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledTokens:
    """The targets of a micro-batch, [K] each."""

    logprobs: torch.Tensor
    """In nats: of the weights that are trained."""
    old_logprobs: torch.Tensor
    """What ratios are to."""
    recorded_logprobs: torch.Tensor
    """As the engine recorded them when it sampled."""
    advantages: torch.Tensor
    weights: torch.Tensor
    """What each token counts in the sum."""
    sequences: torch.Tensor
    """int64: which sequence of the micro-batch each belongs to, from 0."""
    ref_logprobs: torch.Tensor | None = None
    """Of the reference model; None = there is none."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of some tokens, and sums over them that describe it."""

    total: torch.Tensor
    """Scalar, to be differentiated."""
    clipped: float = 0.0
    """Tokens whose gradient the clip removed."""
    kl: float = 0.0
    """Sum of the estimates of KL(policy || reference), in nats."""
    ratio_dev: float = 0.0
    """Sum of |ratio - 1|: how far the weights are from those that ratios are to."""
    capped: float = 0.0
    """Tokens whose importance was cut at the cap."""


Objective = Callable[[SampledTokens, ClipConfig], Loss]


def policy_loss(tokens: SampledTokens, clip: ClipConfig) -> Loss:
    """Return the clipped policy-gradient loss of sampled tokens.

    A token's loss is -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A) with
    r = exp(logprob - old logprob), changed as `ClipConfig` says.
    """
    log_ratio = tokens.logprobs - tokens.old_logprobs
    if clip.ratio == "sequence":
        log_ratio = _sequence_means(log_ratio, tokens.sequences)
    ratio = torch.exp(log_ratio)
    advantages, divergence = _regularised(tokens, clip)
    unclipped = ratio * advantages
    clipped = ratio.clamp(1 - clip.eps_low, 1 + clip.eps_high) * advantages
    gain = torch.minimum(unclipped, clipped)
    if clip.dual:
        gain = torch.where(advantages < 0, torch.maximum(gain, clip.dual * advantages), gain)
    importance = torch.exp(tokens.old_logprobs - tokens.recorded_logprobs)
    if clip.importance_cap:
        gain = gain * importance.clamp(max=clip.importance_cap)
    token_loss = -gain
    if divergence is not None and clip.kl_estimator != "k1":
        token_loss = token_loss + clip.kl_coef * divergence
    total = (tokens.weights * token_loss).sum()
    with torch.no_grad():
        # No gradient flows where the least or the greatest of the terms is a constant.
        bounded = clipped < unclipped
        if clip.dual:
            bounded |= (advantages < 0) & (
                torch.minimum(unclipped, clipped) < clip.dual * advantages
            )
        capped = importance > clip.importance_cap if clip.importance_cap else torch.zeros(1)
        return Loss(
            total,
            clipped=float(bounded.sum()),
            kl=0.0 if divergence is None else float(divergence.sum()),
            ratio_dev=float((ratio - 1).abs().sum()),
            capped=float(capped.sum()),
        )


def _regularised(
    tokens: SampledTokens, clip: ClipConfig
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the advantages, less the divergence where it is taken off them, and the divergence."""
    if tokens.ref_logprobs is None or not clip.kl_coef:
        return tokens.advantages, None
    if clip.kl_estimator == "k1":
        divergence = (tokens.logprobs - tokens.ref_logprobs).detach()
        return tokens.advantages - clip.kl_coef * divergence, divergence
    ref_gap = tokens.ref_logprobs - tokens.logprobs
    if clip.kl_estimator == "k2":
        return tokens.advantages, 0.5 * ref_gap.square()
    return tokens.advantages, torch.exp(ref_gap) - ref_gap - 1


def _sequence_means(values: torch.Tensor, sequences: torch.Tensor) -> torch.Tensor:
    """Return for each token the mean over its sequence, [K]."""
    count = int(sequences.max()) + 1 if len(sequences) else 0
    sums = values.new_zeros(count).index_add(0, sequences, values)
    sizes = values.new_zeros(count).index_add(0, sequences, torch.ones_like(values))
    return (sums / sizes.clamp(min=1))[sequences]


def load_objective(name: str) -> Objective:
    """Return the loss that a recipe names; empty = `policy_loss`.

    Raises RecipeError where there is no such function.
    """
    if not name:
        return policy_loss
    module, _, function = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise RecipeError(
            f"there is no {name!r} ({error}): name a function as package.module:function",
            field="objective",
        ) from error
    if not callable(found):
        raise RecipeError(f"{name!r} is no function", field="objective")
    return cast("Objective", found)
