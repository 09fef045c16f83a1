"""Direct preference optimisation on successes and failures of the same instruction.

    python -m training.dpo RECIPE.toml [--resume | --overwrite] [--plan] [--beta 0.5 ...]
    torchrun --nproc-per-node 8 -m training.dpo RECIPE.toml

The margin of a pair is m = beta * (log p/r of the chosen - log p/r of the rejected), with p the
model, r the model before training, and log-likelihoods summed over all replies of an episode. The
loss of a step is the mean of -log sigmoid(m) over its pairs. r is computed once, before the first
step, and stored. Reads top to bottom; the loop around it is `training.trainer.loop`.
Source: https://arxiv.org/abs/2305.18290
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

try:
    import numpy as np
    import torch
    import torch.nn.functional as F  # noqa: N812 (its common name)
    from numpy.typing import NDArray
except ModuleNotFoundError as error:
    from training.needed import without_torch

    raise without_torch(error) from None

from training.config.cli import run_recipe
from training.config.start import Start
from training.data.dataset import is_held_out
from training.data.pairs import Pair, PairConfig, find_pairs
from training.errors import NothingToTrainOn
from training.trainer.batches import Batch, collate, target_logprobs
from training.trainer.learner import Learner, OptimizerConfig
from training.trainer.loop import (
    TrainingLoop,
    TrainingPlan,
    TrainingRecipe,
    TrainingResult,
    TrainingSession,
    open_session,
)
from training.trainer.models import load_for_training, precision_context
from training.trainer.packing import BatchConfig, MicroBatch, Step, local_micro_batches
from training.trainer.throughput import ThroughputMeter

__all__ = ["DpoRecipe", "main", "plan", "train"]

_METRICS = ("loss", "margin", "accuracy", "chosen", "rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoRecipe(TrainingRecipe):
    """Everything about one training by preferences. Defaults are those of the original's script.

    `data` is of runs with several samples per item; `data.held_out` keeps that share of items'
    pairs aside. `batch.sequences` counts pairs.
    """

    pairs: PairConfig = field(default_factory=PairConfig)
    beta: float = 0.5
    """How strongly the model is held to where it began."""
    epochs: int = 3
    batch: BatchConfig = field(default_factory=lambda: BatchConfig(sequences=16))
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=5e-7, schedule="constant")
    )

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError("beta is above 0")


def train(
    recipe: DpoRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> TrainingResult:
    """Train by a recipe; a complete training that is resumed returns its result at once.

    Args:
        recipe: What to train.
        start: What to do with a training that is in the folder `recipe.out`.
        console: Gets progress and the plan; None = stderr.

    Raises:
        TrainingError: The recipe asks for what cannot be, or the training diverged.
    """
    with open_session(recipe, "dpo", start=start, console=console) as session:
        report = session.run_dir.report()
        if report is None:
            report = _Preferring(recipe, session).run()
        return TrainingResult(checkpoint=session.run_dir.final, base=session.base, report=report)


def plan(
    recipe: DpoRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> TrainingPlan:
    """Prepare the data and say how many pairs, steps and how much memory a training takes.

    Nothing is trained: `train` goes on from what was prepared. Takes and raises what `train` does.
    """
    with open_session(recipe, "dpo", start=start, console=console) as session:
        return _Preferring(recipe, session).plan()


class _Preferring(TrainingLoop):
    """One start of a training."""

    last_metrics = (*_METRICS, *(f"held_out_{name}" for name in _METRICS))

    def __init__(self, recipe: DpoRecipe, session: TrainingSession) -> None:
        self._recipe = recipe
        # Pairs are held out, not sequences: both sides of a pair must be in one dataset.
        whole = dataclasses.replace(recipe.data, held_out=0.0, held_out_sources=())
        self._dataset, _ = session.prepare_datasets(whole)
        self._pairs: list[Pair] = []
        self._held_out: list[Pair] = []
        for pair in find_pairs(self._dataset, recipe.pairs):
            aside = is_held_out(pair.item_id, recipe.data.held_out)
            (self._held_out if aside else self._pairs).append(pair)
        if not self._pairs or (recipe.data.held_out and not self._held_out):
            raise NothingToTrainOn(
                f"{len(self._pairs)} pairs to train on and {len(self._held_out)} held out: change "
                "the share",
                field="data.held_out",
            )
        self._reference = np.zeros(0)
        lengths = self._pair_lengths(self._pairs)
        super().__init__(recipe, session, lengths, micro_tokens=2 * recipe.data.context)

    def describe(self) -> str:
        return f"{len(self._pairs)} pairs, {len(self._held_out)} held out"

    def prepare(self) -> None:
        """Compute log r of every sequence of a pair, [sequences], or read it where it is stored."""
        path = self.session.run_dir.data / "reference.npy"
        if not self.dist.broadcast(path.is_file()):
            reference = self._reference_logprobs()
            if self.dist.is_main:
                partial = path.with_suffix(".partial.npy")
                np.save(partial, reference, allow_pickle=False)
                partial.replace(path)
            self.dist.barrier()
        self._reference = np.load(path, allow_pickle=False)

    def _reference_logprobs(self) -> NDArray[np.float64]:
        model = load_for_training(self.session.base, self._recipe.model, self.dist, frozen=True)
        pairs = [*self._pairs, *self._held_out]
        numbers = sorted({n for pair in pairs for n in (*pair.chosen, *pair.rejected)})
        lengths = self._dataset.lengths[numbers]
        (step,) = self.epoch_steps(lengths, BatchConfig(sequences=len(numbers), shuffle=False))
        logprobs = np.zeros(len(self._dataset))
        with torch.no_grad():
            for micro in local_micro_batches(step, self.dist.rank, self.dist.world_size, lengths):
                rows = [numbers[index] for index in micro]
                logprobs[rows] = self._likelihoods(model, rows)[0].double().cpu().numpy()
        # Every process computed other rows; those of the others are 0.
        return np.array(self.dist.all_reduce_sum(logprobs.tolist()))

    def _pair_lengths(self, pairs: Sequence[Pair]) -> NDArray[np.int32]:
        """Return the tokens of both sides of each pair."""
        lengths = self._dataset.lengths
        return np.array([lengths[[*pair.chosen, *pair.rejected]].sum() for pair in pairs], np.int32)

    def _likelihoods(
        self, model: torch.nn.Module, numbers: Sequence[int]
    ) -> tuple[torch.Tensor, Batch]:
        """Return log p of each sequence, float32 [sequences], and the batch.

        An empty list gives no value but still runs the model: the other processes of a sharded one
        wait for this one's part.
        """
        batch = collate([self._dataset[number] for number in numbers], self.dist.device)
        with precision_context(self._recipe.model, self.dist):
            logprobs = target_logprobs(model, batch)
        sums = torch.zeros(max(1, len(numbers)), device=self.dist.device)
        sums = sums.index_add(0, batch.sequence_index, logprobs * (batch.weights > 0))
        return (sums if numbers else sums * 0)[: len(numbers) or None], batch

    def learn(self, learner: Learner, step: Step, meter: ThroughputMeter) -> dict[str, Any]:
        learner.begin_step()
        count = sum(len(micro) for micro in step)
        sums = dict.fromkeys(_METRICS, 0.0)
        micro_batches = local_micro_batches(
            step, self.dist.rank, self.dist.world_size, self.lengths
        )
        for index, micro in enumerate(micro_batches, 1):
            loss, metrics = self._pair_loss(learner.model, self._pairs, micro, meter)
            learner.backward(loss / count, last=index == len(micro_batches))
            sums = {name: sums[name] + metrics.get(name, 0.0) for name in _METRICS}
        grad_norm, lr = learner.update()
        totals = self.dist.all_reduce_sum(list(sums.values()))
        means = dict(zip(sums, (total / count for total in totals), strict=True))
        return {**means, "lr": lr, "grad_norm": grad_norm, **meter.read()}

    def _pair_loss(
        self,
        model: torch.nn.Module,
        pairs: Sequence[Pair],
        micro: MicroBatch,
        meter: ThroughputMeter | None = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Return the summed loss of some pairs, and sums of their metrics."""
        batch_pairs = [pairs[index] for index in micro]
        numbers = [n for pair in batch_pairs for n in (*pair.chosen, *pair.rejected)]
        logprobs, batch = self._likelihoods(model, numbers)
        if meter is not None:
            meter.record_batch(batch)
        if not numbers:
            return logprobs.sum(), {}
        reference = self._reference[numbers]
        ref_logprobs = torch.tensor(reference, dtype=torch.float32, device=self.dist.device)
        rewards = self._recipe.beta * (logprobs - ref_logprobs)
        sides = [len(side) for pair in batch_pairs for side in (pair.chosen, pair.rejected)]
        # An episode's reward is the sum over its sequences; sides alternate: chosen, rejected, ...
        per_side = torch.stack([part.sum() for part in torch.split(rewards, sides)])
        chosen, rejected = per_side.view(-1, 2).unbind(1)
        margins = chosen - rejected
        loss = -F.logsigmoid(margins).sum()
        sums = (loss, margins.sum(), (margins > 0).sum(), chosen.sum(), rejected.sum())
        return loss, dict(zip(_METRICS, (float(value.detach()) for value in sums), strict=True))

    @torch.no_grad()
    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the metrics' means over the pairs that are held out."""
        if not self._held_out:
            return {}
        lengths = self._pair_lengths(self._held_out)
        config = BatchConfig(sequences=len(lengths), shuffle=False)
        (step,) = self.epoch_steps(lengths, config)
        sums = dict.fromkeys(_METRICS, 0.0)
        model.eval()
        for micro in local_micro_batches(step, self.dist.rank, self.dist.world_size, lengths):
            _, metrics = self._pair_loss(model, self._held_out, micro)
            sums = {name: sums[name] + metrics.get(name, 0.0) for name in _METRICS}
        model.train()
        totals = self.dist.all_reduce_sum(list(sums.values()))
        names = (f"held_out_{name}" for name in _METRICS)
        return dict(zip(names, (total / len(self._held_out) for total in totals), strict=True))

    def report(self) -> dict[str, Any]:
        return {
            "pairs": len(self._pairs),
            "held_out_pairs": len(self._held_out),
            "left_out": self._dataset.summary.left_out,
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_recipe(DpoRecipe, train, plan, argv, program="python -m training.dpo")


if __name__ == "__main__":
    sys.exit(main())
