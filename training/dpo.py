# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""Direct preference optimisation on successes and failures of the same instruction.

    python -m training.dpo RECIPE.toml [--resume | --overwrite] [--plan] [--beta 0.5 ...]
    torchrun --nproc-per-node 8 -m training.dpo RECIPE.toml

The margin of a pair is m = beta * (log p/r of the chosen - log p/r of the rejected), with p the
model, r the model before training, and log-likelihoods summed over all replies of an episode. The
loss of a step is the mean of -log sigmoid(m) over its pairs. r is computed once, before the first
step, and stored. Reads top to bottom. Source: https://arxiv.org/abs/2305.18290
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its common name)
from numpy.typing import NDArray
from rich.console import Console

from training.config.cli import run_recipe
from training.config.recipe import as_plain
from training.data.dataset import Corpus, DataConfig, held_out
from training.data.pairs import Pair, PairConfig, find_pairs
from training.errors import NothingToTrainOn
from training.runs.run_dir import SaveConfig, Workspace
from training.runs.tracking import Tracker, TrackingConfig, read_log
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import Processes, processes
from training.trainer.learner import Learner, OptimizerConfig, latest_state, prune_states
from training.trainer.memory import measure_model, plan_memory, require_memory
from training.trainer.models import (
    ModelConfig,
    computing,
    load_for_training,
    model_settings,
    save_checkpoint,
)
from training.trainer.packing import BatchConfig, MicroBatch, Step, plan_epoch, share
from training.trainer.preparation import prepare_base, prepare_corpora
from training.trainer.throughput import Speedometer

__all__ = ["DpoRecipe", "DpoResult", "main", "train"]

