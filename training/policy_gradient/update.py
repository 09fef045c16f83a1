"""The updates of a step: its loss in micro-batches, each process computing its share."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from orchestrator import seeds
from training.data.advantages import generalized_advantages
from training.policy_gradient.recipe import GRPORecipe
from training.policy_gradient.scoring import Example
from training.trainer.batches import Batch, collate, target_logprobs
from training.trainer.critic import Critic
from training.trainer.distributed import DistributedContext
from training.trainer.learner import Learner
from training.trainer.models import before_training, precision_context
from training.trainer.packing import Step, local_micro_batches
from training.trainer.policy_loss import Objective, SampledTokens, policy_loss

__all__ = ["Learning", "learn"]

_SUMMED: Final = ("tokens", "clip_frac", "kl", "ratio_dev", "cap_frac")
"""Metrics that are sums over the tokens of all processes; all but the first become means."""
_GAPS: Final = ("logprob_gap", "compared")
"""Of the first update's tokens: the sum of |logprob - recorded logprob| before it; their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What all updates of a run have in common."""

    recipe: GRPORecipe
    dist: DistributedContext
    reference: torch.nn.Module | None = None
    """The starting weights, or the model itself where it trains adapters on them; None = there is
    no divergence to be measured."""
    objective: Objective = policy_loss
    critic: Critic | None = None
    """None = advantages come without one."""


def learn(learner: Learner, examples: Sequence[Example], learning: Learning) -> dict[str, float]:
    """Update the weights by a step's examples.

    Every process comes with all examples and computes its share of them.

    Returns:
        Means per token, the mean loss of the updates, and the gradient's norm and the learning rate
        of the last one. `logprob_gap` is what trainer and engine differ by, in nats per token, and
        what the weights have changed by since tokens were sampled that are some steps old.
    """
    valued: dict[str, float] = {}
    if learning.critic is not None:
        examples, valued = _value(learner, examples, learning, learning.critic)
    names = (*_SUMMED, "loss", "value_loss", *_GAPS)
    metrics: dict[str, float] = dict.fromkeys((*names, "grad_norm"), 0.0)
    minibatches = _minibatches(examples, learning.recipe, learner.step)
    # Of a single update, the weights before it are those that it is computed with.
    proximal = (
        _proximal(learner, minibatches, learning)
        if learning.recipe.clip.importance_cap and len(minibatches) > 1
        else {}
    )
    for number, minibatch in enumerate(minibatches):
        _update(learner, minibatch, learning, proximal, metrics, first=not number)
    totals = learning.dist.all_reduce_sum([metrics[name] for name in names])
    *sums, loss, value_loss, gap, compared = totals
    tokens = max(sums[0], 1.0)
    means = {name: total / tokens for name, total in zip(_SUMMED[1:], sums[1:], strict=True)}
    means |= {"loss": loss / max(len(minibatches), 1), "logprob_gap": gap / max(compared, 1.0)}
    if learning.critic is not None:
        valued["value_loss"] = value_loss / max(len(minibatches), 1)
    kept = {name: metrics[name] for name in ("grad_norm", "lr") if name in metrics} | valued
    return {"tokens": sums[0], **means, **kept}


