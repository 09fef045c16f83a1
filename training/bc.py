"""Behavioural cloning: maximise the likelihood of what good players said.

    python -m training.bc RECIPE.toml [--resume | --overwrite] [--plan] [--optimizer.lr 1e-4 ...]
    torchrun --nproc-per-node 8 -m training.bc RECIPE.toml

The loss of a step is the weighted mean of -log p(target | what came before it in its conversation)
over all targets of all replies in the step, however they are spread over micro-batches and
processes. One forward pass covers every reply of a conversation. Reads top to bottom; the loop
around it is `training.trainer.loop`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

try:
    import torch
except ModuleNotFoundError as error:
    from training.needed import without_torch

    raise without_torch(error) from None

from training.config.cli import run_recipe
from training.config.start import Start
from training.data.dataset import TokenDataset
from training.data.shares import share_sequences
from training.rollouts.agent_evaluation import AgentEvalConfig, evaluate_agent
from training.trainer.batches import Batch, collate, target_logprobs
from training.trainer.learner import Learner
from training.trainer.loop import (
    TrainingLoop,
    TrainingPlan,
    TrainingRecipe,
    TrainingResult,
    TrainingSession,
    open_session,
)
from training.trainer.models import precision_context
from training.trainer.packing import BatchConfig, Step, local_micro_batches
from training.trainer.throughput import ThroughputMeter

__all__ = ["BcRecipe", "main", "plan", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BcRecipe(TrainingRecipe):
    """Everything about one training by behavioural cloning."""

    shares: dict[str, float] = field(default_factory=dict[str, float])
    """Environment -> its share of the sequences of an epoch, hence of the updates: sequences of
    those that have too few are repeated. Empty = as many as the data has."""
    held_out_every: int = 0
    """Steps between held-out losses; 0 = at the end of each epoch. Needs data.held_out."""
    agent_eval: AgentEvalConfig | None = None
    """Play held-out tasks with the checkpoints of the way and the final one."""

    def __post_init__(self) -> None:
        if any(not 0 < share < math.inf for share in self.shares.values()):
            raise ValueError("shares are above 0")


def train(
    recipe: BcRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> TrainingResult:
    """Train by a recipe; a complete training that is resumed returns its result at once.

    Args:
        recipe: What to train.
        start: What to do with a training that is in the folder `recipe.out`.
        console: Gets progress and the plan; None = stderr.

    Raises:
        TrainingError: The recipe asks for what cannot be, or the training diverged.
        OrchestratorError: An evaluation that the recipe asks for could not be played.
    """
    with open_session(recipe, "bc", start=start, console=console) as session:
        report = session.run_dir.report()
        if report is None:
            report = _Cloning(recipe, session).run()
        return TrainingResult(checkpoint=session.run_dir.final, base=session.base, report=report)


def plan(
    recipe: BcRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> TrainingPlan:
    """Prepare the data and say how many steps and how much memory a training takes.

    Nothing is trained: `train` goes on from what was prepared. Takes and raises what `train` does.
    """
    with open_session(recipe, "bc", start=start, console=console) as session:
        return _Cloning(recipe, session).plan()


class _Cloning(TrainingLoop):
    """One start of a training."""

    last_metrics = ("loss", "held_out_loss")

    def __init__(self, recipe: BcRecipe, session: TrainingSession) -> None:
        self._recipe = recipe
        self._dataset, self._held_out = session.prepare_datasets(recipe.data)
        self._order = _order(self._dataset, recipe)
        lengths = self._dataset.lengths[self._order]
        super().__init__(recipe, session, lengths, micro_tokens=recipe.data.context)

    def describe(self) -> str:
        return f"{self.size.parameters / 1e6:,.1f} M parameters"

    def learn(self, learner: Learner, step: Step, meter: ThroughputMeter) -> dict[str, Any]:
        learner.begin_step()
        norm = self._total_weight(step)
        loss = torch.zeros((), device=self.dist.device)
        micro_batches = local_micro_batches(
            step, self.dist.rank, self.dist.world_size, self.lengths
        )
        for index, numbers in enumerate(micro_batches, 1):
            batch = self._batch(self._dataset, [int(self._order[number]) for number in numbers])
            with precision_context(self._recipe.model, self.dist):
                logprobs = target_logprobs(learner.model, batch)
            part = -(batch.weights * logprobs).sum() / norm
            learner.backward(part, last=index == len(micro_batches))
            loss += part.detach()
            meter.record_batch(batch)
        grad_norm, lr = learner.update()
        (value,) = self.dist.all_reduce_sum([float(loss)])
        return {"loss": value, "lr": lr, "grad_norm": grad_norm, **meter.read()}

    def _total_weight(self, step: Step) -> float:
        """Return the sum of weights over all targets of a step, on all processes."""
        numbers = self._order[[number for micro in step for number in micro]]
        return float((self._dataset.targets[numbers] * self._dataset.weights[numbers]).sum())

    def _batch(self, dataset: TokenDataset, numbers: Sequence[int]) -> Batch:
        fill = self.capacity if self._recipe.model.compile else 0
        return collate([dataset[number] for number in numbers], self.dist.device, pad_to=fill)

    def evaluation_due(self, step: int, epoch_ended: bool) -> bool:
        every = self._recipe.held_out_every
        return epoch_ended or bool(every and step % every == 0)

    @torch.no_grad()
    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return the mean of -log p over all targets that are held out."""
        if self._held_out is None:
            return {}
        lengths = self._held_out.lengths
        config = BatchConfig(sequences=len(lengths), shuffle=False)
        (step,) = self.epoch_steps(lengths, config)
        total = count = 0.0
        model.eval()
        for numbers in local_micro_batches(step, self.dist.rank, self.dist.world_size, lengths):
            batch = self._batch(self._held_out, numbers)
            with precision_context(self._recipe.model, self.dist):
                logprobs = target_logprobs(model, batch)
            trained = batch.weights > 0
            total -= float(logprobs[trained].sum())
            count += float(trained.sum())
        model.train()
        total, count = self.dist.all_reduce_sum([total, count])
        return {"held_out_loss": total / count}

    def evaluate_checkpoint(self, folder: Path, step: int) -> Mapping[str, float]:
        """Play held-out tasks with a checkpoint, where the recipe asks for it."""
        config = self._recipe.agent_eval
        if config is None or not self.dist.is_main:
            return {}
        runs = self.session.run_dir.agent_eval
        return evaluate_agent(config, folder, runs / f"step-{step}", self.session.console)

    def report(self) -> dict[str, Any]:
        summary = self._dataset.summary
        return {
            "parameters": self.size.parameters,
            "sequences": len(self._dataset),
            "tokens": summary.tokens,
            "targets": summary.targets,
            "left_out": summary.left_out,
            **({"epoch_sequences": len(self._order)} if self._recipe.shares else {}),
        }


def _order(dataset: TokenDataset, recipe: BcRecipe) -> NDArray[np.int64]:
    """Return which sequences an epoch takes, by their numbers in the dataset, [examples]."""
    if not recipe.shares:
        return np.arange(len(dataset))
    environments = [origin.environment for origin in dataset.origins()]
    return share_sequences(environments, recipe.shares, seed=recipe.seed)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_recipe(BcRecipe, train, plan, argv, program="python -m training.bc")


if __name__ == "__main__":
    sys.exit(main())
