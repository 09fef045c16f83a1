"""Group-relative policy optimisation over many turns.

    python -m training.grpo RECIPE.toml [--resume | --overwrite] [--plan] [--steps 10 ...]
    torchrun --nproc-per-node 8 -m training.grpo RECIPE.toml

Reads top to bottom: a step plays a group of episodes for each of a few tasks with the current
weights, compares each episode with its own group, and moves the probability of every token that was
sampled, by the ratio to the probability with which it was *recorded*, clipped. Nothing is
re-tokenized: what was sampled is what is learned from. The loss is `training.trainer.policy_loss`,
what episodes are compared with `training.data.advantages`; both have options for other algorithms.

Sources: GRPO and its estimate of the divergence https://arxiv.org/abs/2402.03300; averaging over
tokens and asymmetric clipping https://arxiv.org/abs/2503.14476; the number of turns that
grows with the steps (ScalingInter-RL) https://arxiv.org/abs/2509.08755.

All processes of a job learn, each its share of a step's micro-batches; the main one plays: beside
the learner (embedded) or on servers (SGLang). The others read the recorded episodes from the run's
folder, so every process sees the same step. Knows no environment: `training.rollouts` plays, and
with `asynchronous` it does so without a barrier (`training.asynchronous`).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
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
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.engine import engine_context
from agent_runtime.engine.torch_backend import MEMORY_SHARE, engine_bytes
from agent_runtime.scores import perfect_score, recorded_score
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.command_line import run_loop
from orchestrator.configuration import to_plain
from orchestrator.fleet import Fleet
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader
from orchestrator.training_folder import LOG_FILE
from training.asynchronous import GroupFeed
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.advantages import (
    AdvantageConfig,
    episode_advantages,
    generalized_advantages,
    telling_groups,
    turn_advantages,
)
from training.data.contents import HeldOutContents, list_some, record_content
from training.data.sequences import TokenSequence
from training.data.trajectories import TokenAges, WeightVersions, read_trajectories
from training.errors import DataError, TrainingError
from training.rollouts.dynamic_sampling import (
    PlayTasks,
    SampledGroups,
    further_tasks,
    sample_groups,
)
from training.rollouts.groups import GroupOrder
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.on_policy import Rollouts, Task, read_rollouts
from training.rollouts.progress import Checkpoints, ProgressConfig, Validation, write_table
from training.rollouts.results import Row, as_table, read_metric
from training.rollouts.step_metrics import StepClock, describe_episodes
from training.rollouts.stream import StreamSettings
from training.rollouts.task_contents import leave_out_held_out
from training.rollouts.tasks import EnvironmentTasks, TaskSplit, list_ids, split_tasks
from training.runs.run_dir import RunDir
from training.runs.tracking import Tracker, TrackingConfig
from training.trainer.batches import Batch, collate, target_logprobs
from training.trainer.critic import Critic, ValueConfig
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, OptimizerConfig, latest_state, prune_states
from training.trainer.memory import (
    MemoryPlan,
    available_bytes,
    measure_model,
    plan_memory,
    require_memory,
)
from training.trainer.models import (
    ModelConfig,
    hf_config,
    load_for_training,
    precision_context,
    save_checkpoint,
)
from training.trainer.packing import Step, local_micro_batches
from training.trainer.policy_loss import (
    ClipConfig,
    Objective,
    SampledTokens,
    load_objective,
    policy_loss,
)
from training.weight_push import WeightPush

__all__ = [
    "GRPORecipe",
    "TurnLimit",
    "fit_engine",
    "main",
    "plan",
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
    value: ValueConfig = field(default_factory=ValueConfig)
    steps: int = 100
    """Rounds of playing and learning."""
    tasks: int = 16
    """Tasks per step, the environments taking turns."""
    group: int = 8
    """Episodes per task."""
    dynamic_sampling: int = 0
    """Groups whose rewards agree teach nothing: so many times at most, further tasks of their
    environments are played in their place before a step is learned from (DAPO); 0 = never."""
    temperature: float = 1.0
    normalise: bool = True
    """Divide advantages by a deviation: their group's, or as `advantages` says."""
    average: Literal["tokens", "sequences", "constant"] = "tokens"
    """What counts alike: every token of a step, every episode however long, or every token of every
    step: then the sum is over the number of sequences times `average_tokens` (Dr. GRPO)."""
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
        if not self.model.path:
            raise ValueError("model.path is a checkpoint: GRPO improves an agent that can play")

    def _check_asynchronous(self) -> None:
        if self.asynchronous and (self.replay or self.dynamic_sampling):
            raise ValueError(
                "replay and dynamic_sampling are of steps with a barrier: leave out asynchronous"
            )

    def max_rounds(self, step: int) -> int:
        """Return how many replies episodes of a step may take; 0 = each environment's number."""
        reached = [limit for limit in self.turn_curriculum if limit.from_step <= step]
        return max(reached, key=lambda limit: limit.from_step).rounds if reached else 0


