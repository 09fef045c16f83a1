"""Group-relative policy optimisation over many turns.

    python -m training.grpo RECIPE.toml [--resume | --overwrite] [--plan] [--steps 10 ...]
    torchrun --nproc-per-node 8 -m training.grpo RECIPE.toml

Reads top to bottom: a step plays a group of episodes for each of a few tasks with the current
weights, compares each episode with its own group, and moves the probability of every token that was
sampled, by the ratio to the probability with which it was *recorded*, clipped. Nothing is
re-tokenized, and no logprob of the past is recomputed: what was sampled is what is learned from.

Sources: GRPO and its estimate of the divergence https://arxiv.org/abs/2402.03300; averaging over
tokens and asymmetric clipping https://arxiv.org/abs/2503.14476; the number of turns that
grows with the steps (ScalingInter-RL) https://arxiv.org/abs/2509.08755.

All processes of a job learn, each its share of a step's micro-batches; the main one plays: beside
the learner (embedded) or on servers (SGLang). The others read the recorded episodes from the run's
folder, so every process sees the same step. Knows no environment: `training.rollouts` plays.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from rich.console import Console

try:
    import numpy as np
    import torch
    from numpy.typing import NDArray
except ModuleNotFoundError as error:
    from training.needed import without_torch

    raise without_torch(error) from None

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.scores import perfect_score, recorded_score
from agent_runtime.weights import Weights
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.command_line import run_loop
from orchestrator.configuration import to_plain
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader
from orchestrator.training_folder import LOG_FILE
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.sequences import TokenSequence
from training.data.trajectories import WeightVersions, group_advantages, read_trajectories
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.on_policy import Rollouts, Task, read_rollouts
from training.rollouts.results import Row, as_table, read_metric
from training.rollouts.tasks import EnvironmentTasks, list_ids, split_tasks
from training.runs.run_dir import RunDir
from training.runs.tracking import Tracker, TrackingConfig
from training.trainer.batches import Batch, collate, target_logprobs
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, OptimizerConfig, latest_state, prune_states
from training.trainer.memory import MemoryPlan, measure_model, plan_memory, require_memory
from training.trainer.models import (
    ModelConfig,
    gather_weights,
    hf_config,
    load_for_training,
    precision_context,
    save_checkpoint,
)
from training.trainer.packing import Step, local_micro_batches

__all__ = [
    "ClipConfig",
    "GRPORecipe",
    "Loss",
    "TurnLimit",
    "main",
    "plan",
    "policy_loss",
    "prune_weights",
    "train",
]

_FIRST_STAGE: Final = "judge-first"
_FINAL_STAGE: Final = "judge-final"
"""Names of the evaluations in recorded runs, which resumed ones look for."""
_FREE: Final = ("rollout.client", "rollout.fleet.wait_for_servers")
"""What a resume may change: how servers are reached decides no result."""


# What a recipe says -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimit:
    """From a step on, episodes may take this many replies."""

    from_step: int
    rounds: int

    def __post_init__(self) -> None:
        if self.from_step < 0 or self.rounds < 1:
            raise ValueError("from_step is at least 0, rounds at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipConfig:
    """The loss of a token."""

    eps_low: float = 0.2
    """Where the ratio falls below 1 - eps_low, making the token less likely gains nothing."""
    eps_high: float = 0.2
    """Where the ratio rises above 1 + eps_high, making the token likelier gains nothing."""
    kl_coef: float = 0.0
    """Weight of the divergence from the reference, which are the starting weights; 0 = no
    reference model is loaded."""

    def __post_init__(self) -> None:
        if not 0 < self.eps_low < 1 or self.eps_high <= 0 or self.kl_coef < 0:
            raise ValueError("eps_low is between 0 and 1, eps_high above 0, kl_coef at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPORecipe:
    """One run of GRPO."""

    model: ModelConfig
    """The agent to begin with; `path` is a checkpoint folder."""
    environments: tuple[EnvironmentTasks, ...]
    """What is played: `explore` tasks are trained on, `evaluate` ones are held out."""
    out: Path = Path("runs/grpo")
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-6, schedule="constant", warmup=0.0)
    )
    clip: ClipConfig = field(default_factory=ClipConfig)
    steps: int = 100
    """Rounds of playing and learning."""
    tasks: int = 16
    """Tasks per step, the environments taking turns."""
    group: int = 8
    """Episodes per task."""
    temperature: float = 1.0
    normalise: bool = True
    """Divide advantages by their group's deviation."""
    average: Literal["tokens", "sequences"] = "tokens"
    """What counts alike: every token of a step, or every episode however long."""
    minibatches: int = 1
    """Updates per pass over a step's episodes."""
    ppo_epochs: int = 1
    """Passes over a step's episodes."""
    max_off_policy_steps: int = 0
    """Tokens of weights that are more than this many steps old are not learned from. Above 0, the
    next step is played while this one is learned from."""
    turn_curriculum: tuple[TurnLimit, ...] = ()
    """How many replies episodes may take, growing with the steps; empty = each environment's."""
    replay: tuple[str, ...] = ()
    """Recorded runs of the starting weights to learn from in step 0, in place of playing."""
    micro_tokens: int = 4096
    """Tokens computed at once; decides memory, never the result."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    save_every: int = 10
    """Steps between saved states; 0 = only the last."""
    keep_states: int = 2
    evaluate: bool = True
    """Play the held-out tasks greedily with the first and the last weights."""
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.steps, self.tasks, self.minibatches, self.ppo_epochs, self.micro_tokens)
        if min(counts) < 1:
            raise ValueError(
                "steps, tasks, minibatches, ppo_epochs and micro_tokens are at least 1"
            )
        if self.group < 2 or self.temperature <= 0 or self.max_off_policy_steps < 0:
            raise ValueError(
                "group is at least 2, temperature above 0, max_off_policy_steps at least 0"
            )
        if not self.model.path:
            raise ValueError("model.path is a checkpoint: GRPO improves an agent that can play")

    def max_rounds(self, step: int) -> int:
        """Return how many replies episodes of a step may take; 0 = each environment's number."""
        reached = [limit for limit in self.turn_curriculum if limit.from_step <= step]
        return max(reached, key=lambda limit: limit.from_step).rounds if reached else 0