def _value(
    learner: Learner, examples: Sequence[Example], learning: Learning, critic: Critic
) -> tuple[list[Example], dict[str, float]]:
    """Return the examples with values, returns and generalised advantages, and what describes them.

    Each process computes its share; all have all values then.
    """
    found: dict[int, NDArray[np.float32]] = {}
    for share in _shares(examples, learning):
        batch = collate([it.sequence for it in share], learning.dist.device)
        with torch.no_grad(), critic.watch() as seen:
            _logprobs(learner.model, batch, learning)
            values = critic.values(seen[0]).cpu().numpy()
        ends = np.cumsum([it.sequence.targets for it in share])
        parts = np.split(values, ends[:-1]) if share else []
        found |= {id(it): part for it, part in zip(share, parts, strict=True)}
    empty = [np.zeros(it.sequence.targets, np.float32) for it in examples]
    own = [found.get(id(it), none) for it, none in zip(examples, empty, strict=True)]
    flat = np.array(learning.dist.all_reduce_sum(np.concatenate(own).tolist()), np.float32)
    advantages, returns = np.zeros_like(flat), np.zeros_like(flat)
    ends = np.cumsum([it.sequence.targets for it in examples])
    episodes = np.repeat([it.episode for it in examples], [it.sequence.targets for it in examples])
    config = learning.recipe.value
    for number, reward in {it.episode: it.reward for it in examples}.items():
        tokens = episodes == number
        advantages[tokens], returns[tokens] = generalized_advantages(
            flat[tokens], reward, discount=config.discount, gae_lambda=config.gae_lambda
        )
    spread = float(returns.var())
    valued = {
        "value": float(flat.mean()),
        "explained_variance": 1 - float((returns - flat).var()) / spread if spread else 0.0,
    }
    if learning.recipe.normalise:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    parts = (np.split(it, ends[:-1]) for it in (advantages, flat, returns))
    return [
        replace(it, advantages=advantage, values=value, returns=due)
        for it, advantage, value, due in zip(examples, *parts, strict=True)
    ], valued