# The objective ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence of a step."""

    sequence: TokenSequence
    advantages: NDArray[np.float32]
    """[targets]"""
    episode: int = 0
    """Which of the step's it is of."""
    reward: float = 0.0
    """Of the episode."""
    values: NDArray[np.float32] | None = None
    """[targets], before the step's first update; None = there is no value head."""
    returns: NDArray[np.float32] | None = None
    """[targets]: what the values should have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStep:
    """A step's episodes as examples."""

    examples: tuple[Example, ...]
    """Those with an advantage other than 0: the others have no gradient."""
    groups: int
    informative_groups: int
    """Groups whose rewards differ."""
    off_policy_tokens: int
    """Sampled tokens that were left out for their age."""
    rewards: tuple[float, ...]
    """Of each episode."""
    advantages: tuple[NDArray[np.float32], ...]
    """Of each episode, of its turns."""
    figures: Mapping[str, float]
    """What `describe_episodes` says of them."""
    ages: TokenAges


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
    tasks = [_group(episode, recipe) for episode in episodes]
    advantages = _turns_advantages(episodes, rewards, tasks, recipe)
    max_age = recipe.max_off_policy_steps
    examples: list[Example] = []
    off_policy_tokens = 0
    ages: list[NDArray[np.int64]] = []
    by_value = recipe.advantages.baseline == "value"
    for number, (episode, of_turns) in enumerate(zip(episodes, advantages, strict=True)):
        trajectories = read_trajectories(
            episode, step=step, max_off_policy_steps=max_age, versions=versions
        )
        off_policy_tokens += sum(trajectory.stale for trajectory in trajectories)
        ages += [trajectory.ages for trajectory in trajectories]
        for trajectory in trajectories:
            of_tokens = of_turns[trajectory.turns]
            if of_tokens.any() or by_value:
                reward = rewards[number]
                examples.append(Example(trajectory.sequence, of_tokens, number, reward))
    return ScoredStep(
        examples=tuple(examples),
        groups=len(set(tasks)),
        informative_groups=telling_groups(rewards, tasks),
        off_policy_tokens=off_policy_tokens,
        rewards=tuple(rewards),
        advantages=tuple(advantages),
        figures=describe_episodes(episodes, rewards),
        ages=TokenAges.of(ages),
    )


def _group(episode: episode_pb2.Episode, recipe: GRPORecipe) -> Hashable:
    """Return what an episode is compared within: its task, each time that it is played."""
    repetition = episode.sample // recipe.group if recipe.asynchronous else 0
    return episode.environment, episode.item_id, repetition


def _turns_advantages(
    episodes: Sequence[episode_pb2.Episode],
    rewards: Sequence[float],
    tasks: Sequence[Hashable],
    recipe: GRPORecipe,
) -> list[NDArray[np.float32]]:
    """Return the advantage of each turn of each episode: its episode's, and its own."""
    config = recipe.advantages
    of_episodes = (
        [0.0] * len(rewards)  # a value head has yet to say what it expected
        if config.baseline == "value"
        else episode_advantages(rewards, tasks, config, normalise=recipe.normalise)
    )
    # A reply that no step answered, for its episode was cut off there, is a turn as well.
    counts = [
        max((call.turn + 1 for call in episode.generations), default=0) for episode in episodes
    ]
    advantages = [
        np.full(count, advantage, np.float32)
        for count, advantage in zip(counts, of_episodes, strict=True)
    ]
    if config.turn_weight:
        begun = [
            [step.state_hash for step in episode.steps[:count]]
            for episode, count in zip(episodes, counts, strict=True)
        ]
        for episode, states in zip(episodes, begun, strict=True):
            if not all(states):
                raise DataError(
                    f"episode {episode.episode_id} has a state without a hash, and turns are "
                    f"compared by states: set advantages.turn_weight = 0 for {episode.environment}",
                    field="advantages.turn_weight",
                )
        own = turn_advantages(rewards, tasks, begun, config, normalise=recipe.normalise)
        for of_turns, further in zip(advantages, own, strict=True):
            of_turns[: len(further)] += config.turn_weight * np.array(further, np.float32)
    return advantages