# The objective ------------------------------------------------------------------------------------


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
    """Sum of |ratio - 1|: how far the weights are from those that sampled."""


def policy_loss(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    token_weights: torch.Tensor,
    clip: ClipConfig,
    ref_logprobs: torch.Tensor | None = None,
) -> Loss:
    """Return the clipped policy-gradient loss of sampled tokens.

    A token's loss is -min(r A, clip(r, 1 - eps_low, 1 + eps_high) A) with
    r = exp(logprob - old logprob), plus kl_coef (exp(d) - d - 1) with d = ref logprob - logprob, an
    unbiased estimate of the divergence that is never negative.

    Args:
        logprobs: [tokens], in nats: of the weights that are trained.
        old_logprobs: [tokens]: as recorded when the tokens were sampled.
        advantages: [tokens]: of each token's episode.
        token_weights: [tokens]: what each token counts in the sum.
        clip: Bounds of the ratio and weight of the divergence.
        ref_logprobs: [tokens]: of the reference model; None = without it.
    """
    ratio = torch.exp(logprobs - old_logprobs)
    unclipped = ratio * advantages
    clipped = ratio.clamp(1 - clip.eps_low, 1 + clip.eps_high) * advantages
    token_loss = -torch.minimum(unclipped, clipped)
    kl = torch.zeros(())
    if ref_logprobs is not None and clip.kl_coef:
        ref_gap = ref_logprobs - logprobs
        token_kl = torch.exp(ref_gap) - ref_gap - 1
        token_loss = token_loss + clip.kl_coef * token_kl
        kl = token_kl.detach().sum()
    with torch.no_grad():
        clipped_tokens = float((clipped < unclipped).sum())
        ratio_dev = float((ratio - 1).abs().sum())
    return Loss((token_weights * token_loss).sum(), clipped_tokens, float(kl), ratio_dev)


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence of a step, with its advantage."""

    sequence: TokenSequence
    advantage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStep:
    """A step's episodes as examples."""

    examples: tuple[Example, ...]
    """Those of an advantage other than 0: the others have no gradient."""
    rewards: tuple[float, ...]
    groups: int
    informative_groups: int
    """Groups whose rewards differ."""
    off_policy_tokens: int
    """Sampled tokens that were left out for their age."""
    entropy: float | None
    """Of the policy that sampled, in nats per token: the mean of -log p of what it drew, which is
    an unbiased estimate. None = no token was fresh enough."""


