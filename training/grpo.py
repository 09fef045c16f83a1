# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""Group-relative policy optimisation over many turns.

    python -m training.grpo RECIPE.toml [--resume | --overwrite] [--plan] [--steps 10 ...]
    torchrun --nproc-per-node 8 -m training.grpo RECIPE.toml

Reads top to bottom: a step plays a group of episodes for each of a few tasks with the current
weights, compares each episode with its own group, and moves the probability of every token that was
sampled, by the ratio to the probability with which it was *recorded*, clipped. Nothing is
re-tokenized, and no logprob of the past is recomputed: what was sampled is what is learned from.

Sources: GRPO and its estimate of the divergence https://arxiv.org/abs/2402.03300; averaging over
tokens and asymmetric clipping https://arxiv.org/abs/2503.14476; the growing horizon
(ScalingInter-RL) https://arxiv.org/abs/2509.08755.

All processes of a job learn, each its share of a step's micro-batches; the first one plays: beside
the learner (embedded) or on servers (SGLang). The others read the recorded episodes from the run's
folder, so every process sees the same step. Knows no environment: `training.rollouts` plays.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.scores import perfect_score, recorded_score
from agent_runtime.weights import Weights
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.command_line import run_loop
from orchestrator.configuration import to_plain
from orchestrator.run_folder import find_run
from orchestrator.store import RunReader
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.sequences import TokenSequence
from training.data.trajectories import group_advantages, read_trajectories, version_name
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.on_policy import Rollouts, Task, read_rollouts
from training.rollouts.results import Row, as_table, read_metric
from training.rollouts.tasks import EnvironmentTasks, list_ids, split_tasks
from training.runs.run_dir import RunDir
from training.runs.tracking import Tracker, TrackingConfig
from training.trainer.batches import collate, target_logprobs
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

__all__ = ["Clipping", "GRPORecipe", "Horizon", "Loss", "main", "plan", "policy_loss", "train"]

LOG_FILE: Final = "log.jsonl"
_FREE: Final = ("rollout.client",)
"""What a resume may change: how servers are reached decides no result."""