def _reward(episode: episode_pb2.Episode) -> float:
    score = recorded_score(episode)
    return 0.0 if score is None else score


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
            with torch.no_grad():
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
    of_sequences = {
        "tokens": np.full(len(counts), 1 / targets),
        "sequences": 1 / (counts * sequences),
        "constant": np.full(len(counts), 1 / (sequences * max(recipe.average_tokens, 1))),
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
        available = available_bytes(dist.device)
        memory = _require_memory(recipe, dist, console)
        engine = fit_engine(recipe, memory, dist.device, available)
        program = _Program(recipe, dist, console, engine)
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

    def __init__(
        self,
        recipe: GRPORecipe,
        dist: DistributedContext,
        console: Console,
        engine: EmbeddedOptions,
    ) -> None:
        self._recipe = recipe
        self._dist = dist
        self._engine = engine
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
        tasks = self._on_main("tasks", lambda: run_loop(_choose_tasks(recipe, console)))
        if recipe.evaluate:
            path = Path(recipe.model.source)
            self._on_main(_FIRST_STAGE, lambda: _evaluate(recipe, tasks, path, "first", console))
        self._on_all(
            "learn",
            lambda: run_loop(
                _TrainingSteps(
                    recipe,
                    tasks,
                    self._dist,
                    console,
                    self._run_id(),
                    self._engine,
                    self._validation(tasks),
                ).run(final)
            ),
        )
        if recipe.evaluate:
            self._on_main(_FINAL_STAGE, lambda: _evaluate(recipe, tasks, final, "final", console))

    def _validation(self, tasks: Mapping[str, Any]) -> Validation | None:
        if self._run_dir is None:
            return None
        # Runs that were begun by an earlier release recorded no such tasks.
        apart = {name: split.get("validate", []) for name, split in tasks.items()}
        return Validation(self._run_dir, apart)

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
    engine = _engine_beside(recipe, dist.device)
    memory = plan_memory(
        size,
        recipe.model,
        micro_tokens=recipe.micro_tokens,
        world_size=dist.world_size,
        sharded=dist.has_group,
        reference=recipe.clip.kl_coef > 0,
        engine=sum(engine) if engine else 0,
    )
    if dist.is_main:
        console.print(memory.describe(), highlight=False, markup=False)
    require_memory(memory, dist, micro_tokens=recipe.micro_tokens)
    return memory


def _engine_beside(recipe: GRPORecipe, device: torch.device) -> tuple[int, int] | None:
    """Return what an embedded engine takes at least of the learner's device, in bytes.

    Its weights, and the cache that the recipe names or that of one context; None = it runs
    elsewhere.
    """
    options = recipe.rollout.embedded
    place = device.type if options.device == "auto" else options.device
    if recipe.rollout.engine != "embedded" or place not in (device.type, str(device)):
        return None
    folder = Path(recipe.model.source)
    weights, token = engine_bytes(folder, options, device)
    if options.cache_gib is not None:
        return weights, int(options.cache_gib * 2**30)
    return weights, token * engine_context(folder, options)


def fit_engine(
    recipe: GRPORecipe, memory: MemoryPlan, device: torch.device, available: int
) -> EmbeddedOptions:
    """Return the engine's options with a cache that leaves the learner what it is planned to need.

    Left to itself an engine takes most of what is free when it starts, and a learner that has not
    made its first step yet has neither gradients nor moments.

    Args:
        recipe: The run's.
        memory: The learner's plan, which counts the engine's least cache.
        device: The learner's.
        available: Bytes that were free before anything was loaded.
    """
    options = recipe.rollout.embedded
    least = _engine_beside(recipe, device)
    if least is None or options.cache_gib is not None:
        return options
    cache = min(available * MEMORY_SHARE[device.type], least[1] + available - memory.total)
    return replace(options, cache_gib=cache / 2**30)


class _TrainingSteps:
    """The steps of a run, from its last saved state on."""

    def __init__(
        self,
        recipe: GRPORecipe,
        tasks: Mapping[str, Any],
        dist: DistributedContext,
        console: Console,
        run_id: str,
        engine: EmbeddedOptions,
        validation: Validation | None,
    ) -> None:
        """Prepare them; `validation` is of the main process."""
        self._recipe = recipe
        self._engine = engine
        self._dist = dist
        self._console = console
        self._validation = validation
        self._checkpoints = Checkpoints(recipe.out / "checkpoints", recipe.progress)
        self._run_id = run_id
        self._objective = load_objective(recipe.objective)
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
        self._clock = StepClock()
        self._weights = WeightPush(
            model=recipe.model, rollout=recipe.rollout, folder=recipe.out / "weights", dist=dist
        )
        self._critic: Critic | None = None

    async def run(self, final: Path) -> dict[str, Any]:
        """Play and learn; the last weights go to `final`."""
        recipe = self._recipe
        learner, reference = self._load()
        async with AsyncExitStack() as stack:
            rollouts: Rollouts | None = None
            feed: GroupFeed | None = None
            if self._dist.is_main:
                rollouts = await stack.enter_async_context(self._rollouts())
            if recipe.asynchronous:
                feed = await stack.enter_async_context(self._feed(rollouts))
            begins = not self._step and not (feed and feed.replays(0))
            if rollouts is not None:
                # Weights that a resume goes on with are not called those of the first step.
                version = self._versions.name(0) if begins else ""
                await rollouts.start_policy(Path(recipe.model.source), version)
            if not begins:
                await self._sync_weights(rollouts, learner, feed)
            with self._tracker() as tracker:
                await self._steps(rollouts, learner, reference, tracker, feed)
        done = {"steps": recipe.steps, "updates": learner.step}
        if recipe.progress.choose == "validation":
            best = self._dist.broadcast(self._best())
            if best is None:
                raise TrainingError(
                    "no develop task was played to its end, so no weights can be chosen",
                    field="progress.choose",
                )
            if self._dist.is_main:
                shutil.rmtree(final, ignore_errors=True)
                shutil.copytree(self._checkpoints.path(best), final)
            return {**done, "chosen": best}
        save_checkpoint(learner.model, final, tokenizer=recipe.model.source, dist=self._dist)
        return done

    def _rollouts(self) -> Rollouts:
        recipe = self._recipe
        return Rollouts(
            replace(recipe.rollout, embedded=self._engine),
            recipe.environments,
            self._rollouts_folder,
            temperature=recipe.temperature,
            seed=recipe.seed,
        )

    def _feed(self, rollouts: Rollouts | None) -> GroupFeed:
        recipe = self._recipe
        settings = StreamSettings(
            batch=recipe.tasks,
            staleness=recipe.max_off_policy_steps,
            steps=recipe.steps,
            versions=self._versions,
            max_rounds=recipe.max_rounds,
        )
        order = GroupOrder(self._step_tasks, recipe.group)
        return GroupFeed(self._rollouts_folder, order, settings, rollouts, self._dist)

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
        learner = Learner(
            model,
            recipe.optimizer,
            self._dist,
            seed=recipe.seed,
            total=total,
            reduce_every_micro_batch=recipe.model.reduce_every_micro_batch,
        )
        if recipe.advantages.baseline == "value":
            self._critic = Critic(model, recipe.value, self._dist)
        self._states.mkdir(parents=True, exist_ok=True)
        state = self._dist.broadcast(str(latest_state(self._states) or ""))
        if state:
            self._step = int(learner.load_state(Path(state))["next_step"])
            if self._critic is not None:
                self._critic.load(Path(state))
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
        feed: GroupFeed | None,
    ) -> None:
        """`rollouts` is of the first process, which plays; the others read what was played."""
        recipe = self._recipe
        learning = Learning(
            recipe=recipe,
            dist=self._dist,
            reference=reference,
            objective=self._objective,
            critic=self._critic,
        )
        ahead: asyncio.Task[SampledGroups] | None = None
        while self._step < recipe.steps:
            step = self._step
            versions = self._versions
            if feed is not None:
                with self._clock.measure(step, "wait"):
                    sampled = SampledGroups(await feed.next(step))
            elif step == 0 and recipe.replay:
                sampled, others = _read_replay(recipe)
                versions = replace(versions, others=others)
            elif rollouts is not None:
                with self._clock.measure(step, "wait"):
                    sampled = await (ahead or self._play(rollouts, step))
                await asyncio.to_thread(self._dist.wait_for_main)
            else:
                self._dist.wait_for_main()
                sampled = await self._read(step)
            ahead = None
            behind = recipe.max_off_policy_steps and step + 1 < recipe.steps
            if feed is None and rollouts is not None and behind:
                ahead = asyncio.create_task(self._play(rollouts, step + 1))
            scored = score_groups(sampled.episodes, recipe, step, self._perfect_scores, versions)
            metrics: dict[str, float] = {}
            if scored.examples:
                work = (learner, scored.examples, learning)
                with self._clock.measure(step, "learn"):
                    # In a thread, so that the next step may be played meanwhile.
                    metrics = (
                        learn(*work) if rollouts is None else await asyncio.to_thread(learn, *work)
                    )
            self._step = step + 1
            with self._clock.measure(step, "push"):
                await self._sync_weights(rollouts, learner, feed)
            progress = {} if feed is None else feed.advance()
            progress |= await self._progress(rollouts, learner, sampled.episodes, scored)
            if recipe.dynamic_sampling:
                progress["replacements"] = sampled.replacements
            progress |= self._clock.take(step)
            tracker.record(self._step, self._metrics(scored, metrics) | progress)
            self._save(learner)

    def _step_tasks(self, step: int) -> list[Task]:
        return step_tasks(self._tasks, step, self._recipe.tasks, self._recipe.seed)

    async def _play(self, rollouts: Rollouts, step: int) -> SampledGroups:
        recipe = self._recipe

        async def play(tasks: Sequence[Task]) -> list[episode_pb2.Episode]:
            return await rollouts.play(
                step, tasks, samples=recipe.group, max_rounds=recipe.max_rounds(step)
            )

        with self._clock.measure(step, "rollout"):
            sampled = await self._sample(step, play)
        if not sampled.episodes:
            raise rollouts.explain_loss(step)
        return sampled

    async def _read(self, step: int) -> SampledGroups:
        """Return what the main process played."""

        async def read(tasks: Sequence[Task]) -> list[episode_pb2.Episode]:
            return read_rollouts(self._rollouts_folder, step, tasks, samples=self._recipe.group)

        return await self._sample(step, read)

    async def _sample(self, step: int, play: PlayTasks) -> SampledGroups:
        recipe = self._recipe

        def further(replaced: Sequence[Task], played: Sequence[Task]) -> list[Task]:
            return further_tasks(self._tasks, replaced, played, step=step, seed=recipe.seed)

        planned, rounds = self._step_tasks(step), recipe.dynamic_sampling
        return await sample_groups(play, planned, further, _reward, rounds=rounds)

    async def _sync_weights(
        self, rollouts: Rollouts | None, learner: Learner, feed: GroupFeed | None
    ) -> None:
        """Give the policy the new weights; every process has to call this."""
        if feed is not None and feed.replays(self._step):
            return  # an earlier process went on to weights that are still to be learned again
        await self._weights.push(learner.model, rollouts, self._versions.name(self._step))

    async def _progress(
        self,
        rollouts: Rollouts | None,
        learner: Learner,
        episodes: Sequence[episode_pb2.Episode],
        scored: ScoredStep,
    ) -> dict[str, float]:
        """Evaluate the weights, keep them and write episodes down, where that is due now.

        Every process has to call this.
        """
        config, step = self._recipe.progress, self._step
        figures: dict[str, float] = {}
        if config.tabulates(step) and self._dist.is_main:
            table = self._recipe.out / "tables" / f"step-{step:06d}.jsonl"
            write_table(
                table, episodes, scored.rewards, scored.advantages, tasks=config.table_tasks
            )
        if config.validates(step):
            with self._clock.measure(step - 1, "validate"):
                if rollouts is not None and self._validation is not None:
                    figures = await self._validation.evaluate(rollouts, step)
                await asyncio.to_thread(self._dist.wait_for_main)
        if config.keeps(step):
            save_checkpoint(
                learner.model,
                self._checkpoints.path(step),
                tokenizer=self._recipe.model.source,
                dist=self._dist,
            )
            if self._dist.is_main:
                self._checkpoints.prune(step, self._best())
        return figures

    def _best(self) -> int | None:
        """Return the step of the best weights so far; None = none were evaluated, or not here."""
        if self._validation is None:
            return None
        steps = range(self._step + 1)
        return self._validation.best([it for it in steps if self._recipe.progress.validates(it)])

    def _save(self, learner: Learner) -> None:
        every, step = self._recipe.save_every, self._step
        if step == self._recipe.steps or (every and step % every == 0):
            also = None if self._critic is None else self._critic.save
            learner.save_state(self._states, {"next_step": step}, also=also)
            if self._dist.is_main:
                prune_states(self._states, self._recipe.keep_states)

    def _metrics(self, scored: ScoredStep, learned: Mapping[str, float]) -> dict[str, float | None]:
        return {
            **scored.figures,
            "groups": scored.groups,
            "informative_groups": scored.informative_groups,
            "off_policy_tokens": scored.off_policy_tokens,
            "token_age_mean": scored.ages.mean,
            "token_age_max": scored.ages.max,
            "rounds": self._recipe.max_rounds(self._step - 1),
            **learned,
        }


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