def score_groups(
    episodes: Sequence[episode_pb2.Episode],
    recipe: GRPORecipe,
    step: int,
    perfect_scores: Mapping[str, float],
    versions: WeightVersions,
) -> ScoredStep:
    """Compare each episode with those of the same task.

    Args:
        episodes: All of a step.
        recipe: The run's.
        step: Its number; tokens of weights that are too old for it are left out.
        perfect_scores: By environment; rewards are divided by them.
        versions: How the weights are named that played them.

    Raises:
        LogprobsMissing: An episode was recorded without logprobs.
    """
    rewards = [
        _reward(episode) / perfect_scores.get(episode.environment, 1.0) for episode in episodes
    ]
    tasks = [(episode.environment, episode.item_id) for episode in episodes]
    advantages = group_advantages(rewards, tasks, normalise=recipe.normalise)
    max_age = recipe.max_off_policy_steps
    examples: list[Example] = []
    off_policy_tokens = tokens = 0
    surprise = 0.0
    for episode, advantage in zip(episodes, advantages, strict=True):
        trajectories = read_trajectories(
            episode, step=step, max_off_policy_steps=max_age, versions=versions
        )
        off_policy_tokens += sum(trajectory.stale for trajectory in trajectories)
        for trajectory in trajectories:
            assert trajectory.sequence.logprobs is not None, "trajectories have logprobs"
            tokens += trajectory.sequence.targets
            # 0 where a token is no target
            surprise -= float(trajectory.sequence.logprobs.sum(dtype=np.float64))
        if advantage:
            examples += [Example(trajectory.sequence, advantage) for trajectory in trajectories]
    informative = {task for task, advantage in zip(tasks, advantages, strict=True) if advantage}
    return ScoredStep(
        examples=tuple(examples),
        rewards=tuple(rewards),
        groups=len(set(tasks)),
        informative_groups=len(informative),
        off_policy_tokens=off_policy_tokens,
        entropy=surprise / tokens if tokens else None,
    )


def _reward(episode: episode_pb2.Episode) -> float:
    score = recorded_score(episode)
    return 0.0 if score is None else score


_SUMMED: Final = ("tokens", "clip_frac", "kl", "ratio_dev")
"""Metrics that are sums over the tokens of all processes; all but the first become means."""


