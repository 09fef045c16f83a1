"""What a run of GRPO is told: the keys of its recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from training.data.advantages import AdvantageConfig
from training.rollouts.branches import BranchConfig
from training.rollouts.jobs import RolloutConfig
from training.rollouts.progress import ProgressConfig
from training.rollouts.tasks import EnvironmentTasks
from training.rollouts.turn_limits import TurnLimit, max_rounds
from training.runs.tracking import TrackingConfig
from training.trainer.critic import ValueConfig
from training.trainer.learner import OptimizerConfig
from training.trainer.models import ModelConfig
from training.trainer.policy_loss import ClipConfig

__all__ = ["GRPORecipe", "TurnLimit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPORecipe:
    """One run of GRPO."""

    model: ModelConfig
    """The agent to begin with; `path` is a checkpoint folder."""
    environments: tuple[EnvironmentTasks, ...]
    """What is played: `explore` tasks are trained on, `evaluate` ones are held out."""
    items: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Environment -> ids of the tasks to train on, where a program has divided them already; then
    nothing is held out here (`evaluate = false`). Empty = by `explore`."""
    out: Path = Path("runs/grpo")
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-6, schedule="constant", warmup=0.0)
    )
    clip: ClipConfig = field(default_factory=ClipConfig)
    objective: str = ""
    """A loss of one's own in place of `policy_loss`: "package.module:function"."""
    advantages: AdvantageConfig = field(default_factory=AdvantageConfig)
    branches: BranchConfig = field(default_factory=BranchConfig)
    """Credit of turns by what states on the way were worth: episodes are played on from some."""
    value: ValueConfig = field(default_factory=ValueConfig)
    steps: int = 100
    """Rounds of playing and learning."""
    tasks: int = 16
    """Tasks per step, the environments taking turns."""
    group: int = 8
    """Episodes per task."""
    dynamic_sampling: int = 0
    """Groups whose rewards agree teach nothing: so many times at most, further tasks of their
    environments are played in their place before a step is learned from (DAPO); 0 = never. With
    `asynchronous` it is the groups that were to come next, at most so many times `tasks` a step."""
    temperature: float = 1.0
    normalise: bool = True
    """Divide advantages by a deviation: their group's, or as `advantages` says."""
    average: Literal["tokens", "sequences", "constant"] = "tokens"
    """What counts alike: every token of a step, every episode however long (of those with an
    advantage: groups that agree make no step smaller), or every token of every step: then the sum
    is over `tasks` x `group` x `average_tokens` (Dr. GRPO)."""
    average_tokens: int = 0
    """Of an episode, for `average = "constant"`: the same number in every step."""
    minibatches: int = 1
    """Updates per pass over a step's episodes."""
    ppo_epochs: int = 1
    """Passes over a step's episodes."""
    max_off_policy_steps: int = 0
    """Tokens of weights that are more than this many steps old are not learned from. Above 0, the
    next step is played while this one is learned from."""
    asynchronous: bool = False
    """Play all the time, so far ahead as `max_off_policy_steps` allows: a step learns from the
    groups that have ended, and episodes get new weights while they are played."""
    turn_curriculum: tuple[TurnLimit, ...] = ()
    """How many replies episodes may take, growing with the steps; empty = each environment's."""
    replay: tuple[str, ...] = ()
    """Recorded runs of the starting weights to learn from in step 0, in place of playing."""
    held_out_contents: str = ""
    """File of contents that must not be learned from, as `training.contents` writes it. Tasks that
    begin so, or as a `validate` or `evaluate` task of this recipe does, are left out of `explore`
    and named; a `replay` of them is refused."""
    micro_tokens: int = 4096
    """Tokens computed at once; decides memory, never the result."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    save_every: int = 10
    """Steps between saved states; 0 = only the last."""
    keep_states: int = 2
    evaluate: bool = True
    """Play the held-out tasks greedily with the first and the last weights."""
    progress: ProgressConfig = field(default_factory=ProgressConfig)
    """What is evaluated and kept on the way."""
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.steps, self.tasks, self.minibatches, self.ppo_epochs, self.micro_tokens)
        if min(counts) < 1:
            raise ValueError(
                "steps, tasks, minibatches, ppo_epochs and micro_tokens are at least 1"
            )
        least = 1 if self.advantages.baseline == "value" else 2
        if self.group < least or self.temperature <= 0 or self.max_off_policy_steps < 0:
            raise ValueError(
                f"group is at least {least}, temperature above 0, max_off_policy_steps at least 0"
            )
        if self.dynamic_sampling < 0:
            raise ValueError("dynamic_sampling is at least 0")
        if self.dynamic_sampling and self.advantages.baseline in ("batch", "value"):
            raise ValueError(
                "dynamic_sampling replaces groups that agree, which advantages.baseline = "
                f'"{self.advantages.baseline}" learns from: leave one of them out'
            )
        self._check_asynchronous()
        self._check_branches()
        if (self.average == "constant") != (self.average_tokens > 0):
            raise ValueError('average_tokens is above 0 with average = "constant", else 0')
        if self.progress.validate_every and not any(it.validate for it in self.environments):
            raise ValueError("progress.validate_every needs tasks: environments.*.validate")
        if self.progress.choose == "validation" and self.progress.validate_every > self.steps:
            raise ValueError("progress.validate_every is at most steps, to choose by it")
        if self.items and (
            self.evaluate or set(self.items) != {it.name for it in self.environments}
        ):
            raise ValueError("items are of every environment, and go with evaluate = false")
        self.rollout.check_push_to_cluster()
        self._check_model()

    def _check_model(self) -> None:
        if self.rollout.push_adapter and self.model.lora is None:
            raise ValueError("rollout.push_adapter pushes the adapter of model.lora: set it")
        if not self.model.path:
            raise ValueError("model.path is a checkpoint: GRPO improves an agent that can play")

    def _check_asynchronous(self) -> None:
        if self.asynchronous and self.replay:
            raise ValueError("replay is of a step with a barrier: leave out asynchronous")
        if self.asynchronous and self.dynamic_sampling and self.turn_curriculum:
            raise ValueError(
                "turn_curriculum grows by the steps that groups were planned for, which "
                "dynamic_sampling runs ahead of without a barrier: leave one of them out, or "
                "asynchronous"
            )

    def _check_branches(self) -> None:
        if not self.branches.states:
            return
        if self.asynchronous or self.max_off_policy_steps or self.replay:
            raise ValueError(
                "branches.states wants a step's episodes played on by the weights that played "
                "them: leave out asynchronous, max_off_policy_steps and replay"
            )
        if self.advantages.baseline in ("batch", "value") or self.advantages.turn_weight:
            raise ValueError(
                "branches.states says what states are worth, and so do advantages.turn_weight and "
                'advantages.baseline = "value" and "batch": leave one of them out'
            )

    def max_rounds(self, step: int) -> int:
        """Return how many replies episodes of a step may take; 0 = each environment's number."""
        return max_rounds(self.turn_curriculum, step)