# What a recipe says -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """From a step on, episodes may take so many replies."""

    from_step: int
    rounds: int

    def __post_init__(self) -> None:
        if self.from_step < 0 or self.rounds < 1:
            raise ValueError("from_step is at least 0, rounds at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipping:
    """The loss of a token."""

    low: float = 0.2
    """Nothing is gained where a ratio falls below 1 - low."""
    high: float = 0.2
    """Nothing is gained where a ratio rises above 1 + high."""
    kl: float = 0.0
    """Weight of the divergence from the starting weights; 0 = they are not kept."""

    def __post_init__(self) -> None:
        if not 0 < self.low < 1 or self.high <= 0 or self.kl < 0:
            raise ValueError("low is between 0 and 1, high above 0, kl at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPORecipe:
    """One run of GRPO."""

    model: ModelConfig
    """The agent to begin with; `path` is a checkpoint folder."""
    environments: tuple[EnvironmentTasks, ...]
    """What is played; `explore` tasks are trained on, `evaluate` ones judge."""
    out: Path = Path("runs/grpo")
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(lr=1e-6, schedule="constant", warmup=0.0)
    )
    clipping: Clipping = field(default_factory=Clipping)
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
    passes: int = 1
    """Times that a step's episodes are learned from."""
    staleness: int = 0
    """Tokens of weights that are more than so many steps old are not learned from. Above 0, the
    next step is played while this one is learned from."""
    horizon: tuple[Horizon, ...] = ()
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
    """Judge the first and the last weights on the held-out tasks, greedily."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.steps, self.tasks, self.minibatches, self.passes, self.micro_tokens) < 1:
            raise ValueError("steps, tasks, minibatches, passes and micro_tokens are at least 1")
        if self.group < 2 or self.temperature <= 0 or self.staleness < 0:
            raise ValueError("group is at least 2, temperature above 0, staleness at least 0")
        if not self.model.path:
            raise ValueError("model.path is a checkpoint: GRPO improves an agent that can play")

    def rounds(self, step: int) -> int:
        """Replies that episodes of a step may take; 0 = each environment's own number."""
        reached = [it for it in self.horizon if it.from_step <= step]
        return max(reached, key=lambda it: it.from_step).rounds if reached else 0


# The objective ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of some tokens, and sums over them that describe it."""

    total: torch.Tensor
    clipped: float = 0.0
    """Tokens whose gradient the clip removed."""
    divergence: float = 0.0
    """Of the estimate of KL(current || starting), in nats."""
    drift: float = 0.0
    """Of |ratio - 1|: how far the weights are from those that sampled."""


def policy_loss(
    current: torch.Tensor,
    recorded: torch.Tensor,
    advantages: torch.Tensor,
    shares: torch.Tensor,
    clipping: Clipping,
    starting: torch.Tensor | None = None,
) -> Loss:
    """The loss of sampled tokens; all arguments are [tokens], logprobs in nats.

    Each token counts by its share: -min(r A, clip(r, 1 - low, 1 + high) A) with
    r = exp(current - recorded), plus kl (exp(s - c) - (s - c) - 1), an unbiased estimate of the
    divergence that is never negative.
    """
    ratio = torch.exp(current - recorded)
    plain = ratio * advantages
    bounded = ratio.clamp(1 - clipping.low, 1 + clipping.high) * advantages
    each = -torch.minimum(plain, bounded)
    divergence = torch.zeros(())
    if starting is not None and clipping.kl:
        gap = starting - current
        estimate = torch.exp(gap) - gap - 1
        each = each + clipping.kl * estimate
        divergence = estimate.detach().sum()
    with torch.no_grad():
        clipped = float((bounded < plain).sum())
        drift = float((ratio - 1).abs().sum())
    return Loss((shares * each).sum(), clipped, float(divergence), drift)


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence of a step with what it counts."""

    sequence: TokenSequence
    advantage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A step's episodes as examples."""

    examples: tuple[Example, ...]
    """Those that teach something: of advantage 0 there are none."""
    rewards: tuple[float, ...]
    groups: int
    telling: int
    """Groups whose rewards differ."""
    stale: int
    """Sampled tokens that were left out for their age."""


def judge(
    episodes: Sequence[episode_pb2.Episode],
    recipe: GRPORecipe,
    step: int,
    perfect: Mapping[str, float],
    known: Mapping[str, int] | None = None,
) -> Judged:
    """Compare each episode with those of the same task. Raises LogprobsMissing."""
    rewards = [_reward(it) / perfect.get(it.environment, 1.0) for it in episodes]
    names = [(it.environment, it.item_id) for it in episodes]
    advantages = group_advantages(rewards, names, normalise=recipe.normalise)
    examples: list[Example] = []
    stale = 0
    for episode, advantage in zip(episodes, advantages, strict=True):
        parts = read_trajectories(episode, step=step, staleness=recipe.staleness, known=known)
        stale += sum(it.stale for it in parts)
        if advantage:
            examples += [Example(it.sequence, advantage) for it in parts]
    telling = {name for name, advantage in zip(names, advantages, strict=True) if advantage}
    return Judged(
        examples=tuple(examples),
        rewards=tuple(rewards),
        groups=len(set(names)),
        telling=len(telling),
        stale=stale,
    )


def _reward(episode: episode_pb2.Episode) -> float:
    score = recorded_score(episode)
    return 0.0 if score is None else score


def learn(
    learner: Learner,
    examples: Sequence[Example],
    recipe: GRPORecipe,
    dist: DistributedContext,
    starting: torch.nn.Module | None,
) -> dict[str, float]:
    """Update the weights by a step's examples; returns figures per token and of the last update.

    Every process comes with all examples and computes its share of them.
    """
    counted: tuple[str, ...] = ("tokens", "clipped", "divergence", "drift")
    figures: dict[str, float] = dict.fromkeys((*counted, "norm"), 0.0)
    for number in range(recipe.passes):
        order = list(examples)
        random.Random(seeds.derive("grpo-order", recipe.seed, learner.step, number)).shuffle(order)
        size = -(-len(order) // recipe.minibatches)
        for at in range(0, len(order), size):
            _update(learner, order[at : at + size], recipe, dist, starting, figures)
    totals = dict(zip(counted, dist.all_reduce_sum([figures[it] for it in counted]), strict=True))
    tokens = max(totals["tokens"], 1.0)
    shares = {name: totals[name] / tokens for name in counted[1:]}
    return figures | {"tokens": totals["tokens"]} | shares


def _update(
    learner: Learner,
    chosen: Sequence[Example],
    recipe: GRPORecipe,
    dist: DistributedContext,
    starting: torch.nn.Module | None,
    figures: dict[str, float],
) -> None:
    learner.begin_step()
    targets = sum(it.sequence.targets for it in chosen)
    lengths = np.array([len(it.sequence) for it in chosen], np.int32)
    parts = _micro_batches(lengths, recipe.micro_tokens)
    for numbers in local_micro_batches(parts, dist.rank, dist.world_size, lengths):
        micro = [chosen[number] for number in numbers]
        batch = collate([it.sequence for it in micro], dist.device)
        with precision_context(recipe.model, dist):
            current = target_logprobs(learner.model, batch, temperature=recipe.temperature)
            with torch.no_grad():
                first = (
                    None
                    if starting is None
                    else target_logprobs(starting, batch, temperature=recipe.temperature)
                )
        if not micro:
            # Nothing is left for this process; the others wait for its part in the gradients.
            learner.backward(0.0 * current.sum())
            continue
        assert batch.old_logprobs is not None, "trajectories have logprobs"
        device = current.device
        advantages = torch.tensor([it.advantage for it in micro], device=device)[
            batch.sequence_index
        ]
        counts = torch.tensor([it.sequence.targets for it in micro], device=device)[
            batch.sequence_index
        ]
        shares = (
            torch.full_like(current, 1 / targets)
            if recipe.average == "tokens"
            else 1 / (counts * len(chosen))
        )
        loss = policy_loss(current, batch.old_logprobs, advantages, shares, recipe.clipping, first)
        learner.backward(loss.total)
        figures["tokens"] += len(current)
        figures["clipped"] += loss.clipped
        figures["divergence"] += loss.divergence
        figures["drift"] += loss.drift
    figures["norm"], figures["lr"] = learner.update()


def _micro_batches(lengths: NDArray[np.int32], tokens: int) -> Step:
    """Numbers of sequences by parts of at most so many tokens; a longer one stands alone."""
    parts: list[list[int]] = []
    room = 0
    for number, length in enumerate(lengths.tolist()):
        if not parts or length > room:
            parts.append([])
            room = tokens
        parts[-1].append(number)
        room -= length
    return tuple(map(tuple, parts))


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
        """What is left of the run."""
        recipe, console = self._recipe, self._console
        chosen = self._by_first("tasks", lambda: run_loop(_choose(recipe)))
        if recipe.evaluate:
            path = Path(recipe.model.path)
            self._by_first("judge-first", lambda: _judge(recipe, chosen, path, "first", console))
        self._by_all(
            "learn", lambda: run_loop(_Learning(recipe, chosen, self._dist, console).run(final))
        )
        if recipe.evaluate:
            self._by_first("judge-final", lambda: _judge(recipe, chosen, final, "final", console))

    def _by_first(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A stage's result, on every process; they wait for the first one to have it."""
        return self._dist.broadcast(self._run_dir.stage(name, work) if self._run_dir else None)

    def _by_all(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        done = self._dist.broadcast(bool(self._run_dir and name in self._run_dir.finished))
        if self._run_dir is not None:
            self._run_dir.stage(name, work)
        elif not done:
            work()


def _require_memory(recipe: GRPORecipe, dist: DistributedContext, console: Console) -> MemoryPlan:
    size = measure_model(hf_config(recipe.model.path))
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


class _Learning:
    """The steps of a run, from its last saved state on."""

    def __init__(
        self,
        recipe: GRPORecipe,
        chosen: Mapping[str, Any],
        dist: DistributedContext,
        console: Console,
    ) -> None:
        self._recipe = recipe
        self._dist = dist
        self._console = console
        self._tasks: dict[str, list[str]] = {name: it["explore"] for name, it in chosen.items()}
        self._perfect: dict[str, float] = {name: it["perfect"] for name, it in chosen.items()}
        self._states = recipe.out / "states"
        self._played = recipe.out / "rollouts"
        self._updates = recipe.passes * recipe.minibatches
        self._step = 0

    async def run(self, final: Path) -> dict[str, Any]:
        """Play and learn; the last weights go to `final`."""
        recipe = self._recipe
        learner, starting = self._load()
        async with AsyncExitStack() as stack:
            rollouts: Rollouts | None = None
            if self._dist.is_main:
                rollouts = await stack.enter_async_context(self._rollouts())
                await rollouts.start_policy(Path(recipe.model.path), version_name(0))
            if self._step:
                await self._hand_over(rollouts, learner)
            with self._tracker() as tracker:
                await self._steps(rollouts, learner, starting, tracker)
        save_checkpoint(learner.model, final, tokenizer=recipe.model.path, dist=self._dist)
        return {"steps": recipe.steps, "updates": learner.step}

    def _rollouts(self) -> Rollouts:
        recipe = self._recipe
        return Rollouts(
            recipe.rollout,
            recipe.environments,
            self._played,
            temperature=recipe.temperature,
            seed=recipe.seed,
        )

    def _load(self) -> tuple[Learner, torch.nn.Module | None]:
        recipe = self._recipe
        model = load_for_training(recipe.model.path, recipe.model, self._dist, seed=recipe.seed)
        model.to(self._dist.device)
        starting = None
        if recipe.clipping.kl:
            starting = load_for_training(
                recipe.model.path, recipe.model, self._dist, frozen=True
            ).to(self._dist.device)
        total = recipe.steps * self._updates
        learner = Learner(model, recipe.optimizer, self._dist, seed=recipe.seed, total=total)
        self._states.mkdir(parents=True, exist_ok=True)
        state = self._dist.broadcast(str(latest_state(self._states) or ""))
        if state:
            self._step = int(learner.load_state(Path(state))["next_step"])
        return learner, starting

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
        )

    async def _steps(
        self,
        rollouts: Rollouts | None,
        learner: Learner,
        starting: torch.nn.Module | None,
        tracker: Tracker,
    ) -> None:
        """`rollouts` is of the first process, which plays; the others read what was played."""
        recipe = self._recipe
        ahead: asyncio.Task[list[episode_pb2.Episode]] | None = None
        while self._step < recipe.steps:
            step = self._step
            known: dict[str, int] = {}
            if step == 0 and recipe.replay:
                episodes, known = _replayed(recipe)
            elif rollouts is not None:
                episodes = await (ahead or self._play(rollouts, step))
                await asyncio.to_thread(self._dist.barrier)
            else:
                self._dist.barrier()
                episodes = read_rollouts(
                    self._played, step, self._tasks_of(step), samples=recipe.group
                )
            ahead = None
            if rollouts is not None and recipe.staleness and step + 1 < recipe.steps:
                ahead = asyncio.create_task(self._play(rollouts, step + 1))
            judged = judge(episodes, recipe, step, self._perfect, known)
            figures: dict[str, float] = {}
            if judged.examples:
                work = (learner, judged.examples, recipe, self._dist, starting)
                # In a thread, so that the next step may be played meanwhile.
                figures = (
                    learn(*work) if rollouts is None else await asyncio.to_thread(learn, *work)
                )
            self._step = step + 1
            await self._hand_over(rollouts, learner)
            tracker.record(self._step, self._figures(judged, figures))
            self._save(learner)

    def _tasks_of(self, step: int) -> list[Task]:
        return tasks_of(self._tasks, step, self._recipe.tasks, self._recipe.seed)

    async def _play(self, rollouts: Rollouts, step: int) -> list[episode_pb2.Episode]:
        recipe = self._recipe
        return await rollouts.play(
            step, self._tasks_of(step), samples=recipe.group, max_rounds=recipe.rounds(step)
        )

    async def _hand_over(self, rollouts: Rollouts | None, learner: Learner) -> None:
        """The policy plays with the new weights from now on; all processes give their part."""
        if self._recipe.rollout.engine == "sglang":
            folder = self._recipe.out / "weights" / version_name(self._step)
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(
                learner.model, folder, tokenizer=self._recipe.model.path, dist=self._dist
            )
            weights: Weights = folder  # a server reads them from a checkpoint
        else:
            weights = gather_weights(learner.model, self._dist)
        if rollouts is not None:
            await rollouts.update_weights(weights, version_name(self._step))

    def _save(self, learner: Learner) -> None:
        every, step = self._recipe.save_every, self._step
        if step == self._recipe.steps or (every and step % every == 0):
            learner.save_state(self._states, {"next_step": step})
            if self._dist.is_main:
                prune_states(self._states, self._recipe.keep_states)

    def _figures(self, judged: Judged, learned: Mapping[str, float]) -> dict[str, float | None]:
        count = len(judged.rewards)
        return {
            "reward": sum(judged.rewards) / count if count else None,
            "episodes": count,
            "groups": judged.groups,
            "telling_groups": judged.telling,
            "stale_tokens": judged.stale,
            "rounds": self._recipe.rounds(self._step - 1),
            **learned,
        }


def tasks_of(tasks: Mapping[str, Sequence[str]], step: int, count: int, seed: int) -> list[Task]:
    """The tasks of a step: environments take turns, each going through its tasks in rounds.

    A pure function of its arguments, so that a resumed run plays what it would have played.
    """
    names = list(tasks)
    chosen: list[Task] = []
    for number in range(step * count, (step + 1) * count):
        name = names[number % len(names)]
        turn, place = divmod(number // len(names), len(tasks[name]))
        order = sorted(tasks[name])
        random.Random(seeds.derive("grpo-tasks", seed, name, turn)).shuffle(order)
        chosen.append((name, order[place]))
    return list(dict.fromkeys(chosen))


def _replayed(
    recipe: GRPORecipe,
) -> tuple[list[episode_pb2.Episode], dict[str, int]]:
    """Recorded episodes, and the version of the starting weights, which must have played them."""
    episodes: list[episode_pb2.Episode] = []
    for name in recipe.replay:
        with RunReader.open(find_run(name)) as reader:
            episodes += reader.episodes(lambda it: not it.failed)
    episodes.sort(key=lambda it: (it.environment, it.item_id, it.sample, it.episode_id))
    return episodes, {weights_digest(Path(recipe.model.path)): 0}


async def _choose(recipe: GRPORecipe) -> dict[str, Any]:
    """Tasks to train on and to be judged on, and the score of a perfect episode."""
    names = [it.name for it in recipe.environments]
    async with Rollouts(
        recipe.rollout, recipe.environments, recipe.out / "rollouts", temperature=1.0, seed=0
    ) as rollouts:
        chosen: dict[str, Any] = {}
        for name, wanted in zip(names, recipe.environments, strict=True):
            ids = await list_ids(rollouts.fleet, wanted)
            chosen[name] = {
                **asdict(split_tasks(wanted, *ids)),
                "perfect": perfect_score(rollouts.fleet.described[name]),
            }
    return chosen


def _judge(
    recipe: GRPORecipe, chosen: Mapping[str, Any], model: Path, name: str, console: Console
) -> dict[str, Any]:
    agent = RolloutPolicy(policy=str(model), seed=recipe.seed)
    jobs = [
        RolloutJob(it, chosen[it.name]["evaluate"], recipe.out / "evaluation" / name / it.name)
        for it in recipe.environments
    ]
    played = play(recipe.rollout, agent, jobs, console=console)
    figures = {it.environment: read_metric(it) for it in played}
    console.print(as_table([Row(name, figures)], list(figures), title=f"GRPO, {name} weights"))
    return {it: figure.to_plain() for it, figure in figures.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_recipe(GRPORecipe, train, plan, argv, program="python -m training.grpo")


if __name__ == "__main__":
    sys.exit(main())
