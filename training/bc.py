# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""Behavioural cloning: maximise the likelihood of what good players said.

    python -m training.bc RECIPE.toml [--resume | --overwrite] [--plan] [--optimizer.lr 1e-4 ...]
    torchrun --nproc-per-node 8 -m training.bc RECIPE.toml

The loss of a step is the weighted mean of -log p(target | what came before it in its conversation)
over all targets of all replies in the step, however they are spread over micro-batches and
processes. One forward pass covers every reply of a conversation. Reads top to bottom.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from training.config.cli import run_recipe
from training.config.recipe import as_plain
from training.data.dataset import Corpus, DataConfig
from training.rollouts.agent_evaluation import AgentEvalConfig, evaluate_agent
from training.runs.run_dir import SaveConfig, Workspace
from training.runs.tracking import Tracker, TrackingConfig, read_log
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import Processes, processes
from training.trainer.learner import Learner, OptimizerConfig, latest_state, prune_states
from training.trainer.memory import ModelSize, measure_model, plan_memory, require_memory
from training.trainer.models import (
    ModelConfig,
    computing,
    load_for_training,
    model_settings,
    save_checkpoint,
)
from training.trainer.packing import BatchConfig, Step, plan_epoch, share
from training.trainer.preparation import prepare_base, prepare_corpora
from training.trainer.throughput import Speedometer