_FIGURES = ("loss", "margin", "accuracy", "chosen", "rejected")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoRecipe:
    """Everything about one training by preferences. Defaults are those of the original's script."""

    out: Path
    """Folder for all that is written."""
    model: ModelConfig
    data: DataConfig
    """Runs with several samples per item; `held_out` keeps that share of items' pairs aside."""
    pairs: PairConfig = field(default_factory=PairConfig)
    beta: float = 0.5
    """How strongly the model is held to where it began."""
    epochs: int = 3
    max_steps: int = 0
    """Stop after so many steps; 0 = all epochs."""
    seed: int = 42
    device: str = "auto"
    """auto, cpu or cuda."""
    batch: BatchConfig = field(default_factory=lambda: BatchConfig(sequences=16))
    """`sequences` counts pairs."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=5e-7, schedule="constant")
    )
    save: SaveConfig = field(default_factory=SaveConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)

    def __post_init__(self) -> None:
        if self.beta <= 0:
            raise ValueError("beta is above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoResult:
    """How a training ended."""

    checkpoint: Path
    """The Hugging Face folder of the trained model."""
    report: dict[str, Any]


def train(
    recipe: DpoRecipe,
    *,
    resume: bool = False,
    overwrite: bool = False,
    plan_only: bool = False,
    console: Console | None = None,
) -> DpoResult:
    """Train by a recipe. A complete training that is resumed gives its result at once.

    Raises TrainingError, OrchestratorError.
    """
    console = console or Console(stderr=True)
    with processes(recipe.device) as job:
        if job.first:
            Workspace.open(
                recipe.out, as_plain(recipe), algorithm="dpo", resume=resume, overwrite=overwrite
            )
        job.wait()
        space = Workspace(recipe.out)
        report = space.report()
        if report is None:
            data = recipe.data
            base = prepare_base(
                recipe.model, data.sources, space, job, runs=data.runs, seed=recipe.seed
            )
            # Pairs are held out, not sequences: both sides of a pair must be in one corpus.
            whole = dataclasses.replace(data, held_out=0.0, held_out_sources=())
            corpus, _ = prepare_corpora(whole, base, space, job, console)
            run = _Preferring(recipe, space, base, corpus, job, console)
            report = run.plan() if plan_only else run.run()
        return DpoResult(checkpoint=space.final, report=report)


class _Preferring:
    """One start of a training, with its pairs at hand."""

    def __init__(
        self,
        recipe: DpoRecipe,
        space: Workspace,
        base: str,
        corpus: Corpus,
        job: Processes,
        console: Console,
    ) -> None:
        self._recipe, self._space, self._base = recipe, space, base
        self._corpus, self._job, self._console = corpus, job, console
        found = find_pairs(corpus, recipe.pairs)
        aside = [held_out(it.item_id, recipe.data.held_out) for it in found]
        self._pairs = [it for it, kept in zip(found, aside, strict=True) if not kept]
        self._held_out = [it for it, kept in zip(found, aside, strict=True) if kept]
        if not self._pairs or (recipe.data.held_out and not self._held_out):
            raise NothingToTrainOn(
                f"{len(self._pairs)} pairs to train on and {len(self._held_out)} held out: change "
                "the share",
                field="data.held_out",
            )
        self._lengths = self._lengths_of(self._pairs)
        micro = recipe.batch.micro_tokens or 2 * recipe.data.context
        self._capacity = max(micro, int(self._lengths.max(initial=1)))
        self._size = measure_model(model_settings(base))
        self._epoch_ends = list(
            np.cumsum([len(self._epoch(epoch)) for epoch in range(recipe.epochs)])
        )
        self._total = int(self._epoch_ends[-1])
        if recipe.max_steps:
            self._total = min(self._total, recipe.max_steps)

    def _lengths_of(self, pairs: Sequence[Pair]) -> NDArray[np.int32]:
        """Tokens of both sides of each pair."""
        lengths = self._corpus.lengths
        return np.array([lengths[[*it.chosen, *it.rejected]].sum() for it in pairs], np.int32)

    def _epoch(self, epoch: int) -> tuple[Step, ...]:
        """The steps of an epoch, in numbers of pairs."""
        return plan_epoch(
            self._lengths,
            self._recipe.batch,
            capacity=self._capacity,
            seed=self._recipe.seed,
            epoch=epoch,
        ).steps

    def plan(self) -> dict[str, Any]:
        """Pairs, steps and memory, without training; raises NotEnoughMemory."""
        memory = plan_memory(
            self._size,
            self._recipe.model,
            micro_tokens=self._capacity,
            world=self._job.world,
            sharded=self._job.grouped,
        )
        if self._job.first:
            line = (
                f"{len(self._pairs)} pairs, {len(self._held_out)} held out, {self._total} steps; "
                f"{memory.describe()}"
            )
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
        require_memory(memory, self._job, micro_tokens=self._capacity)
        return {"steps": self._total, "pairs": len(self._pairs), "memory_bytes": memory.total}

    def run(self) -> dict[str, Any]:
        """Train to the end; returns the report."""
        self.plan()
        recipe, space, job = self._recipe, self._space, self._job
        reference = self._reference()
        model = load_for_training(self._base, recipe.model, job, seed=recipe.seed)
        learner = Learner(model, recipe.optimizer, job, seed=recipe.seed, total=self._total)
        state = job.agree(str(latest_state(space.states) or ""))
        if state:
            learner.load_state(Path(state))
        with Tracker(
            recipe.tracking,
            log=space.log,
            tensorboard=space.tensorboard,
            console=self._console,
            total=self._total,
            step=learner.step,
            active=job.first,
            name=space.folder.name,
        ) as tracker:
            speed = Speedometer(self._size, recipe.tracking, job)
            for epoch, step in self._remaining(learner.step):
                figures = self._learn(learner, step, reference, speed)
                tracker.record(learner.step, {"epoch": epoch, **figures})
                self._between_steps(learner, tracker, reference)
        save_checkpoint(
            model, space.final, tokenizer=self._base, processes=job, half=recipe.save.half
        )
        return self._conclude(learner.step)

    def _reference(self) -> NDArray[np.float64]:
        """Log r of every sequence of a pair, [sequences]; computed once, then read."""
        path = self._space.data / "reference.npy"
        if not self._job.agree(path.is_file()):
            model = load_for_training(self._base, self._recipe.model, self._job, frozen=True)
            numbers = sorted({n for it in self._all() for n in (*it.chosen, *it.rejected)})
            config = BatchConfig(sequences=len(numbers), shuffle=False)
            lengths = self._corpus.lengths[numbers]
            (step,) = plan_epoch(lengths, config, capacity=self._capacity, seed=0, epoch=0).steps
            found = np.zeros(len(self._corpus))
            with torch.no_grad():
                for micro in share(step, self._job.rank, self._job.world, lengths):
                    chosen = [numbers[at] for at in micro]
                    found[chosen] = self._likelihoods(model, chosen)[0].double().cpu().numpy()
            found = np.array(self._job.total(found.tolist()))
            if self._job.first:
                partial = path.with_suffix(".partial.npy")
                np.save(partial, found, allow_pickle=False)
                partial.replace(path)
            self._job.wait()
            return found
        return np.load(path, allow_pickle=False)

    def _all(self) -> list[Pair]:
        return [*self._pairs, *self._held_out]

    def _likelihoods(
        self, model: torch.nn.Module, numbers: Sequence[int]
    ) -> tuple[torch.Tensor, Any]:
        """Log p of each sequence, float32 [sequences], and the batch.

        An empty list gives no value but still runs the model, as sharding wants.
        """
        batch = collate([self._corpus[number] for number in numbers], self._job.device)
        with computing(self._recipe.model, self._job):
            logprobs = target_logprobs(model, batch)
        sums = torch.zeros(max(1, len(numbers)), device=self._job.device)
        sums = sums.index_add(0, batch.owners, logprobs * (batch.weights > 0))
        return (sums if numbers else sums * 0)[: len(numbers) or None], batch

    def _remaining(self, done: int) -> Iterator[tuple[int, Step]]:
        """The steps after the first `done` ones, with their epochs."""
        at = 0
        for epoch, end in enumerate(self._epoch_ends):
            if end > done:
                for step in self._epoch(epoch)[max(0, done - at) : max(0, self._total - at)]:
                    yield epoch, step
            at = int(end)

    def _learn(
        self, learner: Learner, step: Step, reference: NDArray[np.float64], speed: Speedometer
    ) -> dict[str, Any]:
        """One update; returns its figures."""
        learner.begin_step()
        count = sum(len(micro) for micro in step)
        sums = dict.fromkeys(_FIGURES, 0.0)
        for micro in share(step, self._job.rank, self._job.world, self._lengths):
            part, figures = self._judge(learner.model, self._pairs, micro, reference, speed)
            learner.backward(part / count)
            sums = {name: sums[name] + figures.get(name, 0.0) for name in _FIGURES}
        length, rate = learner.update()
        totals = self._job.total(list(sums.values()))
        means = dict(zip(sums, (it / count for it in totals), strict=True))
        return {**means, "lr": rate, "grad_norm": length, **speed.read()}

    def _judge(
        self,
        model: torch.nn.Module,
        pairs: Sequence[Pair],
        micro: MicroBatch,
        reference: NDArray[np.float64],
        speed: Speedometer | None = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The summed loss of some pairs, and sums of their figures."""
        chosen = [pairs[at] for at in micro]
        numbers = [n for it in chosen for n in (*it.chosen, *it.rejected)]
        likelihoods, batch = self._likelihoods(model, numbers)
        if speed is not None:
            speed.count(batch)
        if not numbers:
            return likelihoods.sum(), {}
        before = torch.tensor(reference[numbers], dtype=torch.float32, device=self._job.device)
        gains = self._recipe.beta * (likelihoods - before)
        sides = [len(side) for it in chosen for side in (it.chosen, it.rejected)]
        # An episode's gain is the sum over its sequences; sides alternate: chosen, rejected, ...
        better, worse = torch.stack([it.sum() for it in gains.split(sides)]).view(-1, 2).unbind(1)
        margins = better - worse
        loss = -F.logsigmoid(margins).sum()
        values = (loss, margins.sum(), (margins > 0).sum(), better.sum(), worse.sum())
        return loss, dict(zip(_FIGURES, (float(it.detach()) for it in values), strict=True))

    def _between_steps(
        self, learner: Learner, tracker: Tracker, reference: NDArray[np.float64]
    ) -> None:
        """Evaluate and save where it is time to."""
        step, every = learner.step, self._recipe.save.state_every
        ended = step in self._epoch_ends or step == self._total
        if ended and self._held_out:
            tracker.record(step, self._held_out_figures(learner.model, reference))
        if ended or (every and step % every == 0):
            learner.save_state(self._space.states)
            if self._job.first:
                prune_states(self._space.states, self._recipe.save.keep_states)

    @torch.no_grad()
    def _held_out_figures(
        self, model: torch.nn.Module, reference: NDArray[np.float64]
    ) -> dict[str, float]:
        lengths = self._lengths_of(self._held_out)
        config = BatchConfig(sequences=len(lengths), shuffle=False)
        capacity = max(self._capacity, int(lengths.max()))
        (step,) = plan_epoch(lengths, config, capacity=capacity, seed=0, epoch=0).steps
        sums = dict.fromkeys(_FIGURES, 0.0)
        model.eval()
        for micro in share(step, self._job.rank, self._job.world, lengths):
            _, figures = self._judge(model, self._held_out, micro, reference)
            sums = {name: sums[name] + figures.get(name, 0.0) for name in _FIGURES}
        model.train()
        totals = self._job.total(list(sums.values()))
        names = (f"held_out_{name}" for name in _FIGURES)
        return dict(zip(names, (it / len(self._held_out) for it in totals), strict=True))

    def _conclude(self, step: int) -> dict[str, Any]:
        last: dict[str, Any] = {}
        wanted = {*_FIGURES, *(f"held_out_{name}" for name in _FIGURES)}
        for row in read_log(self._space.log):
            last |= {name: value for name, value in row.items() if name in wanted}
        report = {
            "steps": step,
            **last,
            "pairs": len(self._pairs),
            "held_out_pairs": len(self._held_out),
            "left_out": self._corpus.summary.left_out,
        }
        if self._job.first:
            self._space.conclude(report)
            self._console.print(
                f"trained: {self._space.final}", highlight=False, markup=False, soft_wrap=True
            )
        self._job.wait()
        return report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_recipe(DpoRecipe, train, argv, program="python -m training.dpo")


if __name__ == "__main__":
    sys.exit(main())
