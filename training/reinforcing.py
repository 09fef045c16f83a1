"""GRPO as a stage of a longer program: an agent that can play, and the tasks that it goes on with.

The program has divided its tasks; GRPO takes those that are learned from and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from orchestrator.training_folder import LOG_FILE
from training.config.start import Start
from training.data.advantages import AdvantageConfig
from training.grpo import GRPORecipe, TurnLimit, train
from training.rollouts.branches import BranchConfig
from training.rollouts.jobs import RolloutConfig
from training.rollouts.tasks import EnvironmentTasks
from training.runs.tracking import TrackingConfig, read_log
from training.trainer.critic import ValueConfig
from training.trainer.learner import OptimizerConfig
from training.trainer.models import ModelConfig
from training.trainer.policy_loss import ClipConfig

__all__ = ["Reinforcing", "reinforce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforcing:
    """How an agent goes on by GRPO: keys of `training.grpo`'s recipe, under the same names."""

    steps: int = 60
    tasks: int = 16
    """Tasks per step, the environments taking turns."""
    group: int = 8
    """Episodes per task."""
    temperature: float = 1.0
    normalise: bool = True
    average: Literal["tokens", "sequences", "constant"] = "tokens"
    average_tokens: int = 0
    minibatches: int = 1
    ppo_epochs: int = 1
    max_off_policy_steps: int = 0
    asynchronous: bool = False
    """Play all the time; see `GRPORecipe`."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-6, schedule="constant", warmup=0.0)
    )
    clip: ClipConfig = field(default_factory=ClipConfig)
    objective: str = ""
    advantages: AdvantageConfig = field(default_factory=AdvantageConfig)
    branches: BranchConfig = field(default_factory=BranchConfig)
    value: ValueConfig = field(default_factory=ValueConfig)
    dynamic_sampling: int = 0
    turn_curriculum: tuple[TurnLimit, ...] = ()
    micro_tokens: int = 4096
    save_every: int = 10

    def __post_init__(self) -> None:
        # What cannot be is known before the agent to begin with is trained.
        GRPORecipe(
            **_own_fields(self), model=ModelConfig(path="agent"), environments=(), evaluate=False
        )

    @property
    def episodes(self) -> int:
        """Of a run."""
        return self.steps * self.tasks * self.group


def _own_fields(config: Reinforcing) -> dict[str, Any]:
    """Return the fields, all of which `GRPORecipe` has, too."""
    return {it.name: getattr(config, it.name) for it in fields(config)}


def reinforce(
    config: Reinforcing,
    environments: Sequence[EnvironmentTasks],
    items: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    model: ModelConfig,
    rollout: RolloutConfig,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    tracking: TrackingConfig | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> dict[str, Any]:
    """Let an agent go on by GRPO, from where an earlier process was cut off.

    Args:
        config: How it learns.
        environments: How they are played.
        items: Environment -> the tasks that it learns from.
        folder: The run's folder; the checkpoint is in `folder/final`.
        model: The agent to begin with; `path` is its checkpoint.
        rollout: How episodes are played.
        device: Where it learns.
        tracking: What is told on the way.
        seed: Of the order of tasks, and of sampling.
        console: Gets progress; None = stderr.

    Returns:
        `episodes`, and `rewards`: the mean score of each step's episodes, from 0 to 1.

    Raises:
        TrainingError: As `training.grpo.train`.
        OrchestratorError: Episodes could not be played.
    """
    recipe = GRPORecipe(
        **_own_fields(config),
        model=model,
        environments=tuple(environments),
        items={name: tuple(ids) for name, ids in items.items()},
        out=folder,
        rollout=rollout,
        device=device,
        tracking=tracking or TrackingConfig(),
        evaluate=False,
        seed=seed,
    )
    train(recipe, start=Start.RESUME, console=console)
    log = read_log(folder / LOG_FILE)
    return {
        "episodes": sum(int(step["episodes"]) for step in log),
        "rewards": [step.get("reward") for step in log],
    }
