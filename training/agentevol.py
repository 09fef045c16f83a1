"""`python -m training.agentevol recipe.toml`: an agent that evolves by exploring all environments.

Reads top to bottom. Behavioural cloning of a few expert episodes gives a base agent. Then, M times:
the current agent **explores** every environment's tasks, which are many more than those it has
cloned; what earned reward is **kept** (or every episode is weighted by its reward, as in the
objective of the paper); and the agent **learns**, each time anew from the base model, from the
expert episodes together with what was kept. After each iteration it is evaluated on held-out tasks.
Beside it, BC_base and BC_large are what cloning alone reaches with little and with much expert
data. Every stage is done once, whatever ends the process in between (`training.runs.run_dir`).

With `[judge]` tasks are divided by content, and agents are evaluated on the develop tasks alone:
`training.judge` plays the others once, when everything is decided.

`training.rollouts` plays, `training.cloning` learns, `training.courses` names what is compared.
Source: AgentGym, https://arxiv.org/abs/2406.04151, section 4 (the algorithm), table 3, figure 3.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console

from agent_runtime.logs import bind_context, configure_logging
from orchestrator.atomic_file import write_atomically
from orchestrator.configuration import to_plain
from orchestrator.errors import ExtraMissing
from orchestrator.store import RunReader
from orchestrator.training_folder import RESULTS_FILE
from training.cloning import Cloning, Preferring, clone, describe_memory, make_base, prefer
from training.config.cli import run_recipe
from training.config.start import Start
from training.courses import Control, Course, Matrix, Merge, expand
from training.data.selection import Repeats, Selection, score_threshold, select, write_selection
from training.data.sources import SourceConfig
from training.errors import CheckpointDamaged, NothingToTrainOn, TrainingError
from training.reinforcing import Reinforcing, reinforce
from training.rollouts.division import divide_by_content, held_out_contents, require_disjoint
from training.rollouts.jobs import (
    EvalRun,
    RolloutConfig,
    RolloutJob,
    RolloutPolicy,
    list_tasks,
    play,
)
from training.rollouts.results import (
    Metric,
    Row,
    as_markdown,
    as_table,
    draw,
    draw_rewards,
    metrics_from_plain,
    pool,
    read_metric,
)
from training.rollouts.task_contents import list_tasks_with_contents
from training.rollouts.tasks import ImitatedTasks, ListedTasks, TaskSplit, split_tasks
from training.runs.parallel import run_in_processes, share_devices
from training.runs.run_dir import RunDir

__all__ = [
    "FREE_KEYS",
    "AgentEvolRecipe",
    "JudgeConfig",
    "Report",
    "SeedRun",
    "SharedStages",
    "divide",
    "evolve",
    "main",
    "open_seeds",
    "plan",
    "row_notes",
    "seed_devices",
]

BASE: Final = "BC_base"
LARGE: Final = "BC_large"
EVOLVED: Final = "AgentEvol"
RANDOM_WINS: Final = "random wins"
EXPERT_EXPLORED: Final = "expert explored"
PREFERRED: Final = "BC_base + DPO"
REINFORCED: Final = "BC_base + GRPO"
UNTRAINED: Final = "untrained"
CONTENTS_FILE: Final = "contents.json"
FREE_KEYS: Final = (
    "iterations",
    "seeds",
    "max_workers",
    "controls",
    "matrix",
    "judge.seed",
    "rates",
    "rollout.client",
    "rollout.cluster",
    "rollout.embedded.process",
    "rollout.fleet.wait_for_servers",
)
"""What a resume may change: it may ask for more and reach servers otherwise; what is finished stays
as it is."""


Use = Literal["evaluate", "validate"]
"""Tasks that agents are evaluated on: those of the table, or those that are chosen by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """What a base model from scratch learns before it imitates anybody.

    Every token of a scripted policy's episodes, whatever their rewards.
    """

    policy: str = "random"
    samples: int = 1
    """Episodes per task, where its environment names no `pretrain_samples`."""
    epochs: int = 4

    def __post_init__(self) -> None:
        if self.samples < 1 or self.epochs < 1:
            raise ValueError("samples and epochs are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """That some tasks judge once, at the end, and no content of theirs is met before."""

    seed: int = 0
    """Draws them from the pools that are set apart; written down when training has ended and
    nothing of the recipe will change any more. 0 = not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Seconds of one worker on the machine that the recipe is for, measured: `--plan` reckons."""

    update: float
    """Seconds of an update."""
    pretraining_update: float
    """Seconds of an update of the pretraining."""
    episode: float
    """Seconds of an agent's episode, with `rollout.concurrency` of them at once."""
    scripted_episode: float
    """Seconds of an episode of the expert or of another scripted policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvolRecipe:
    """One run of AgentEvol."""

    out: Path
    environments: tuple[ImitatedTasks, ...]
    """What is imitated, explored and evaluated on, environment by environment."""
    cloning: Cloning
    """How agents learn: the base model and the hyper-parameters of behavioural cloning."""
    pretraining: Pretraining | None = None
    """Makes one base model for all seeds; None = that of the recipe, or random weights per seed."""
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    iterations: int = 4
    """M: rounds of exploring and learning; 0 = only cloning, and what `controls` add to it."""
    samples: int = 1
    """K: explored episodes per task, where its environment names no other number."""
    temperature: float = 1.0
    """Of exploration; evaluation is greedy."""
    use: Literal["filter", "weight"] = "filter"
    """Keep what is above its environment's threshold, or weight everything by its reward."""
    merge: Merge = "initial"
    """What is added to an iteration's episodes: the expert's, or all that the iteration before
    learned from."""
    repeats: Repeats = "first"
    """Which of several kept episodes of one task are learned from."""
    choose: Literal["last", "validation"] = "last"
    """Which iteration is the result: the last, or the best on the tasks set apart (`validate`)."""
    large: bool = True
    """Also clone the large expert set, to compare."""
    baselines: tuple[str, ...] = ("random",)
    """Who is evaluated beside the agents: scripted policies, and `untrained`, the published model
    that every agent starts from."""
    controls: tuple[Control, ...] = ()
    """Agents to compare with: random-wins, expert-explored, one-iteration, dpo, grpo."""
    matrix: Matrix | None = None
    """Ablations: rows that vary one setting each."""
    dpo: Preferring | None = None
    """How the control dpo learns; None = as the original's script."""
    grpo: Reinforcing | None = None
    """How the control grpo learns; it has no defaults that fit every model."""
    judge: JudgeConfig | None = None
    """Divide tasks by content, evaluate on `validate` tasks alone, and leave the rest to
    `training.judge`; None = divide by id, and evaluate on `evaluate` tasks on the way."""
    redraw: bool = False
    """Each seed divides the tasks anew, has its own expert episodes and pretrains its own base;
    else seeds differ in training and sampling alone. Needs `judge`."""
    rates: Rates | None = None
    seeds: tuple[int, ...] = (0,)
    """The whole run once per seed; the table pools them."""
    max_workers: int = 1
    """Seeds that run at a time, each in a process and on GPUs of its own; set OMP_NUM_THREADS
    accordingly."""

    def __post_init__(self) -> None:
        if min(self.samples, self.max_workers) < 1 or min(self.iterations, self.temperature) < 0:
            raise ValueError(
                "samples and max_workers are at least 1, iterations and temperature at least 0"
            )
        names = [tasks.name for tasks in self.environments]
        if not names or len(set(names)) != len(names):
            raise ValueError("environments are at least one, none of them twice")
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ValueError("seeds are at least one, none of them twice")
        self._check_base_model()
        self._check_controls()
        for tasks in self.environments:
            self._check_tasks(tasks)
            if self.judge:
                _check_judged(tasks)
        if self.judge:
            self._check_equal_updates()
        elif self.redraw or any(tasks.judge_tasks for tasks in self.environments):
            raise ValueError("redraw and judge_tasks are of recipes with a section [judge]")

    @property
    def course(self) -> Course:
        """The run's main course."""
        return Course(iterations=self.iterations, merge=self.merge, samples=self.samples)

    @property
    def courses(self) -> list[Course]:
        """All others."""
        return expand(self.course, self.matrix or Matrix(), self.controls)

    def baseline_policy(self, name: str) -> RolloutPolicy:
        """Return who plays a baseline, greedily."""
        return RolloutPolicy(policy=self.cloning.model.path if name == UNTRAINED else name)

    def samples_of(self, tasks: ImitatedTasks, course: Course) -> int:
        """Return how often a course explores each task of an environment in an iteration.

        A course that varies K sets it for every environment, whatever they have of their own.
        """
        varied = course.samples != self.samples
        return course.factor * (course.samples if varied else tasks.samples or self.samples)

    def _check_controls(self) -> None:
        if len(set(self.controls)) != len(self.controls):
            raise ValueError("controls are named once each")
        if ("grpo" in self.controls) != (self.grpo is not None):
            raise ValueError("the control grpo and the section [grpo] go together")
        if self.grpo is not None:
            self.rollout.check_push_to_cluster()
        if not self.iterations and (self.matrix or "one-iteration" in self.controls):
            raise ValueError("without iterations there is no matrix and no control one-iteration")

    def _check_base_model(self) -> None:
        model = self.cloning.model
        if self.pretraining and model.init is None:
            raise ValueError("pretraining is for a model from scratch: set cloning.model.init")
        if UNTRAINED in self.baselines and not model.path:
            raise ValueError("the baseline untrained is a published model: set cloning.model.path")

    def _check_equal_updates(self) -> None:
        names = {tasks.name for tasks in self.environments}
        if not self.cloning.max_steps or set(self.cloning.shares) != names:
            raise ValueError(
                "agents are compared after as many updates, and as many of each environment: set "
                f"cloning.max_steps, and in cloning.shares each of {', '.join(sorted(names))}"
            )

    def _check_tasks(self, tasks: ImitatedTasks) -> None:
        if not tasks.base_tasks:
            raise ValueError(f"environment {tasks.name}: base_tasks is at least 1")
        if self.large and not tasks.large_tasks:
            raise ValueError(
                f"environment {tasks.name}: large_tasks is at least base_tasks, or large = false"
            )
        if self.choose == "validation" and not tasks.validate:
            raise ValueError(f"environment {tasks.name}: choosing by validation needs validate")


def _check_judged(tasks: ImitatedTasks) -> None:
    """Raise ValueError unless an environment names all four parts."""
    if not tasks.judge_tasks or not tasks.validate:
        raise ValueError(
            f"environment {tasks.name}: with [judge] validate and judge_tasks are at least 1"
        )
    if tasks.evaluate:
        raise ValueError(
            f"environment {tasks.name}: evaluate is of recipes without [judge]; remove it, "
            "judge_tasks and judge_eval_tasks say what judges"
        )
    if tasks.train == tasks.evaluation:
        raise ValueError(
            f"environment {tasks.name}: evaluation is another split than train, for judge_tasks "
            "are of train's generator already"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended; the same is in `results.json`, `table.md` and `plot.png`."""

    rows: tuple[Row, ...]
    selected: Mapping[str, Mapping[str, int]]
    """Iteration -> environment -> episodes learned from, of all seeds."""
    checkpoints: tuple[Path, ...]
    """The agent that is the result of each seed."""
    rewards: Mapping[str, Sequence[float | None]]
    """Of the control grpo: seed -> the mean score of each step's episodes, from 0 to 1."""


def evolve(
    recipe: AgentEvolRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> Report:
    """Run a recipe to its end, or go on where it stopped; a finished one only reports again.

    Args:
        recipe: What to do.
        start: What to do with a run that is in the folder `recipe.out`.
        console: Gets progress and the table; None = stderr.

    Raises:
        TrainingError: The recipe asks for what cannot be, or a training failed.
        OrchestratorError: Episodes could not be played.
        AgentRuntimeError: The agent could not be started.
    """
    console = console or Console(stderr=True)
    run_dir = RunDir.open(
        recipe.out, to_plain(recipe), algorithm="agentevol", start=start, free=FREE_KEYS
    )
    with run_dir.logging():
        seeds = open_seeds(recipe, run_dir, console)
        for shared in dict.fromkeys(seed.shared for seed in seeds):
            _describe(shared.split, console)
            if not recipe.redraw:
                shared.prepare()
        if recipe.max_workers > 1:
            # The processes do the stages; the loop below finds them finished.
            work = [(recipe, seed) for seed in recipe.seeds]
            run_in_processes(
                evolve_seed, work, max_workers=recipe.max_workers, devices=seed_devices(recipe)
            )
        for seed in seeds:
            seed.run()
        return _conclude(seeds)


def open_seeds(recipe: AgentEvolRecipe, run_dir: RunDir, console: Console) -> list[SeedRun]:
    """Return the seeds of a run, which share their first stages unless each has a division."""
    if recipe.redraw:
        return [
            SeedRun(SharedStages(recipe, run_dir, console, seed=seed), seed)
            for seed in recipe.seeds
        ]
    shared = SharedStages(recipe, run_dir, console)
    return [SeedRun(shared, seed) for seed in recipe.seeds]


def plan(
    recipe: AgentEvolRecipe, *, start: Start = Start.NEW, console: Console | None = None
) -> dict[str, TaskSplit]:
    """Announce a run's tasks and the memory of its training; nothing is written.

    Args:
        recipe: What to plan.
        start: Ignored: a plan touches no folder.
        console: Gets the plan; None = stderr.

    Returns:
        The tasks of each environment by their use.
    """
    console = console or Console(stderr=True)
    console.print(describe_memory(recipe.cloning), highlight=False, markup=False)
    if recipe.judge:
        listed = list_tasks_with_contents(recipe.rollout, recipe.environments)
        split = divide(recipe, listed, seed=recipe.seeds[0] if recipe.redraw else 0)
    else:
        split = _split_tasks(recipe)
    _describe(split, console)
    if recipe.cloning.max_steps:
        console.print(_describe_work(recipe, split), highlight=False, markup=False)
    return split


def evolve_seed(recipe: AgentEvolRecipe, seed: int) -> None:
    """Run one seed of a run whose common stages are finished, in a process of its own."""
    # The program's other processes write to the same folder: the resume finds what they finished.
    run_dir = RunDir.open(
        recipe.out, to_plain(recipe), algorithm="agentevol", start=Start.RESUME, free=FREE_KEYS
    )
    configure_logging()
    with run_dir.logging(), bind_context(seed=seed):
        (own,) = open_seeds(replace(recipe, seeds=(seed,)), run_dir, Console(stderr=True))
        own.run()


def seed_devices(recipe: AgentEvolRecipe) -> list[str]:
    """Return the GPUs of each seed that runs at a time; none where seeds learn on the CPU.

    Raises:
        RecipeError: There are fewer GPUs than seeds at a time.
    """
    import torch

    cloning = recipe.cloning
    if cloning.device == "cpu" or not torch.cuda.is_available():
        return []
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    visible = named.split(",") if named else [str(n) for n in range(torch.cuda.device_count())]
    workers = min(recipe.max_workers, len(recipe.seeds))
    return share_devices(visible, workers, max(1, cloning.processes))


def _split_tasks(recipe: AgentEvolRecipe) -> dict[str, TaskSplit]:
    """Divide the tasks of each environment by their ids."""
    listed = list_tasks(recipe.rollout, recipe.environments)
    return {tasks.name: split_tasks(tasks, *listed[tasks.name]) for tasks in recipe.environments}


def divide(
    recipe: AgentEvolRecipe, listed: Mapping[str, ListedTasks], *, seed: int
) -> dict[str, TaskSplit]:
    """Divide the tasks of each environment by their contents."""
    return {
        tasks.name: divide_by_content(tasks, listed[tasks.name], seed=seed)
        for tasks in recipe.environments
    }


def _describe(split: Mapping[str, TaskSplit], console: Console) -> None:
    for name, tasks in split.items():
        sizes = ", ".join(f"{len(ids)} to {use}" for use, ids in tasks.to_plain().items() if ids)
        console.print(f"{name}: {sizes}", highlight=False, markup=False)


def _describe_work(recipe: AgentEvolRecipe, split: Mapping[str, TaskSplit]) -> str:
    """Say how many updates and episodes a run takes, and with `rates` how many hours."""
    work = count_work(recipe, split)
    told = ", ".join(f"{count:,} {what.replace('_', ' ')}s" for what, count in work.items())
    if recipe.rates is None:
        return f"{told}; with `rates` measured, hours would be told"
    seconds = sum(count * getattr(recipe.rates, what) for what, count in work.items())
    workers = min(recipe.max_workers, len(recipe.seeds))
    return (
        f"{told}: {seconds / 3600 / workers:.1f} hours by the recipe's rates, {workers} at a time"
    )


def count_work(recipe: AgentEvolRecipe, split: Mapping[str, TaskSplit]) -> dict[str, int]:
    """Return what a run takes, by the names of `Rates`; without judging and what DPO learns."""
    seeds = len(recipe.seeds)
    divisions = seeds if recipe.redraw else 1
    explorations = {
        (course.prefix(number, recipe.course), number): course
        for course in (recipe.course, *recipe.courses)
        for number in range(1, course.iterations + 1)
    }
    scripted = {"random-wins", "expert-explored"} & set(recipe.controls)
    trainings = 1 + recipe.large + len(explorations) + len(scripted)
    agents = trainings + len({"dpo", "grpo"} & set(recipe.controls))
    evaluated = sum(len(it.evaluate or it.validate) for it in split.values())
    explored = by_random = by_expert = shown = read = 0
    reinforced = recipe.grpo.episodes if recipe.grpo else 0
    for tasks in recipe.environments:
        it = split[tasks.name]
        size = len(it.explore)
        explored += size * sum(recipe.samples_of(tasks, it) for it in explorations.values())
        by_random += size * recipe.samples_of(tasks, recipe.course)
        by_expert += size
        shown += len(it.large if recipe.large else it.base)
        if recipe.pretraining:
            samples = tasks.pretrain_samples or recipe.pretraining.samples
            read += samples * len(it.pretrain or it.explore)
    epochs = recipe.pretraining.epochs if recipe.pretraining else 0
    untrained = UNTRAINED in recipe.baselines
    shared = shown + read + (len(recipe.baselines) - untrained) * evaluated
    controls = by_random * ("random-wins" in scripted) + by_expert * ("expert-explored" in scripted)
    return {
        "update": seeds * trainings * recipe.cloning.max_steps,
        "pretraining_update": divisions * epochs * read // (recipe.cloning.batch.sequences or 1),
        "episode": seeds * (explored + reinforced + agents * evaluated)
        + divisions * untrained * evaluated,
        "scripted_episode": divisions * shared + seeds * controls,
    }


class SharedStages:
    """What all seeds of a run have in common: tasks, expert episodes, base model, baselines.

    Where seeds redraw the division each has its own of these, in its folder.
    """

    def __init__(
        self,
        recipe: AgentEvolRecipe,
        run_dir: RunDir,
        console: Console,
        *,
        seed: int | None = None,
    ) -> None:
        """Divide the tasks, or read the run's division.

        Args:
            recipe: The run's.
            run_dir: Its folder.
            console: Gets progress.
            seed: Whose stages these are; None = those of all seeds.

        Raises:
            Contaminated: A content is in two parts of the division.
        """
        self.recipe = recipe
        self.run_dir = run_dir
        self.console = console
        self.seed = recipe.seeds[0] if seed is None else seed
        self._scope = "" if seed is None else f"seed-{seed}/"
        self.out = recipe.out if seed is None else recipe.out / f"seed-{seed}"
        self.contents: Mapping[str, Mapping[str, str]] = {}
        """Environment -> item id -> digest; empty where tasks are divided by id."""
        self.held_out = ""
        """File of the contents that nobody may learn from."""
        self.split = self._recorded_split()
        if recipe.judge:
            for name, split in self.split.items():
                require_disjoint(name, split, self.contents[name])
            path = self.out / "held-out-contents.json"
            held_out_contents(self.split, self.contents).write(path)
            self.held_out = str(path)

    def stage(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a stage once; its name is the seed's where the seed has stages of its own."""
        return self.run_dir.stage(self._scope + name, work)

    def prepare(self) -> None:
        """Do what comes before the first agent."""
        self.stage("expert", self.play_expert)
        if self.recipe.pretraining:
            self.pretrain(self.recipe.pretraining)
        for name in self.recipe.baselines:
            self.baseline(name)

    def _recorded_split(self) -> dict[str, TaskSplit]:
        """Return the run's division of tasks, made once: a resume keeps it."""
        listed = self._recorded_contents() if self.recipe.judge else {}
        self.contents = {name: tasks.contents for name, tasks in listed.items()}

        def split() -> dict[str, Any]:
            if self.recipe.judge:
                seed = self.seed if self._scope else 0
                divided = divide(self.recipe, listed, seed=seed)
            else:
                divided = _split_tasks(self.recipe)
            return {name: tasks.to_plain() for name, tasks in divided.items()}

        recorded = self.stage("tasks", split)
        return {name: TaskSplit.from_plain(ids) for name, ids in recorded.items()}

    def _recorded_contents(self) -> dict[str, ListedTasks]:
        """Return all tasks with their contents, asked of the environments once per run."""
        path = self.recipe.out / CONTENTS_FILE

        def ask() -> dict[str, Any]:
            listed = list_tasks_with_contents(self.recipe.rollout, self.recipe.environments)
            write_atomically(path, json.dumps({it: asdict(listed[it]) for it in listed}) + "\n")
            return {
                name: {"tasks": len(it.contents), "contents": len(set(it.contents.values()))}
                for name, it in listed.items()
            }

        self.run_dir.stage("contents", ask)
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            return {
                name: ListedTasks(tuple(it["train"]), tuple(it["evaluation"]), dict(it["contents"]))
                for name, it in plain.items()
            }
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointDamaged(f"{path} is damaged: {error!r}", field="out") from error

    @property
    def environments(self) -> tuple[ImitatedTasks, ...]:
        """Those of the recipe."""
        return self.recipe.environments

    def play_expert(self) -> dict[str, Any]:
        """Play the expert on the larger of the sets; selects what the reward confirms.

        Returns:
            Confirmed episodes by `ENVIRONMENT SIZE`.
        """
        items = {
            name: split.large if self.recipe.large else split.base
            for name, split in self.split.items()
        }
        runs = self.play(RolloutPolicy(policy="expert"), items, self.out / "expert")
        counts: dict[str, Any] = {}
        for run, tasks in zip(runs, self.environments, strict=True):
            selection = self.select(run, tasks)
            if not selection.selected:
                threshold = score_threshold(tasks.name, tasks.threshold)
                raise NothingToTrainOn(
                    f"no expert episode scored above {threshold}", field=f"{tasks.name}.threshold"
                )
            split = self.split[tasks.name]
            for size, ids in (("base", set(split.base)), ("large", set(split.large))):
                selected = [episode for episode in selection.selected if episode.item_id in ids]
                write_selection(self._expert_file(tasks.name, size), selected)
                counts[f"{tasks.name} {size}"] = len(selected)
        return counts

    def _expert_file(self, environment: str, size: str) -> Path:
        return self.out / "expert" / f"{environment}-{size}.jsonl"

    def expert_sources(self, size: Literal["base", "large"]) -> list[SourceConfig]:
        """Return the expert episodes of a set, as sources."""
        return [
            SourceConfig(
                path=str(self.out / "expert" / tasks.name),
                kind="run",
                selection=str(self._expert_file(tasks.name, size)),
            )
            for tasks in self.environments
        ]

    def count_expert_episodes(self, size: Literal["base", "large"]) -> int:
        """Return how many expert episodes a set has."""
        counts = self.stage("expert", self.play_expert)
        return sum(count for name, count in counts.items() if name.endswith(f" {size}"))

    def pretrain(self, pretraining: Pretraining) -> str:
        """Make the base model of all seeds: from scratch, then all tokens of a policy's episodes.

        Returns:
            The folder of the base model.
        """
        folder = self.out / "pretraining"

        def play_episodes() -> dict[str, Any]:
            items = {name: split.pretrain or split.explore for name, split in self.split.items()}
            samples = {tasks.name: tasks.pretrain_samples for tasks in self.environments}
            policy = RolloutPolicy(policy=pretraining.policy, samples=pretraining.samples)
            runs = self.play(policy, items, folder, samples)
            return {"episodes": [str(run.folder) for run in runs]}

        folders = self.stage("pretraining-episodes", play_episodes)["episodes"]
        sources = [SourceConfig(path=path, kind="run", targets="all") for path in folders]

        def learn() -> dict[str, Any]:
            config, seed = self.recipe.cloning, self.seed
            # The expert says words of its own and is a small part of what is learned from: its
            # episodes, and about as many of the others, teach the tokenizer.
            limited = [
                replace(source, limit=3 * tasks.base_tasks)
                for source, tasks in zip(sources, self.environments, strict=True)
            ]
            texts = [*self.expert_sources("base"), *limited]
            scratch = make_base(config, texts, folder / "scratch", seed=seed)
            config = replace(config, epochs=pretraining.epochs, max_steps=0, shares={})
            clone(
                config,
                sources,
                folder / "base",
                model=scratch,
                seed=seed,
                held_out=self.held_out,
                console=self.console,
            )
            return {"path": str(folder / "base" / "final")}

        return self.stage("pretraining", learn)["path"]

    def play(
        self,
        policy: RolloutPolicy,
        items: Mapping[str, Sequence[str]],
        folder: Path,
        samples: Mapping[str, int] | None = None,
    ) -> list[EvalRun]:
        """Play tasks of every environment, one run each.

        Args:
            policy: Who plays.
            items: Environment -> its tasks.
            folder: Gets a run folder per environment.
            samples: Environment -> episodes per task, where it is not the policy's number.
        """
        own = samples or {}
        jobs = [
            RolloutJob(tasks, items[tasks.name], folder / tasks.name, own.get(tasks.name, 0))
            for tasks in self.environments
        ]
        return play(self.recipe.rollout, policy, jobs, console=self.console)

    @property
    def use(self) -> Use:
        """What agents are evaluated on in the run itself."""
        return "validate" if self.recipe.judge else "evaluate"

    def evaluate(self, policy: RolloutPolicy, folder: Path, use: Use) -> dict[str, Any]:
        """Return metrics on the tasks set apart for a use, as JSON values by environment."""
        items = {
            name: split.evaluate if use == "evaluate" else split.validate
            for name, split in self.split.items()
        }
        metrics = {it.environment: read_metric(it) for it in self.play(policy, items, folder)}
        # A run may take days, and its table comes last.
        row = Row(str(folder.relative_to(self.recipe.out)), metrics)
        self.console.print(row.describe(), highlight=False, markup=False, soft_wrap=True)
        return {name: metric.to_plain() for name, metric in metrics.items()}

    def baseline(self, name: str) -> dict[str, Metric]:
        """Return the metrics of a baseline."""
        stage = f"baseline-{name}"
        policy = self.recipe.baseline_policy(name)
        play = partial(self.evaluate, policy, self.out / "evaluation" / stage, self.use)
        return metrics_from_plain(self.stage(stage, play))

    def select(self, run: EvalRun, tasks: ImitatedTasks, *, explored: bool = False) -> Selection:
        """Select what is learned from. The expert's episodes are filtered, never weighted."""
        with RunReader.open(run.folder) as reader:
            return select(
                reader.summaries(),
                threshold=score_threshold(tasks.name, tasks.threshold),
                weighted=explored and self.recipe.use == "weight",
                perfect=run.perfect,
                repeats=self.recipe.repeats,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One iteration of a course, and what it led to."""

    agent: Path
    metrics: Mapping[str, Metric]
    selected: Mapping[str, int]
    """Environment -> episodes selected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A row of the table, as one seed made it."""

    checkpoint: Path
    metrics: Mapping[str, Metric]
    """On what the run evaluates."""
    own: int
    """Episodes beside the expert's base set that it learned from."""


class SeedRun:
    """One seed of a run.

    The names of its stages are on disk, in the state of every run: they stay as they are.
    """

    def __init__(self, shared: SharedStages, seed: int) -> None:
        self.seed = seed
        self.shared = shared
        self.folder = shared.recipe.out / f"seed-{seed}"
        self.iterations: list[Iteration] = []
        """Of the main course."""
        self.best = 0
        """The iteration that is the result, from 1."""
        self.agents: dict[str, Agent] = {}
        """By the name of their row, in the order of the table."""
        self.rewards: list[float | None] = []
        """Of GRPO: the mean score of each step's episodes, from 0 to 1; None = it has none."""
        self._recipe = shared.recipe
        self._base_model = ""

    @property
    def checkpoint(self) -> Path:
        """The agent that is the result: the evolved one, or without iterations the last row's."""
        name = EVOLVED if self.iterations else list(self.agents)[-1]
        return self.agents[name].checkpoint

    def run(self) -> None:
        """Do all stages of this seed, in order."""
        recipe, shared = self._recipe, self.shared
        shared.prepare()
        expert = shared.expert_sources("base")
        self._base_model = self._stage("base-model", self._make_base)["path"]
        self.agents[BASE] = base = self._make("bc-base", expert)
        if recipe.large:
            self.agents[LARGE] = self._make("bc-large", shared.expert_sources("large"))
        if recipe.iterations:
            self.iterations = self._follow(recipe.course, base.checkpoint)
            self.best = self._choose()
            self.agents[EVOLVED] = _result(self.iterations[: self.best])
        for course in recipe.courses:
            # A course ends with its last iteration: choosing among its own would be one choice
            # more for some rows than for others.
            self.agents[course.name] = _result(self._follow(course, base.checkpoint))
        if "random-wins" in recipe.controls:
            self.agents[RANDOM_WINS] = self._learn_played("random-wins", "random", 0)
        if "expert-explored" in recipe.controls:
            self.agents[EXPERT_EXPLORED] = self._learn_played("expert-explored", "expert", 1)
        if "dpo" in recipe.controls:
            self.agents[PREFERRED] = self._prefer(base.checkpoint)
        if recipe.grpo:
            self.agents[REINFORCED] = self._reinforce(base.checkpoint, recipe.grpo)

    def _make_base(self) -> dict[str, Any]:
        """Make the model that every agent of this seed starts from."""
        if self._recipe.pretraining:
            return {"path": self.shared.pretrain(self._recipe.pretraining)}
        path = make_base(
            self._recipe.cloning,
            self.shared.expert_sources("base"),
            self.folder / "base",
            seed=self.seed,
        )
        return {"path": path}

    def _make(self, name: str, sources: Sequence[SourceConfig], own: int = 0) -> Agent:
        """Clone an agent and evaluate it."""
        checkpoint = self._learn(name, sources)
        return Agent(checkpoint=checkpoint, metrics=self._evaluate(name, checkpoint), own=own)

    def _learn(self, name: str, sources: Sequence[SourceConfig]) -> Path:
        """Clone an agent from the base model and these episodes; returns its checkpoint."""
        config = self._recipe.cloning

        def work() -> dict[str, Any]:
            report = clone(
                config,
                sources,
                self.folder / name,
                model=self._base_model,
                seed=self.seed,
                held_out=self.shared.held_out,
                console=self.shared.console,
            )
            if self._recipe.judge and report["steps"] < config.max_steps:
                raise TrainingError(
                    f"{name} made {report['steps']} updates of {config.max_steps}, others more: "
                    "raise it, so that max_steps ends every training",
                    field="cloning.epochs",
                )
            return report

        self._stage(f"learn-{name}", work)
        return self._checkpoint(name)

    def _follow(self, course: Course, agent: Path) -> list[Iteration]:
        """Explore and learn as a course says, from BC_base on."""
        expert = self.shared.expert_sources("base")
        sources, made = expert, list[Iteration]()
        for number in range(1, course.iterations + 1):
            prefix = course.prefix(number, self._recipe.course)
            explored = self._explore(prefix, number, agent, course)
            counts, selected = self._select(
                f"{prefix}{number}", f"{prefix}explore-{number}", explored
            )
            sources = [*(expert if course.merge == "initial" else sources), *selected]
            name = f"{prefix}iteration-{number}"
            agent = self._learn(name, sources)
            metrics = self._evaluate(name, agent)
            made.append(Iteration(agent=agent, metrics=metrics, selected=counts))
        return made

    def _explore(self, prefix: str, iteration: int, agent: Path, course: Course) -> list[EvalRun]:
        """Play the agent on every environment's tasks."""
        samples = {
            tasks.name: self._recipe.samples_of(tasks, course) for tasks in self.shared.environments
        }
        policy = RolloutPolicy(
            policy=str(agent),
            temperature=self._recipe.temperature,
            seed=1000 * self.seed + iteration,
        )
        return self._play(
            f"explore-{prefix}{iteration}", f"{prefix}explore-{iteration}", policy, samples
        )

    def _play(
        self, stage: str, name: str, policy: RolloutPolicy, samples: Mapping[str, int]
    ) -> list[EvalRun]:
        """Play what is explored, into a folder of the seed."""

        def work() -> dict[str, Any]:
            items = {name: split.explore for name, split in self.shared.split.items()}
            runs = self.shared.play(policy, items, self.folder / name, samples)
            return {"played": [{**asdict(run), "folder": str(run.folder)} for run in runs]}

        return [
            EvalRun(
                folder=Path(run["folder"]),
                environment=run["environment"],
                by_score=run["by_score"],
                perfect=run["perfect"],
            )
            for run in self._stage(stage, work)["played"]
        ]

    def _select(
        self, stage: str, name: str, explored: Sequence[EvalRun]
    ) -> tuple[dict[str, int], list[SourceConfig]]:
        """Select what earned reward; returns how many by environment, and them as sources."""
        folder = self.folder / name

        def work() -> dict[str, Any]:
            counts: dict[str, Any] = {}
            for run, tasks in zip(explored, self.shared.environments, strict=True):
                selection = self.shared.select(run, tasks, explored=True)
                write_selection(folder / f"{tasks.name}-kept.jsonl", selection.selected)
                counts[tasks.name] = {
                    "kept": len(selection.selected),
                    "confirmed": selection.confirmed,
                    "episodes": selection.episodes,
                }
            return counts

        counts = self._stage(f"select-{stage}", work)
        kept = {name: int(count["kept"]) for name, count in counts.items()}
        sources = [
            SourceConfig(
                path=str(folder / name),
                kind="run",
                selection=str(folder / f"{name}-kept.jsonl"),
            )
            for name, count in kept.items()
            if count
        ]
        return kept, sources

    def _learn_played(self, name: str, policy: str, samples: int) -> Agent:
        """Clone what a scripted policy wins of the explored tasks, beside the expert's base set.

        `samples` are its episodes per task; 0 = as many as are explored in an iteration.
        """
        counts = {
            tasks.name: samples or tasks.samples or self._recipe.samples
            for tasks in self.shared.environments
        }
        player = RolloutPolicy(policy=policy, seed=1000 * self.seed)
        played = self._play(f"play-{name}", f"{name}-episodes", player, counts)
        kept, sources = self._select(name, f"{name}-episodes", played)
        return self._make(name, [*self.shared.expert_sources("base"), *sources], sum(kept.values()))

    def _prefer(self, base: Path) -> Agent:
        """Teach BC_base what of the first iteration's episodes and the expert's was better."""
        course = self._recipe.course
        explored = self._explore("", 1, base, course)
        episodes = [SourceConfig(path=str(run.folder), kind="run") for run in explored]
        sources = [*self.shared.expert_sources("base"), *episodes]
        scales = {run.environment: run.perfect for run in explored}

        def work() -> dict[str, Any]:
            return prefer(
                self._recipe.cloning,
                self._recipe.dpo or Preferring(),
                sources,
                self.folder / "dpo",
                model=str(base),
                reward_scale=scales,
                seed=self.seed,
                held_out=self.shared.held_out,
                console=self.shared.console,
            )

        pairs = int(self._stage("learn-dpo", work)["pairs"])
        agent = self._checkpoint("dpo")
        return Agent(checkpoint=agent, metrics=self._evaluate("dpo", agent), own=pairs)

    def _reinforce(self, base: Path, how: Reinforcing) -> Agent:
        """Let BC_base go on by GRPO on the tasks that are explored."""
        shared, config = self.shared, self._recipe.cloning
        items = {name: split.explore for name, split in shared.split.items()}

        def work() -> dict[str, Any]:
            return reinforce(
                how,
                shared.environments,
                items,
                self.folder / "grpo",
                model=replace(config.model, path=str(base), init=None),
                rollout=self._recipe.rollout,
                device=config.device,
                tracking=config.tracking,
                seed=self.seed,
                console=shared.console,
            )

        learned = self._stage("learn-grpo", work)
        self.rewards = list(learned["rewards"])
        agent = self._checkpoint("grpo")
        metrics = self._evaluate("grpo", agent)
        return Agent(checkpoint=agent, metrics=metrics, own=int(learned["episodes"]))

    def _evaluate(self, name: str, agent: Path) -> dict[str, Metric]:
        """Evaluate an agent on what the run evaluates on."""
        return self._evaluate_on(self.shared.use, name, agent)

    def _evaluate_on(self, use: Use, name: str, agent: Path) -> dict[str, Metric]:
        stage, folder = ("validate", "validation") if use == "validate" else ("judge", "evaluation")
        policy = RolloutPolicy(policy=str(agent), seed=self.seed)
        play = partial(self.shared.evaluate, policy, self.folder / folder / name, use)
        return metrics_from_plain(self._stage(f"{stage}-{name}", play))

    def _choose(self) -> int:
        """Return the iteration that is the result, from 1."""
        if self._recipe.choose == "last":
            return self._recipe.iterations
        means = [
            Row(name, self._evaluate_on("validate", name, it.agent)).mean or 0.0
            for name, it in ((f"iteration-{n}", it) for n, it in enumerate(self.iterations, 1))
        ]
        return means.index(max(means)) + 1

    def _stage(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return self.shared.run_dir.stage(f"seed-{self.seed}/{name}", work)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / name / "final"


def _result(iterations: Sequence[Iteration]) -> Agent:
    """Return the agent of the last of a course's iterations."""
    last = iterations[-1]
    return Agent(checkpoint=last.agent, metrics=last.metrics, own=sum(last.selected.values()))


def _pool_seeds(seeds: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    return {name: pool([metrics[name] for metrics in seeds]) for name in seeds[0]}


def row_notes(seeds: Sequence[SeedRun]) -> dict[str, str]:
    """Return what each row learned from, in words."""
    shared = seeds[0].shared
    count = shared.count_expert_episodes("base")
    notes = {BASE: f"{count} expert episodes"}
    if shared.recipe.large:
        notes[LARGE] = f"{shared.count_expert_episodes('large')} expert episodes"
    for name in seeds[0].agents:
        own = sum(seed.agents[name].own for seed in seeds) / len(seeds)
        kind = {RANDOM_WINS: "a random player's", EXPERT_EXPLORED: "explored by the expert"}
        if name == PREFERRED:
            notes[name] = f"{count} expert episodes, then {own:.0f} pairs"
        elif name == REINFORCED:
            notes[name] = f"{count} expert episodes, then {own:,.0f} own ones by GRPO"
        elif name not in notes:
            notes[name] = f"{count} expert + {own:.0f} {kind.get(name, 'own')} episodes"
    return notes


def _conclude(seeds: Sequence[SeedRun]) -> Report:
    """Make one table and one plot of all seeds."""
    shared, recipe = seeds[0].shared, seeds[0].shared.recipe
    names = [tasks.name for tasks in shared.environments]
    notes = row_notes(seeds)
    divisions = list(dict.fromkeys(seed.shared for seed in seeds))
    rows = [
        Row(policy, _pool_seeds([division.baseline(policy) for division in divisions]))
        for policy in recipe.baselines
    ]
    rows += [
        Row(name, _pool_seeds([seed.agents[name].metrics for seed in seeds]), notes[name])
        for name in seeds[0].agents
    ]
    selected = {
        str(number + 1): {
            name: sum(seed.iterations[number].selected[name] for seed in seeds) for name in names
        }
        for number in range(recipe.iterations)
    }
    rewards = {f"seed {seed.seed}": tuple(seed.rewards) for seed in seeds if seed.rewards}
    report = Report(tuple(rows), selected, tuple(seed.checkpoint for seed in seeds), rewards)
    by_iteration = [
        _pool_seeds([seed.iterations[number].metrics for seed in seeds])
        for number in range(recipe.iterations)
    ]
    figures = {row.name: row.metrics for row in rows}
    _write_report(shared, report, [figures[BASE], *by_iteration], figures.get(LARGE, {}), names)
    return report


def _write_report(
    shared: SharedStages,
    report: Report,
    iterations: Sequence[Mapping[str, Metric]],
    large: Mapping[str, Metric],
    names: Sequence[str],
) -> None:
    out, console = shared.recipe.out, shared.console
    results = {
        "evaluated_on": "develop tasks" if shared.recipe.judge else "held-out tasks",
        "rows": {
            row.name: {
                "mean": row.mean,
                "note": row.note,
                "figures": {name: metric.to_plain() for name, metric in row.metrics.items()},
            }
            for row in report.rows
        },
        "iterations": [{name: metrics[name].mean for name in names} for metrics in iterations],
        "kept": report.selected,
        "checkpoints": [str(checkpoint) for checkpoint in report.checkpoints],
        **({"grpo_rewards": report.rewards} if report.rewards else {}),
    }
    write_atomically(out / RESULTS_FILE, json.dumps(results, indent=1) + "\n")
    write_atomically(out / "table.md", as_markdown(report.rows, names))
    console.print(as_table(report.rows, names, title=f"{results['evaluated_on']}, {out}"))
    for iteration, counts in report.selected.items():
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        console.print(f"kept in iteration {iteration}: {listed}", highlight=False)
    try:
        draw(out / "plot.png", iterations, large, names)
        if report.rewards:
            draw_rewards(out / "grpo.png", report.rewards)
    except ExtraMissing as error:
        console.print(f"no plot: {error}", highlight=False, markup=False)
    console.print(f"results: {out / 'table.md'}", highlight=False)
    if shared.recipe.judge:
        console.print("now freeze the recipe, and: python -m training.judge", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_recipe(AgentEvolRecipe, evolve, plan, argv, program="python -m training.agentevol")


if __name__ == "__main__":
    sys.exit(main())