def _read_replay(recipe: GRPORecipe) -> tuple[SampledGroups, dict[str, int]]:
    """Return recorded episodes, and the version of the starting weights, which played them."""
    episodes: list[episode_pb2.Episode] = []
    for name in recipe.replay:
        with RunReader.open(find_run(name)) as reader:
            episodes += reader.episodes(lambda episode: not episode.failed)
    if held_out := _held_out(recipe):
        for episode in episodes:
            content = record_content(episode)
            held_out.note(episode.environment, episode.item_id, episode.episode_id, content)
        held_out.refuse(field="replay", option="held_out_contents")
    episodes.sort(key=lambda e: (e.environment, e.item_id, e.sample, e.episode_id))
    return SampledGroups(episodes), {weights_digest(Path(recipe.model.source)): 0}


def _held_out(recipe: GRPORecipe) -> HeldOutContents | None:
    """Return what must not be learned from; None = nothing is held out by content."""
    if not recipe.held_out_contents:
        return None
    return HeldOutContents.read(Path(recipe.held_out_contents), field="held_out_contents")


async def _choose_tasks(recipe: GRPORecipe, console: Console) -> dict[str, Any]:
    """Tasks to train on and to be scored on, and the score of a perfect episode."""
    held_out = _held_out(recipe)
    async with Rollouts(
        recipe.rollout, recipe.environments, recipe.out / "rollouts", temperature=1.0, seed=0
    ) as rollouts:
        tasks: dict[str, Any] = {}
        for environment in recipe.environments:
            split, left_out = await _split(recipe, environment, rollouts.fleet), dict[str, str]()
            if held_out is not None:
                split, left_out = await leave_out_held_out(
                    rollouts.fleet, environment, split, held_out
                )
            if left_out:
                console.print(
                    f"{environment.name}: {len(left_out)} tasks begin as held-out ones do and are "
                    f"not explored: {list_some(left_out)}",
                    highlight=False,
                    markup=False,
                )
            tasks[environment.name] = {
                **asdict(split),
                "left_out": left_out,
                "perfect": perfect_score(rollouts.fleet.described[environment.name]),
            }
    return tasks


async def _split(recipe: GRPORecipe, environment: EnvironmentTasks, fleet: Fleet) -> TaskSplit:
    if recipe.items:
        items = recipe.items[environment.name]
        return TaskSplit(base=(), large=(), explore=items, evaluate=(), validate=())
    return split_tasks(environment, *await list_ids(fleet, environment))


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