def _minibatches(
    examples: Sequence[Example], recipe: GRPORecipe, updates: int
) -> list[Sequence[Example]]:
    """Return the examples of each update; `updates` were made before."""
    minibatches: list[Sequence[Example]] = []
    size = -(-len(examples) // recipe.minibatches)
    for epoch in range(recipe.ppo_epochs):
        order = list(examples)
        number = updates + len(minibatches)
        random.Random(seeds.derive("grpo-order", recipe.seed, number, epoch)).shuffle(order)
        minibatches += [order[start : start + size] for start in range(0, len(order), size)]
    return minibatches


def _proximal(
    learner: Learner, minibatches: Sequence[Sequence[Example]], learning: Learning
) -> dict[int, torch.Tensor]:
    """Return the logprobs of each example's targets before any update, by its `id`.

    Each process has those of the examples that it will compute.
    """
    found: dict[int, torch.Tensor] = {}
    for minibatch in minibatches:
        for examples in _shares(minibatch, learning):
            batch = collate([it.sequence for it in examples], learning.dist.device)
            with torch.no_grad():
                logprobs = _logprobs(learner.model, batch, learning)
            end = 0
            for it in examples:
                start, end = end, end + it.sequence.targets
                found[id(it)] = logprobs[start:end]
    return found


def _shares(minibatch: Sequence[Example], learning: Learning) -> list[list[Example]]:
    """Return this process's micro-batches of an update; as many as any other process has."""
    lengths = np.array([len(example.sequence) for example in minibatch], np.int32)
    step = _micro_batches(lengths, learning.recipe.micro_tokens)
    dist = learning.dist
    local = local_micro_batches(step, dist.rank, dist.world_size, lengths)
    return [[minibatch[index] for index in indices] for indices in local]


def _update(
    learner: Learner,
    minibatch: Sequence[Example],
    learning: Learning,
    proximal: Mapping[int, torch.Tensor],
    metrics: dict[str, float],
    *,
    first: bool,
) -> None:
    """Update the weights once; adds this process's sums to `metrics`."""
    learner.begin_step()
    targets = sum(example.sequence.targets for example in minibatch)
    shares = _shares(minibatch, learning)
    for number, examples in enumerate(shares, 1):
        last = number == len(shares)
        batch = collate([example.sequence for example in examples], learning.dist.device)
        critic = learning.critic
        with nullcontext(list[torch.Tensor]()) if critic is None else critic.watch() as seen:
            logprobs = _logprobs(learner.model, batch, learning)
        ref_logprobs = None
        if learning.reference is not None:
            with torch.no_grad(), before_training(learning.reference):
                ref_logprobs = _logprobs(learning.reference, batch, learning)
        if not examples:
            # This process has no micro-batch left, but the others wait for it in the collective
            # operations of the backward pass.
            learner.backward(0.0 * logprobs.sum(), last=last)
            continue
        tokens = SampledTokens(
            logprobs=logprobs,
            old_logprobs=_old_logprobs(logprobs, batch, examples, proximal, learning.recipe),
            recorded_logprobs=_recorded(batch),
            advantages=_put(np.concatenate([it.advantages for it in examples]), batch),
            weights=_weights(examples, len(minibatch), targets, batch, learning.recipe),
            sequences=batch.sequence_index,
            ref_logprobs=ref_logprobs,
        )
        loss = learning.objective(tokens, learning.recipe.clip)
        total = loss.total
        if critic is not None:
            value_loss = _value_loss(critic, seen[0], examples, tokens.weights, batch)
            total = total + value_loss
            metrics["value_loss"] += float(value_loss.detach())
        learner.backward(total, last=last)
        metrics["loss"] += float(loss.total.detach())
        metrics["tokens"] += len(logprobs)
        metrics["clip_frac"] += loss.clipped
        metrics["kl"] += loss.kl
        metrics["ratio_dev"] += loss.ratio_dev
        metrics["cap_frac"] += loss.capped
        if first:
            gap = (logprobs.detach() - tokens.recorded_logprobs).abs().sum()
            metrics["logprob_gap"] += float(gap)
            metrics["compared"] += len(logprobs)
    metrics["grad_norm"], metrics["lr"] = learner.update()
    if learning.critic is not None:
        learning.critic.update()


def _value_loss(
    critic: Critic,
    hidden: torch.Tensor,
    examples: Sequence[Example],
    weights: torch.Tensor,
    batch: Batch,
) -> torch.Tensor:
    values = [it.values for it in examples if it.values is not None]
    returns = [it.returns for it in examples if it.returns is not None]
    old, due = _put(np.concatenate(values), batch), _put(np.concatenate(returns), batch)
    return critic.loss(critic.values(hidden), old, due, weights)


def _logprobs(model: torch.nn.Module, batch: Batch, learning: Learning) -> torch.Tensor:
    """Return the targets' logprobs at the temperature at which they were sampled, [targets]."""
    with precision_context(learning.recipe.model, learning.dist):
        return target_logprobs(model, batch, temperature=learning.recipe.temperature)


def _recorded(batch: Batch) -> torch.Tensor:
    assert batch.old_logprobs is not None, "trajectories have logprobs"
    return batch.old_logprobs


def _old_logprobs(
    logprobs: torch.Tensor,
    batch: Batch,
    examples: Sequence[Example],
    proximal: Mapping[int, torch.Tensor],
    recipe: GRPORecipe,
) -> torch.Tensor:
    """Return what ratios are to, [targets]."""
    if not recipe.clip.importance_cap:
        return _recorded(batch)
    if not proximal:
        return logprobs.detach()
    return torch.cat([proximal[id(it)] for it in examples])


def _weights(
    examples: Sequence[Example], sequences: int, targets: int, batch: Batch, recipe: GRPORecipe
) -> torch.Tensor:
    """Return what each target counts, [targets]; `sequences` and `targets` are the update's."""
    counts = np.array([it.sequence.targets for it in examples])
    # Planned, not met: else a token would count the more, the fewer groups differ in their rewards.
    planned = recipe.tasks * recipe.group * max(recipe.average_tokens, 1) / recipe.minibatches
    of_sequences = {
        "tokens": np.full(len(counts), 1 / targets),
        "sequences": 1 / (counts * sequences),
        "constant": np.full(len(counts), 1 / planned),
    }[recipe.average]
    return _put(np.repeat(of_sequences, counts).astype(np.float32), batch)


def _put(values: NDArray[np.float32], batch: Batch) -> torch.Tensor:
    return torch.tensor(values, device=batch.targets.device)


def _micro_batches(lengths: NDArray[np.int32], micro_tokens: int) -> Step:
    """Cut sequences into micro-batches of at most `micro_tokens`; a longer one stands alone."""
    micro_batches: list[list[int]] = []
    room = 0
    for index, length in enumerate(int(length) for length in lengths):
        if not micro_batches or length > room:
            micro_batches.append([])
            room = micro_tokens
        micro_batches[-1].append(index)
        room -= length
    return tuple(map(tuple, micro_batches))
