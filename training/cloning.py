"""Behavioural cloning as a step of a longer program: sources to a checkpoint, any number of times.

All trainings of a program start from one base model with one set of hyper-parameters. Each runs in
this process, or by `torchrun` in several, and is resumed where it was cut off.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from orchestrator.atomic_file import write_atomically
from orchestrator.configuration import dump_toml
from training import bc, dpo
from training.config.start import Start
from training.data.dataset import DataConfig
from training.data.pairs import PairConfig
from training.data.sources import SourceConfig
from training.errors import TrainingError
from training.runs.run_dir import RunDir
from training.runs.tracking import TrackingConfig
from training.trainer.learner import OptimizerConfig
from training.trainer.loop import SaveConfig
from training.trainer.memory import measure_model, plan_memory
from training.trainer.models import ModelConfig, planned_hf_config
from training.trainer.packing import BatchConfig
from training.trainer.preparation import create_from_scratch

__all__ = ["Cloning", "Preferring", "clone", "describe_memory", "make_base", "prefer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloning:
    """How agents are cloned; see `training.bc` for the meaning of each part."""

    model: ModelConfig
    """The base model, from which every training starts."""
    context: int = 4096
    """Longest conversation in tokens; longer ones are left out, counted and named."""
    epochs: int = 1
    max_steps: int = 0
    """Most updates of a training; 0 = all epochs."""
    shares: dict[str, float] = field(default_factory=dict[str, float])
    """Environment -> its share of every training's updates; empty = as the data has it."""
    batch: BatchConfig = field(default_factory=BatchConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    save: SaveConfig = field(default_factory=SaveConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 0
    """Processes that learn, one per GPU, started by torchrun; 0 = this one."""

    def __post_init__(self) -> None:
        if self.processes < 0 or self.epochs < 1 or self.max_steps < 0:
            raise ValueError("processes and max_steps are at least 0, epochs at least 1")
        if any(not 0 < share < math.inf for share in self.shares.values()):
            raise ValueError("shares are above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferring:
    """How an agent learns preferences; see `training.dpo`. Defaults are the original's."""

    pairs: PairConfig = field(default_factory=PairConfig)
    beta: float = 0.5
    epochs: int = 3
    batch: BatchConfig = field(default_factory=lambda: BatchConfig(sequences=16))
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=5e-7, schedule="constant")
    )

    def __post_init__(self) -> None:
        if self.beta <= 0 or self.epochs < 1:
            raise ValueError("beta is above 0, epochs are at least 1")


def make_base(config: Cloning, sources: Sequence[SourceConfig], folder: Path, *, seed: int) -> str:
    """Return the base model's folder or name; one from scratch is written to `folder`."""
    if config.model.init is None:
        return config.model.path
    create_from_scratch(config.model.init, sources, folder, seed=seed)
    return str(folder)


def clone(
    config: Cloning,
    sources: Sequence[SourceConfig],
    folder: Path,
    *,
    model: str = "",
    seed: int = 0,
    held_out: str = "",
    console: Console | None = None,
) -> dict[str, Any]:
    """Train on sources, going on where an earlier process was cut off.

    Args:
        config: How agents are cloned.
        sources: What is learned from.
        folder: The training's folder; the checkpoint is in `folder/final`.
        model: Folder or name of the model to start from; empty = that of the config.
        seed: Of the order of sequences, and of dropout.
        held_out: File of contents that must not be learned from; empty = none.
        console: Gets progress; None = stderr.

    Returns:
        The training's report.

    Raises:
        TrainingError: As `training.bc.train`, or a process of torchrun failed.
    """
    recipe = bc.BcRecipe(
        out=folder,
        model=_from(config.model, model) if model else config.model,
        data=DataConfig(sources=tuple(sources), context=config.context, held_out_contents=held_out),
        epochs=config.epochs,
        max_steps=config.max_steps,
        shares=config.shares,
        seed=seed,
        device=config.device,
        batch=config.batch,
        optimizer=config.optimizer,
        save=config.save,
        tracking=config.tracking,
    )
    if config.processes:
        return _clone_by_torchrun(recipe, config.processes)
    return bc.train(recipe, start=Start.RESUME, console=console).report


def prefer(
    config: Cloning,
    preferring: Preferring,
    sources: Sequence[SourceConfig],
    folder: Path,
    *,
    model: str,
    reward_scale: Mapping[str, float],
    seed: int = 0,
    held_out: str = "",
    console: Console | None = None,
) -> dict[str, Any]:
    """Teach an agent preferences between episodes, going on where a process was cut off.

    Args:
        config: Context, device and tracking are those of cloning.
        preferring: How preferences are learned.
        sources: Episodes of which several are of one item.
        folder: The training's folder; the checkpoint is in `folder/final`.
        model: Folder of the agent that learns.
        reward_scale: Environment -> the reward that counts as 1.
        seed: Of the order of pairs, and of dropout.
        held_out: File of contents that must not be learned from; empty = none.
        console: Gets progress; None = stderr.

    Returns:
        The training's report.

    Raises:
        TrainingError: As `training.dpo.train`; this process learns alone.
    """
    recipe = dpo.DpoRecipe(
        out=folder,
        model=_from(config.model, model),
        data=DataConfig(sources=tuple(sources), context=config.context, held_out_contents=held_out),
        pairs=replace(preferring.pairs, reward_scale=dict(reward_scale)),
        beta=preferring.beta,
        epochs=preferring.epochs,
        seed=seed,
        device=config.device,
        batch=preferring.batch,
        optimizer=preferring.optimizer,
        save=config.save,
        tracking=config.tracking,
    )
    return dpo.train(recipe, start=Start.RESUME, console=console).report


def describe_memory(config: Cloning) -> str:
    """Say what a training needs on each device, computed from the model's shapes alone."""
    import torch

    size = measure_model(planned_hf_config(config.model))
    count = max(1, config.processes)
    on_gpu = config.device == "cuda" or (config.device == "auto" and torch.cuda.is_available())
    plan = plan_memory(
        size,
        config.model,
        micro_tokens=config.batch.micro_tokens or config.context,
        world_size=count,
        sharded=count > 1 or on_gpu,  # a GPU alone is a group of one
    )
    return f"{size.parameters / 1e6:,.0f} M parameters, {count} processes; {plan.describe()}"


def _from(config: ModelConfig, path: str) -> ModelConfig:
    return replace(config, path=path, init=None)


def _clone_by_torchrun(recipe: bc.BcRecipe, count: int) -> dict[str, Any]:
    """Train by torchrun: GPUs are this training's alone, and free when it ends."""
    path = recipe.out.with_name(f"{recipe.out.name}.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dump_toml(recipe))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(count), "-m", "training.bc", str(path), "--resume"]
    status = subprocess.run(command, check=False).returncode
    report = RunDir(recipe.out).report()
    if status or report is None:
        raise TrainingError(
            f"`{' '.join(command)}` ended with {status}: see above", field="cloning"
        )
    return report