__all__ = ["BcRecipe", "BcResult", "SaveConfig", "main", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BcRecipe:
    """Everything about one training by behavioural cloning."""

    out: Path
    """Folder for all that is written."""
    model: ModelConfig
    data: DataConfig
    epochs: int = 1
    max_steps: int = 0
    """Stop after so many steps; 0 = all epochs. The schedule ends there, too."""
    seed: int = 42
    """Of weights from scratch, of the order of sequences, of dropout."""
    device: str = "auto"
    """auto, cpu or cuda."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    held_out_every: int = 0
    """Steps between held-out losses; 0 = at the end of each epoch. Needs data.held_out."""
    agent_eval: AgentEvalConfig | None = None
    """Play held-out tasks with the checkpoints of the way and the final one."""
    save: SaveConfig = field(default_factory=SaveConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class BcResult:
    """How a training ended."""

    checkpoint: Path
    """The Hugging Face folder of the trained model."""
    base: str
    """The model that it started from."""
    report: dict[str, Any]
    """Steps, final losses, tokens, what was left out; as `report.json`."""


def train(
    recipe: BcRecipe,
    *,
    resume: bool = False,
    overwrite: bool = False,
    plan_only: bool = False,
    console: Console | None = None,
) -> BcResult:
    """Train by a recipe. A complete training that is resumed gives its result at once.

    With `plan_only` it stops before the first step. Raises TrainingError, OrchestratorError.
    """
    console = console or Console(stderr=True)
    with processes(recipe.device) as job:
        if job.first:
            Workspace.open(
                recipe.out, as_plain(recipe), algorithm="bc", resume=resume, overwrite=overwrite
            )
        job.wait()
        space = Workspace(recipe.out)
        sources = recipe.data.sources
        base = prepare_base(
            recipe.model, sources, space, job, runs=recipe.data.runs, seed=recipe.seed
        )
        report = space.report()
        if report is None:
            corpus, held_out = prepare_corpora(recipe.data, base, space, job, console)
            run = _Cloning(recipe, space, base, corpus, held_out, job, console)
            report = run.plan() if plan_only else run.run()
        return BcResult(checkpoint=space.final, base=base, report=report)


class _Cloning:
    """One start of a training, with its data at hand."""

    def __init__(
        self,
        recipe: BcRecipe,
        space: Workspace,
        base: str,
        corpus: Corpus,
        held_out: Corpus | None,
        job: Processes,
        console: Console,
    ) -> None:
        self._recipe, self._space, self._base = recipe, space, base
        self._corpus, self._held_out = corpus, held_out
        self._job, self._console = job, console
        micro = recipe.batch.micro_tokens or recipe.data.context
        self._capacity = max(micro, int(corpus.lengths.max()))
        self._size: ModelSize = measure_model(model_settings(base))
        self._epoch_ends = self._count_steps()
        self._total = self._epoch_ends[-1]
        if recipe.max_steps:
            self._total = min(self._total, recipe.max_steps)

    def _epoch(self, epoch: int) -> tuple[Step, ...]:
        return plan_epoch(
            self._corpus.lengths,
            self._recipe.batch,
            capacity=self._capacity,
            seed=self._recipe.seed,
            epoch=epoch,
        ).steps

    def _count_steps(self) -> list[int]:
        """Steps done at the end of each epoch."""
        ends = [0]
        for epoch in range(self._recipe.epochs):
            ends.append(ends[-1] + len(self._epoch(epoch)))
        return ends[1:]

    def plan(self) -> dict[str, Any]:
        """Steps and memory, without training; raises NotEnoughMemory."""
        memory = plan_memory(
            self._size,
            self._recipe.model,
            micro_tokens=self._capacity,
            world=self._job.world,
            sharded=self._job.grouped,
        )
        if self._job.first:
            count = f"{self._size.parameters / 1e6:,.1f} M parameters, {self._total} steps"
            self._console.print(
                f"{count}; {memory.describe()}", highlight=False, markup=False, soft_wrap=True
            )
        require_memory(memory, self._job, micro_tokens=self._capacity)
        return {"steps": self._total, "memory_bytes": memory.total}

    def run(self) -> dict[str, Any]:
        """Train to the end; returns the report."""
        self.plan()
        recipe, space, job = self._recipe, self._space, self._job
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
                figures = self._learn(learner, step, speed)
                tracker.record(learner.step, {"epoch": epoch, **figures})
                self._between_steps(learner, tracker, epoch)
        save_checkpoint(
            model, space.final, tokenizer=self._base, processes=job, half=recipe.save.half
        )
        return self._conclude(learner.step)

    def _remaining(self, done: int) -> Iterator[tuple[int, Step]]:
        """The steps after the first `done` ones, with their epochs."""
        at = 0
        for epoch, end in enumerate(self._epoch_ends):
            if end > done:
                for step in self._epoch(epoch)[max(0, done - at) : max(0, self._total - at)]:
                    yield epoch, step
            at = end

    def _learn(self, learner: Learner, step: Step, speed: Speedometer) -> dict[str, Any]:
        """One update; returns its figures."""
        learner.begin_step()
        norm = self._weight_of(step)
        loss = torch.zeros((), device=self._job.device)
        for numbers in share(step, self._job.rank, self._job.world, self._corpus.lengths):
            batch = self._batch(self._corpus, numbers)
            with computing(self._recipe.model, self._job):
                logprobs = target_logprobs(learner.model, batch)
            part = -(batch.weights * logprobs).sum() / norm
            learner.backward(part)
            loss += part.detach()
            speed.count(batch)
        length, rate = learner.update()
        (value,) = self._job.total([float(loss)])
        return {"loss": value, "lr": rate, "grad_norm": length, **speed.read()}

    def _weight_of(self, step: Step) -> float:
        """Sum of weights over all targets of a step, on all processes."""
        numbers = [number for micro in step for number in micro]
        return float((self._corpus.targets[numbers] * self._corpus.weights[numbers]).sum())

    def _batch(self, corpus: Corpus, numbers: Sequence[int]) -> Any:
        fill = self._capacity if self._recipe.model.compile else 0
        return collate([corpus[number] for number in numbers], self._job.device, pad_to=fill)

    def _between_steps(self, learner: Learner, tracker: Tracker, epoch: int) -> None:
        """Evaluate and save where it is time to."""
        recipe, step = self._recipe, learner.step
        ended = step in self._epoch_ends or step == self._total
        if self._held_out is not None and _due(step, recipe.held_out_every, ended):
            tracker.record(step, {"held_out_loss": self._held_out_loss(learner.model)})
        every = recipe.save.checkpoint_every
        if ended and every and (epoch + 1) % every == 0 and step < self._total:
            folder = self._space.checkpoints / f"epoch-{epoch + 1}"
            save_checkpoint(
                learner.model,
                folder,
                tokenizer=self._base,
                processes=self._job,
                half=recipe.save.half,
            )
            tracker.record(step, self._play(folder, step))
        last = step == self._total
        if _due(step, recipe.save.state_every, last if recipe.save.state_every else ended):
            learner.save_state(self._space.states)
            if self._job.first:
                prune_states(self._space.states, recipe.save.keep_states)

    @torch.no_grad()
    def _held_out_loss(self, model: torch.nn.Module) -> float:
        """Mean of -log p over all targets that are held out."""
        assert self._held_out is not None
        lengths = self._held_out.lengths
        config = BatchConfig(sequences=len(lengths), shuffle=False)
        capacity = max(self._capacity, int(lengths.max()))
        (step,) = plan_epoch(lengths, config, capacity=capacity, seed=0, epoch=0).steps
        total = count = 0.0
        model.eval()
        for numbers in share(step, self._job.rank, self._job.world, lengths):
            batch = self._batch(self._held_out, numbers)
            with computing(self._recipe.model, self._job):
                logprobs = target_logprobs(model, batch)
            trained = batch.weights > 0
            total -= float(logprobs[trained].sum())
            count += float(trained.sum())
        model.train()
        total, count = self._job.total([total, count])
        return total / count

    def _play(self, folder: Path, step: int) -> dict[str, float]:
        """AgentEval of a checkpoint, where the recipe asks for it."""
        config = self._recipe.agent_eval
        if config is None or not self._job.first:
            return {}
        return evaluate_agent(
            config, folder, self._space.agent_eval / f"step-{step}", self._console
        )

    def _conclude(self, step: int) -> dict[str, Any]:
        taken = self._corpus.summary
        report = {
            "steps": step,
            **self._last_figures(),
            **self._play(self._space.final, step),
            "parameters": self._size.parameters,
            "sequences": len(self._corpus),
            "tokens": taken.tokens,
            "targets": taken.targets,
            "left_out": taken.left_out,
        }
        if self._job.first:
            self._space.conclude(report)
            self._console.print(
                f"trained: {self._space.final}", highlight=False, markup=False, soft_wrap=True
            )
        self._job.wait()
        return report

    def _last_figures(self) -> dict[str, float]:
        """The newest losses of the log, which a resumed training has, too."""
        found: dict[str, float] = {}
        for row in read_log(self._space.log):
            found |= {name: row[name] for name in ("loss", "held_out_loss") if name in row}
        return found


def _due(step: int, every: int, ended: bool) -> bool:
    return ended if not every else step % every == 0 or ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_recipe(BcRecipe, train, argv, program="python -m training.bc")


if __name__ == "__main__":
    sys.exit(main())
