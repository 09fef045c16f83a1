"""The outer loop of trainings on recorded sequences: epochs of steps, evaluations, saved states.

`training.bc` and `training.dpo` say what a step learns and what is measured; everything around it
is the same and stands here: opening or resuming the run, checking memory, going on from the last
saved state, evaluating and saving on the way, the final checkpoint and the report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from agent_runtime.logs import get_logger
from orchestrator.configuration import to_plain
from training.config.start import Start
from training.data.dataset import DataConfig, TokenDataset
from training.runs.run_dir import RunDir
from training.runs.tracking import Tracker, TrackingConfig, read_log
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, OptimizerConfig, latest_state, prune_states
from training.trainer.memory import MemoryPlan, measure_model, plan_memory, require_memory
from training.trainer.models import (
    ModelConfig,
    hf_config,
    load_for_training,
    save_checkpoint,
)
from training.trainer.packing import BatchConfig, Step, plan_epoch
from training.trainer.preparation import prepare_base, prepare_datasets
from training.trainer.throughput import ThroughputMeter

__all__ = [
    "SaveConfig",
    "TrainingLoop",
    "TrainingPlan",
    "TrainingRecipe",
    "TrainingResult",
    "TrainingSession",
    "open_session",
]

log = get_logger(__name__)

_FREE: Final = ("out", "tracking", "device")
"""Parts of a recipe that a resume may change: they do not decide what is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveConfig:
    """What is written on the way."""

    state_every: int = 0
    """Steps between states that a resume goes on from; 0 = at the end of each epoch."""
    keep_states: int = 2
    """How many states are kept."""
    checkpoint_every: int = 0
    """Epochs between Hugging Face folders; 0 = only the final one."""
    half: bool = False
    """Store bfloat16 weights instead of float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """What the recipes of all trainings on recorded sequences have in common."""

    out: Path
    """Folder for all that is written."""
    model: ModelConfig
    data: DataConfig
    epochs: int = 1
    max_steps: int = 0
    """Stop after this many steps; 0 = all epochs. The schedule ends there, too."""
    seed: int = 42
    """Of weights from scratch, of the order of sequences, of dropout."""
    device: str = "auto"
    """auto, cpu or cuda."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    save: SaveConfig = field(default_factory=SaveConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """What a training would do."""

    steps: int
    examples: int
    """Sequences or pairs that are learned from in an epoch."""
    memory: MemoryPlan
    """What one device needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """How a training ended."""

    checkpoint: Path
    """The Hugging Face folder of the trained model."""
    base: str
    """The model that it started from."""
    report: dict[str, Any]
    """Steps, final losses, tokens, what was left out; as `report.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSession:
    """An opened run: where it writes, which processes it has, what it starts from."""

    run_dir: RunDir
    base: str
    """Folder or hub name of the model to start from."""
    dist: DistributedContext
    console: Console

    def print(self, line: str) -> None:
        """Print a line once, whatever the number of processes."""
        if self.dist.is_main:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def prepare_datasets(self, data: DataConfig) -> tuple[TokenDataset, TokenDataset | None]:
        """Return the sequences to train on and those that are held out; see `preparation`."""
        return prepare_datasets(data, self.base, self.run_dir, self.dist, self.console)


@contextmanager
def open_session(
    recipe: TrainingRecipe, algorithm: str, *, start: Start, console: Console | None
) -> Generator[TrainingSession]:
    """Join the processes of the job, open the run's folder and prepare the base model.

    Raises:
        OutputOccupied: The folder is in use and `start` is NEW.
        RecipeChanged: The run was begun with another recipe.
        ModelUnusable: The base model cannot be loaded.
    """
    console = console or Console(stderr=True)
    with distributed_context(recipe.device) as dist:
        if dist.is_main:
            plain = to_plain(recipe)
            RunDir.open(recipe.out, plain, algorithm=algorithm, start=start, free=_FREE)
        dist.barrier()
        run_dir = RunDir(recipe.out)
        with run_dir.logging() if dist.is_main else nullcontext():
            base = prepare_base(
                recipe.model,
                recipe.data.sources,
                run_dir,
                dist,
                runs=recipe.data.runs,
                seed=recipe.seed,
            )
            yield TrainingSession(run_dir=run_dir, base=base, dist=dist, console=console)


class TrainingLoop(ABC):
    """One start of a training, with its data at hand."""

    last_metrics: ClassVar[tuple[str, ...]]
    """Metrics of the log whose newest values go into the report."""

    def __init__(
        self,
        recipe: TrainingRecipe,
        session: TrainingSession,
        lengths: NDArray[np.int32],
        *,
        micro_tokens: int,
    ) -> None:
        """Plan the steps.

        Args:
            recipe: What to train.
            session: The opened run.
            lengths: Tokens of each example, [examples].
            micro_tokens: Tokens of a micro-batch where the recipe names no number.
        """
        self.recipe = recipe
        self.session = session
        self.dist = session.dist
        self.lengths = lengths
        micro_tokens = recipe.batch.micro_tokens or micro_tokens
        self.capacity = max(micro_tokens, int(lengths.max(initial=1)))
        """Tokens of a micro-batch: the longest example fits."""
        self.size = measure_model(hf_config(session.base))
        sizes = [len(self._epoch_steps(epoch)) for epoch in range(recipe.epochs)]
        self._epoch_ends = [int(end) for end in np.cumsum(sizes)]
        self._total = self._epoch_ends[-1]
        if recipe.max_steps:
            self._total = min(self._total, recipe.max_steps)

    # What an algorithm says -----------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> str:
        """Return what is trained, on what, for the line that announces the plan."""

    @abstractmethod
    def learn(self, learner: Learner, step: Step, meter: ThroughputMeter) -> dict[str, Any]:
        """Update the weights once; returns the step's metrics."""

    @abstractmethod
    def evaluate(self, model: torch.nn.Module) -> dict[str, float]:
        """Return metrics of what is held out; empty where nothing is."""

    @abstractmethod
    def report(self) -> dict[str, Any]:
        """Return what the report says about the data."""

    def prepare(self) -> None:
        """Compute what is needed before the first step."""

    def evaluation_due(self, step: int, epoch_ended: bool) -> bool:
        """Tell whether what is held out is evaluated after a step."""
        return epoch_ended

    def evaluate_checkpoint(self, folder: Path, step: int) -> Mapping[str, float]:
        """Return metrics of a written checkpoint; empty where none are asked for."""
        return {}

    # The loop -------------------------------------------------------------------------------------

    def plan(self) -> TrainingPlan:
        """Announce steps and memory, without training.

        Raises:
            NotEnoughMemory: A device has less memory than the training needs.
        """
        memory = plan_memory(
            self.size,
            self.recipe.model,
            micro_tokens=self.capacity,
            world_size=self.dist.world_size,
            sharded=self.dist.has_group,
        )
        self.session.print(f"{self.describe()}, {self._total} steps; {memory.describe()}")
        require_memory(memory, self.dist, micro_tokens=self.capacity)
        return TrainingPlan(steps=self._total, examples=len(self.lengths), memory=memory)

    def run(self) -> dict[str, Any]:
        """Train to the end, from the last saved state on; returns the report."""
        self.plan()
        self.prepare()
        recipe, run_dir, dist = self.recipe, self.session.run_dir, self.dist
        model = load_for_training(self.session.base, recipe.model, dist, seed=recipe.seed)
        learner = Learner(
            model,
            recipe.optimizer,
            dist,
            seed=recipe.seed,
            total=self._total,
            reduce_every_micro_batch=recipe.model.reduce_every_micro_batch,
        )
        state = dist.broadcast(str(latest_state(run_dir.states) or ""))
        if state:
            learner.load_state(Path(state))
            log.info("training resumed", step=learner.step, state=state)
        with self._tracker(learner.step) as tracker:
            meter = ThroughputMeter(self.size, recipe.tracking, dist)
            for epoch, step in self._remaining(learner.step):
                metrics = self.learn(learner, step, meter)
                tracker.record(learner.step, {"epoch": epoch, **metrics})
                self._after_step(learner, tracker, epoch)
        self._save_checkpoint(learner, run_dir.final)
        return self._conclude(learner.step)

    def epoch_steps(
        self, lengths: NDArray[np.int32], config: BatchConfig, *, seed: int = 0, epoch: int = 0
    ) -> tuple[Step, ...]:
        """Cut examples into steps of micro-batches that hold the longest of them."""
        capacity = max(self.capacity, int(lengths.max(initial=1)))
        return plan_epoch(lengths, config, capacity=capacity, seed=seed, epoch=epoch).steps

    def _epoch_steps(self, epoch: int) -> tuple[Step, ...]:
        return self.epoch_steps(self.lengths, self.recipe.batch, seed=self.recipe.seed, epoch=epoch)

    def _tracker(self, step: int) -> Tracker:
        run_dir = self.session.run_dir
        return Tracker(
            self.recipe.tracking,
            log=run_dir.metrics_log,
            tensorboard=run_dir.tensorboard,
            console=self.session.console,
            total=self._total,
            step=step,
            active=self.dist.is_main,
            name=run_dir.folder.name,
            run_id=run_dir.run_id,
        )

    def _remaining(self, done: int) -> Iterator[tuple[int, Step]]:
        """Yield the steps after the first `done` ones, with their epochs."""
        begin = 0
        for epoch, end in enumerate(self._epoch_ends):
            if end > done:
                steps = self._epoch_steps(epoch)
                for step in steps[max(0, done - begin) : max(0, self._total - begin)]:
                    yield epoch, step
            begin = end

    def _after_step(self, learner: Learner, tracker: Tracker, epoch: int) -> None:
        """Evaluate and save where it is time to."""
        step, save = learner.step, self.recipe.save
        last = step == self._total
        epoch_ended = last or step in self._epoch_ends
        if self.evaluation_due(step, epoch_ended) and (metrics := self.evaluate(learner.model)):
            tracker.record(step, metrics)
        every = save.checkpoint_every
        if epoch_ended and every and (epoch + 1) % every == 0 and not last:
            folder = self.session.run_dir.checkpoints / f"epoch-{epoch + 1}"
            self._save_checkpoint(learner, folder)
            tracker.record(step, self.evaluate_checkpoint(folder, step))
            self.dist.wait_for_main()
        due = last or step % save.state_every == 0 if save.state_every else epoch_ended
        if due:
            state = learner.save_state(self.session.run_dir.states)
            log.info("training state saved", step=step, state=str(state))
            if self.dist.is_main:
                prune_states(self.session.run_dir.states, save.keep_states)

    def _save_checkpoint(self, learner: Learner, folder: Path) -> None:
        save_checkpoint(
            learner.model,
            folder,
            tokenizer=self.session.base,
            dist=self.dist,
            half=self.recipe.save.half,
        )
        log.info("checkpoint written", step=learner.step, folder=str(folder))

    def _conclude(self, step: int) -> dict[str, Any]:
        run_dir = self.session.run_dir
        report = {
            "steps": step,
            **_newest(read_log(run_dir.metrics_log), self.last_metrics),
            **self.evaluate_checkpoint(run_dir.final, step),
            **self.report(),
        }
        if self.dist.is_main:
            run_dir.write_report(report)
        self.session.print(f"trained: {run_dir.final}")
        self.dist.wait_for_main()
        return report


def _newest(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the newest values of some metrics, which a resumed training has in its log, too."""
    newest: dict[str, Any] = {}
    for row in rows:
        newest |= {name: row[name] for name in names if name in row}
    return newest
