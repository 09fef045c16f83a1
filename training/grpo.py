"""Group-relative policy optimisation over many turns.

    python -m training.grpo RECIPE.toml [--resume | --overwrite] [--plan] [--steps 10 ...]
    torchrun --nproc-per-node 8 -m training.grpo RECIPE.toml

Reads top to bottom: a step plays a group of episodes for each of a few tasks with the current
weights, compares each episode with its own group, and moves the probability of every token that was
sampled, by the ratio to the probability with which it was *recorded*, clipped. Nothing is
re-tokenized: what was sampled is what is learned from. The loss is `training.trainer.policy_loss`,
what episodes are compared with `training.data.advantages`; both have options for other algorithms.
A recipe, a step's examples and its update are modules of `training.policy_gradient`.

Sources: GRPO and its estimate of the divergence https://arxiv.org/abs/2402.03300; averaging over
tokens and asymmetric clipping https://arxiv.org/abs/2503.14476; the number of turns that
grows with the steps (ScalingInter-RL) https://arxiv.org/abs/2509.08755.

All processes of a job learn, each its share of a step's micro-batches; the main one plays: beside
the learner (embedded), on servers (SGLang), or by workers of a Ray cluster. The others read the
recorded episodes from the run's folder, so every process sees the same step. Knows no environment:
`training.rollouts` plays, and with `asynchronous` it does so without a barrier, and sends the
others what a step learns from (`training.asynchronous`).
"""

from __future__ import annotations

import asyncio
import random
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

from rich.console import Console

try:
    import torch
except ModuleNotFoundError as error:
    from training.needed import without_torch

    raise without_torch(error) from None