def learn(
    learner: Learner,
    examples: Sequence[Example],
    recipe: GRPORecipe,
    dist: DistributedContext,
    reference: torch.nn.Module | None,
) -> dict[str, float]:
    """Update the weights by a step's examples.

    Every process comes with all examples and computes its share of them.

    Returns:
        Means per token, the mean loss of the updates, and the gradient's norm and the learning rate
        of the last one.
    """
    metrics: dict[str, float] = dict.fromkeys((*_SUMMED, "loss", "grad_norm"), 0.0)
    updates = 0
    for epoch in range(recipe.ppo_epochs):
        order = list(examples)
        random.Random(seeds.derive("grpo-order", recipe.seed, learner.step, epoch)).shuffle(order)
        size = -(-len(order) // recipe.minibatches)
        for start in range(0, len(order), size):
            _update(learner, order[start : start + size], recipe, dist, reference, metrics)
            updates += 1
    *sums, loss = dist.all_reduce_sum([metrics[name] for name in (*_SUMMED, "loss")])
    tokens = max(sums[0], 1.0)
    means = {name: total / tokens for name, total in zip(_SUMMED[1:], sums[1:], strict=True)}
    return metrics | {"tokens": sums[0], "loss": loss / max(updates, 1)} | means


def _update(
    learner: Learner,
    minibatch: Sequence[Example],
    recipe: GRPORecipe,
    dist: DistributedContext,
    reference: torch.nn.Module | None,
    metrics: dict[str, float],
) -> None:
    """Update the weights once; adds this process's sums to `metrics`."""
    learner.begin_step()
    targets = sum(example.sequence.targets for example in minibatch)
    lengths = np.array([len(example.sequence) for example in minibatch], np.int32)
    step = _micro_batches(lengths, recipe.micro_tokens)
    for indices in local_micro_batches(step, dist.rank, dist.world_size, lengths):
        examples = [minibatch[index] for index in indices]
        batch = collate([example.sequence for example in examples], dist.device)
        logprobs, ref_logprobs = _logprobs(learner.model, reference, batch, recipe, dist)
        if not examples:
            # This process has no micro-batch left, but the others wait for it in the collective
            # operations of the backward pass.
            learner.backward(0.0 * logprobs.sum())
            continue
        assert batch.old_logprobs is not None, "trajectories have logprobs"
        advantages = _by_target([example.advantage for example in examples], batch)
        counts = _by_target([example.sequence.targets for example in examples], batch)
        token_weights = (
            torch.full_like(logprobs, 1 / targets)
            if recipe.average == "tokens"
            else 1 / (counts * len(minibatch))
        )
        loss = policy_loss(
            logprobs, batch.old_logprobs, advantages, token_weights, recipe.clip, ref_logprobs
        )
        learner.backward(loss.total)
        metrics["loss"] += float(loss.total.detach())
        metrics["tokens"] += len(logprobs)
        metrics["clip_frac"] += loss.clipped
        metrics["kl"] += loss.kl
        metrics["ratio_dev"] += loss.ratio_dev
    metrics["grad_norm"], metrics["lr"] = learner.update()


def _logprobs(
    model: torch.nn.Module,
    reference: torch.nn.Module | None,
    batch: Batch,
    recipe: GRPORecipe,
    dist: DistributedContext,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the targets' logprobs under the model and, without gradient, the reference."""
    ref_logprobs = None
    with precision_context(recipe.model, dist):
        logprobs = target_logprobs(model, batch, temperature=recipe.temperature)
        if reference is not None:
            with torch.no_grad():
                ref_logprobs = target_logprobs(reference, batch, temperature=recipe.temperature)
    return logprobs, ref_logprobs


def _by_target(values: Sequence[float], batch: Batch) -> torch.Tensor:
    """Return for each target of a batch, [targets], the value of its sequence."""
    return torch.tensor(values, device=batch.targets.device)[batch.sequence_index]


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


# The loop -----------------------------------------------------------------------------------------


def train(recipe: GRPORecipe, *, start: Start = Start.NEW, console: Console | None = None) -> Path:
    """Run a recipe to its end, or go on where it stopped.

    Args:
        recipe: What to train.
        start: What to do with a run that is in the folder `recipe.out`.
        console: Gets progress; None = stderr.

    Returns:
        The folder of the last weights.

    Raises:
        TrainingError: The recipe asks for what cannot be, or the training diverged.
        OrchestratorError: Episodes could not be played.
        AgentRuntimeError: The policy could not be started.
    """
    console = console or Console(stderr=True)
    final = recipe.out / "final"
    with distributed_context(recipe.device) as dist:
        _require_memory(recipe, dist, console)
        program = _Program(recipe, dist, console)
        program.begin(start)
        with program.logging():
            program.run(final)
    if dist.is_main:
        console.print(f"trained: {final}", highlight=False, markup=False)
    return final


def plan(
    recipe: GRPORecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> MemoryPlan:
    """Compute the memory of a run and announce it; nothing is written, `start` is ignored.

    Raises:
        NotEnoughMemory: A device has less memory than the training needs.
    """
    with distributed_context(recipe.device) as dist:
        return _require_memory(recipe, dist, console or Console(stderr=True))


class _Program:
    """The stages of a run: each is done once, by the first process unless all learn."""

    def __init__(self, recipe: GRPORecipe, dist: DistributedContext, console: Console) -> None:
        self._recipe = recipe
        self._dist = dist
        self._console = console
        self._run_dir: RunDir | None = None

    def begin(self, start: Start) -> None:
        """Take the folder; raises OutputOccupied, RecipeChanged, CheckpointDamaged."""
        if self._dist.is_main:
            recipe = self._recipe
            self._run_dir = RunDir.open(
                recipe.out, to_plain(recipe), algorithm="grpo", start=start, free=_FREE
            )

    def logging(self) -> AbstractContextManager[None]:
        """Write the run's log file meanwhile, in the first process."""
        return nullcontext() if self._run_dir is None else self._run_dir.logging()

    def run(self, final: Path) -> None:
        """Do what is left of the run."""
        recipe, console = self._recipe, self._console
        tasks = self._on_main("tasks", lambda: run_loop(_choose_tasks(recipe)))
        if recipe.evaluate:
            path = Path(recipe.model.source)
            self._on_main(_FIRST_STAGE, lambda: _evaluate(recipe, tasks, path, "first", console))
        self._on_all(
            "learn",
            lambda: run_loop(
                _TrainingSteps(recipe, tasks, self._dist, console, self._run_id()).run(final)
            ),
        )
        if recipe.evaluate:
            self._on_main(_FINAL_STAGE, lambda: _evaluate(recipe, tasks, final, "final", console))

    def _run_id(self) -> str:
        """Return the id of the training on every process."""
        return self._dist.broadcast(self._run_dir.run_id if self._run_dir else "")

    def _on_main(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a stage on the main process; returns its result on every process."""
        result = self._run_dir.stage(name, work) if self._run_dir else None
        return cast("dict[str, Any]", self._dist.broadcast(result))

    def _on_all(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        done = self._dist.broadcast(bool(self._run_dir and name in self._run_dir.finished))
        if self._run_dir is not None:
            self._run_dir.stage(name, work)
        elif not done:
            work()


def _require_memory(recipe: GRPORecipe, dist: DistributedContext, console: Console) -> MemoryPlan:
    size = measure_model(hf_config(recipe.model.source))
    memory = plan_memory(
        size,
        recipe.model,
        micro_tokens=recipe.micro_tokens,
        world_size=dist.world_size,
        sharded=dist.has_group,
    )
    if dist.is_main:
        console.print(memory.describe(), highlight=False, markup=False)
    require_memory(memory, dist, micro_tokens=recipe.micro_tokens)
    return memory


class _TrainingSteps:
    """The steps of a run, from its last saved state on."""

    def __init__(
        self,
        recipe: GRPORecipe,
        tasks: Mapping[str, Any],
        dist: DistributedContext,
        console: Console,
        run_id: str,
    ) -> None:
        self._recipe = recipe
        self._dist = dist
        self._console = console
        self._run_id = run_id
        session = dist.broadcast(secrets.token_hex(4))
        self._versions = WeightVersions(run_id, session)
        self._tasks: dict[str, list[str]] = {
            name: split["explore"] for name, split in tasks.items()
        }
        self._perfect_scores: dict[str, float] = {
            name: split["perfect"] for name, split in tasks.items()
        }
        self._states = recipe.out / "states"
        self._rollouts_folder = recipe.out / "rollouts"
        self._updates = recipe.ppo_epochs * recipe.minibatches
        self._step = 0

    async def run(self, final: Path) -> dict[str, Any]:
        """Play and learn; the last weights go to `final`."""
        recipe = self._recipe
        learner, reference = self._load()
        async with AsyncExitStack() as stack:
            rollouts: Rollouts | None = None
            if self._dist.is_main:
                rollouts = await stack.enter_async_context(self._rollouts())
                await rollouts.start_policy(Path(recipe.model.source), self._versions.name(0))
            if self._step:
                await self._sync_weights(rollouts, learner)
            with self._tracker() as tracker:
                await self._steps(rollouts, learner, reference, tracker)
        save_checkpoint(learner.model, final, tokenizer=recipe.model.source, dist=self._dist)
        return {"steps": recipe.steps, "updates": learner.step}

    def _rollouts(self) -> Rollouts:
        recipe = self._recipe
        return Rollouts(
            recipe.rollout,
            recipe.environments,
            self._rollouts_folder,
            temperature=recipe.temperature,
            seed=recipe.seed,
        )

    def _load(self) -> tuple[Learner, torch.nn.Module | None]:
        recipe = self._recipe
        model = load_for_training(recipe.model.source, recipe.model, self._dist, seed=recipe.seed)
        model.to(self._dist.device)
        reference = None
        if recipe.clip.kl_coef:
            reference = load_for_training(
                recipe.model.source, recipe.model, self._dist, frozen=True
            ).to(self._dist.device)
        total = recipe.steps * self._updates
        learner = Learner(model, recipe.optimizer, self._dist, seed=recipe.seed, total=total)
        self._states.mkdir(parents=True, exist_ok=True)
        state = self._dist.broadcast(str(latest_state(self._states) or ""))
        if state:
            self._step = int(learner.load_state(Path(state))["next_step"])
        return learner, reference

    def _tracker(self) -> Tracker:
        out = self._recipe.out
        return Tracker(
            self._recipe.tracking,
            log=out / LOG_FILE,
            tensorboard=out / "tensorboard",
            console=self._console,
            total=self._recipe.steps,
            step=self._step,
            active=self._dist.is_main,
            name=out.name,
            run_id=self._run_id,
        )

    async def _steps(
        self,
        rollouts: Rollouts | None,
        learner: Learner,
        reference: torch.nn.Module | None,
        tracker: Tracker,
    ) -> None:
        """`rollouts` is of the first process, which plays; the others read what was played."""
        recipe = self._recipe
        ahead: asyncio.Task[list[episode_pb2.Episode]] | None = None
        while self._step < recipe.steps:
            step = self._step
            versions = self._versions
            if step == 0 and recipe.replay:
                episodes, others = _read_replay(recipe)
                versions = replace(versions, others=others)
            elif rollouts is not None:
                episodes = await (ahead or self._play(rollouts, step))
                await asyncio.to_thread(self._dist.barrier)
            else:
                self._dist.barrier()
                episodes = read_rollouts(
                    self._rollouts_folder, step, self._step_tasks(step), samples=recipe.group
                )
            ahead = None
            if rollouts is not None and recipe.max_off_policy_steps and step + 1 < recipe.steps:
                ahead = asyncio.create_task(self._play(rollouts, step + 1))
            scored = score_groups(episodes, recipe, step, self._perfect_scores, versions)
            metrics: dict[str, float] = {}
            if scored.examples:
                work = (learner, scored.examples, recipe, self._dist, reference)
                # In a thread, so that the next step may be played meanwhile.
                metrics = (
                    learn(*work) if rollouts is None else await asyncio.to_thread(learn, *work)
                )
            self._step = step + 1
            await self._sync_weights(rollouts, learner)
            tracker.record(self._step, self._metrics(scored, metrics))
            self._save(learner)

    def _step_tasks(self, step: int) -> list[Task]:
        return step_tasks(self._tasks, step, self._recipe.tasks, self._recipe.seed)

    async def _play(self, rollouts: Rollouts, step: int) -> list[episode_pb2.Episode]:
        recipe = self._recipe
        return await rollouts.play(
            step, self._step_tasks(step), samples=recipe.group, max_rounds=recipe.max_rounds(step)
        )

    async def _sync_weights(self, rollouts: Rollouts | None, learner: Learner) -> None:
        """Give the policy the new weights; every process has to call this."""
        version, weights_folder = self._versions.name(self._step), self._recipe.out / "weights"
        if self._recipe.rollout.engine == "sglang":
            folder = weights_folder / version
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(
                learner.model, folder, tokenizer=self._recipe.model.source, dist=self._dist
            )
            weights: Weights = folder  # a server reads them from a checkpoint
        else:
            weights = gather_weights(learner.model, self._dist)
        if rollouts is not None:
            await rollouts.update_weights(weights, version)
            prune_weights(weights_folder, keep=version)

    def _save(self, learner: Learner) -> None:
        every, step = self._recipe.save_every, self._step
        if step == self._recipe.steps or (every and step % every == 0):
            learner.save_state(self._states, {"next_step": step})
            if self._dist.is_main:
                prune_states(self._states, self._recipe.keep_states)

    def _metrics(self, scored: ScoredStep, learned: Mapping[str, float]) -> dict[str, float | None]:
        count = len(scored.rewards)
        return {
            "reward": sum(scored.rewards) / count if count else None,
            "episodes": count,
            "groups": scored.groups,
            "informative_groups": scored.informative_groups,
            "off_policy_tokens": scored.off_policy_tokens,
            "entropy": scored.entropy,
            "rounds": self._recipe.max_rounds(self._step - 1),
            **learned,
        }


def prune_weights(folder: Path, *, keep: str) -> None:
    """Remove the weights that no engine serves any more: a step of 7B parameters has 27 GB."""
    if folder.is_dir():
        for old in folder.iterdir():
            if old.name != keep and _is_weights(old):
                shutil.rmtree(old)


def _is_weights(folder: Path) -> bool:
    return folder.is_dir() and "step-" in folder.name


def step_tasks(tasks: Mapping[str, Sequence[str]], step: int, count: int, seed: int) -> list[Task]:
    """Return the tasks of a step: environments take turns, each going through its tasks in rounds.

    A pure function of its arguments, so that a resumed run plays what it would have played.
    """
    names = list(tasks)
    chosen_tasks: list[Task] = []
    for number in range(step * count, (step + 1) * count):
        name = names[number % len(names)]
        turn, index = divmod(number // len(names), len(tasks[name]))
        order = sorted(tasks[name])
        random.Random(seeds.derive("grpo-tasks", seed, name, turn)).shuffle(order)
        chosen_tasks.append((name, order[index]))
    return list(dict.fromkeys(chosen_tasks))


def _read_replay(
    recipe: GRPORecipe,
) -> tuple[list[episode_pb2.Episode], dict[str, int]]:
    """Return recorded episodes and the version of the starting weights, which played them."""
    episodes: list[episode_pb2.Episode] = []
    for name in recipe.replay:
        with RunReader.open(find_run(name)) as reader:
            episodes += reader.episodes(lambda episode: not episode.failed)
    episodes.sort(key=lambda e: (e.environment, e.item_id, e.sample, e.episode_id))
    return episodes, {weights_digest(Path(recipe.model.source)): 0}


async def _choose_tasks(recipe: GRPORecipe) -> dict[str, Any]:
    """Tasks to train on and to be scored on, and the score of a perfect episode."""
    async with Rollouts(
        recipe.rollout, recipe.environments, recipe.out / "rollouts", temperature=1.0, seed=0
    ) as rollouts:
        tasks: dict[str, Any] = {}
        for environment in recipe.environments:
            ids = await list_ids(rollouts.fleet, environment)
            tasks[environment.name] = {
                **asdict(split_tasks(environment, *ids)),
                "perfect": perfect_score(rollouts.fleet.described[environment.name]),
            }
    return tasks


def _evaluate(
    recipe: GRPORecipe, tasks: Mapping[str, Any], model: Path, name: str, console: Console
) -> dict[str, Any]:
    agent = RolloutPolicy(policy=str(model), seed=recipe.seed)
    jobs = [
        RolloutJob(
            environment,
            tasks[environment.name]["evaluate"],
            recipe.out / "evaluation" / name / environment.name,
        )
        for environment in recipe.environments
    ]
    played = play(recipe.rollout, agent, jobs, console=console)
    metrics = {run.environment: read_metric(run) for run in played}
    console.print(as_table([Row(name, metrics)], list(metrics), title=f"GRPO, {name} weights"))
    return {environment: metric.to_plain() for environment, metric in metrics.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_recipe(GRPORecipe, train, plan, argv, program="python -m training.grpo")


if __name__ == "__main__":
    sys.exit(main())