from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.engine import engine_context
from agent_runtime.engine.torch_backend import MEMORY_SHARE, engine_bytes
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import load_renderer
from agent_runtime.scores import perfect_score
from agentgym.episode.v1 import episode_pb2
from orchestrator import seeds
from orchestrator.command_line import run_loop
from orchestrator.configuration import to_plain
from orchestrator.fleet import Fleet
from orchestrator.object_storage import locate_run
from orchestrator.ray_config import RayConfig
from orchestrator.records import EpisodeKey
from orchestrator.store import RunReader
from orchestrator.training_folder import LOG_FILE
from training.asynchronous import GroupFeed
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.contents import HeldOutContents, list_some, record_content
from training.data.trajectories import WeightVersions
from training.errors import ModelUnusable, TrainingError
from training.policy_gradient.recipe import GRPORecipe, TurnLimit
from training.policy_gradient.scoring import ScoredStep, episode_reward, score_groups
from training.policy_gradient.update import Learning, learn
from training.rollouts.branches import plan_branches, require_branches
from training.rollouts.dynamic_sampling import (
    PlayTasks,
    SampledGroups,
    further_tasks,
    sample_groups,
)
from training.rollouts.groups import GroupOrder
from training.rollouts.jobs import RolloutJob, RolloutPolicy, play
from training.rollouts.on_policy import Branch, Rollouts, Task, read_branches, read_rollouts
from training.rollouts.progress import Checkpoints, Validation, write_table
from training.rollouts.results import Row, as_table, read_metric
from training.rollouts.step_metrics import StepClock
from training.rollouts.stream import StreamSettings
from training.rollouts.task_contents import leave_out_held_out
from training.rollouts.tasks import EnvironmentTasks, TaskSplit, list_ids, split_tasks
from training.rollouts.turn_limits import max_rounds
from training.runs.run_dir import RunDir
from training.runs.tracking import Tracker
from training.trainer.critic import Critic
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, latest_state, prune_states
from training.trainer.memory import (
    MemoryPlan,
    available_bytes,
    measure_model,
    plan_memory,
    require_memory,
)
from training.trainer.models import hf_config, load_for_training, save_checkpoint
from training.trainer.policy_loss import load_objective
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
P = ParamSpec("P")
T = TypeVar("T")
_FREE: Final = ("rollout.client", "rollout.cluster", "rollout.fleet.wait_for_servers")
"""What a resume may change: how servers are reached decides no result."""


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
    _require_template(recipe)
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
        ModelUnusable: Nobody can converse with the model.
    """
    _require_template(recipe)
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


def _require_template(recipe: GRPORecipe) -> None:
    """Raise ModelUnusable where a model has no chat template, before anything is started."""
    rollout = recipe.rollout
    options = rollout.embedded if rollout.engine == "embedded" else rollout.sglang
    try:
        load_renderer(recipe.model.source, options.chat_template, options.template_date)
    except PolicyMisconfigured as error:
        raise ModelUnusable(str(error), field="model.path") from error


def _require_memory(recipe: GRPORecipe, dist: DistributedContext, console: Console) -> MemoryPlan:
    size = measure_model(hf_config(recipe.model.source))
    engine = _engine_beside(recipe, dist.device)
    memory = plan_memory(
        size,
        recipe.model,
        micro_tokens=recipe.micro_tokens,
        world_size=dist.world_size,
        sharded=dist.has_group,
        reference=recipe.clip.kl_coef > 0 and recipe.model.lora is None,
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
        self._keep_weights(learner, final)
        return done

    def _keep_weights(self, learner: Learner, folder: Path) -> None:
        source = self._recipe.model.source
        save_checkpoint(learner.model, folder, tokenizer=source, dist=self._dist)

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
            max_rounds=partial(max_rounds, recipe.turn_curriculum),
            replacements=recipe.dynamic_sampling * recipe.tasks,
        )
        order = GroupOrder(self._step_tasks, recipe.group)
        return GroupFeed(self._rollouts_folder, order, settings, rollouts, self._dist)

    def _load(self) -> tuple[Learner, torch.nn.Module | None]:
        recipe = self._recipe
        model = load_for_training(recipe.model.source, recipe.model, self._dist, seed=recipe.seed)
        model.to(self._dist.device)
        reference = None
        if recipe.clip.kl_coef and recipe.model.lora is not None:
            reference = model  # below its adapters are the starting weights
        elif recipe.clip.kl_coef:
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
                    sampled = await feed.next(step)
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
            scored = score_groups(
                sampled.episodes, recipe, step, self._perfect_scores, versions, sampled.branches
            )
            metrics: dict[str, float] = {}
            if scored.examples:
                with self._clock.measure(step, "learn"):
                    metrics = await _aside(rollouts, learn, learner, scored.examples, learning)
            self._step = step + 1
            with self._clock.measure(step, "push"):
                await self._sync_weights(rollouts, learner, feed)
            progress = {} if feed is None else feed.advance()
            progress |= await self._progress(rollouts, learner, sampled.episodes, scored)
            if recipe.dynamic_sampling:
                progress["replacements"] = sampled.replacements
            progress |= self._clock.take(step)
            tracker.record(self._step, self._metrics(scored, metrics) | progress)
            await _aside(rollouts, self._save, learner)

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
        planned = self._plan_branches(sampled, step)
        if not planned:
            return sampled
        with self._clock.measure(step, "branches"):
            rounds = recipe.max_rounds(step)
            branches = await rollouts.play_branches(step, planned, max_rounds=rounds)
        if not branches:
            raise rollouts.explain_loss(step, of_branches=True)
        return replace(sampled, branches=branches)

    async def _read(self, step: int) -> SampledGroups:
        """Return what the main process played."""

        async def read(tasks: Sequence[Task]) -> list[episode_pb2.Episode]:
            return read_rollouts(self._rollouts_folder, step, tasks, samples=self._recipe.group)

        sampled = await self._sample(step, read)
        planned = self._plan_branches(sampled, step)
        if not planned:
            return sampled
        branches = read_branches(self._rollouts_folder, step, list(planned))
        return replace(sampled, branches=branches)

    def _plan_branches(self, sampled: SampledGroups, step: int) -> dict[EpisodeKey, Branch]:
        recipe = self._recipe
        return plan_branches(
            sampled.episodes, recipe.branches, samples=recipe.group, seed=recipe.seed, step=step
        )

    async def _sample(self, step: int, play: PlayTasks) -> SampledGroups:
        recipe = self._recipe

        def further(replaced: Sequence[Task], played: Sequence[Task]) -> list[Task]:
            return further_tasks(self._tasks, replaced, played, step=step, seed=recipe.seed)

        planned, rounds = self._step_tasks(step), recipe.dynamic_sampling
        return await sample_groups(play, planned, further, episode_reward, rounds=rounds)

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
            await _aside(rollouts, self._keep_weights, learner, self._checkpoints.path(step))
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


async def _aside(
    rollouts: Rollouts | None, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> T:
    """Do work in a thread where this process plays.

    Episodes go on meanwhile, and workers of a cluster, which end with a driver that is silent, hear
    of it.
    """
    if rollouts is None:
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)


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
        with RunReader.open(locate_run(name)) as reader:
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
    here = replace(recipe.rollout, cluster=RayConfig())  # nothing is played, only listed
    async with Rollouts(
        here, recipe.environments, recipe.out / "rollouts", temperature=1.0, seed=0
    ) as rollouts:
        if recipe.branches.states:
            require_branches(rollouts.fleet.described)
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
