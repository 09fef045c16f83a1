"""`python -m training.agentevol recipe.toml`: an agent that evolves by exploring all environments.

Reads top to bottom. Behavioural cloning of a few expert episodes gives a base agent. Then, M times:
the current agent **explores** every environment's tasks, which are many more than those it has
cloned; what earned reward is **kept** (or every episode is weighted by its reward, as in the
objective of the paper); and the agent **learns**, each time anew from the base model, from the
expert episodes together with what was kept. After each iteration it is evaluated on held-out tasks.
Beside it, BC_base and BC_large are what cloning alone reaches with little and with much expert
data. Every stage is done once, whatever ends the process in between (`training.runs.run_dir`).

`training.rollouts` plays and `training.cloning` learns.
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
from training.cloning import Cloning, clone, describe_memory, make_base
from training.config.cli import run_recipe
from training.config.start import Start
from training.data.selection import Repeats, Selection, score_threshold, select, write_selection
from training.data.sources import SourceConfig
from training.errors import NothingToTrainOn
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
    metrics_from_plain,
    pool,
    read_metric,
)
from training.rollouts.tasks import ImitatedTasks, TaskSplit, split_tasks
from training.runs.parallel import run_in_processes, share_devices
from training.runs.run_dir import RunDir

__all__ = ["AgentEvolRecipe", "Report", "evolve", "main", "plan"]

BASE: Final = "BC_base"
LARGE: Final = "BC_large"
EVOLVED: Final = "AgentEvol"
_FREE: Final = (
    "iterations",
    "seeds",
    "max_workers",
    "rollout.client",
    "rollout.fleet.wait_for_servers",
)
"""What a resume may change: it may ask for more and reach servers otherwise; what is finished stays
as it is."""


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
    """M: rounds of exploring and learning."""
    samples: int = 1
    """K: explored episodes per task, where its environment names no other number."""
    temperature: float = 1.0
    """Of exploration; evaluation is greedy."""
    use: Literal["filter", "weight"] = "filter"
    """Keep what is above its environment's threshold, or weight everything by its reward."""
    merge: Literal["initial", "previous"] = "initial"
    """What is added to an iteration's episodes: the expert's, or all that the iteration before
    learned from."""
    repeats: Repeats = "first"
    """Which of several kept episodes of one task are learned from."""
    choose: Literal["last", "validation"] = "last"
    """Which iteration is the result: the last, or the best on the tasks set apart (`validate`)."""
    large: bool = True
    """Also clone the large expert set, to compare."""
    baselines: tuple[str, ...] = ("random",)
    """Scripted policies to evaluate beside the agents."""
    seeds: tuple[int, ...] = (0,)
    """The whole run once per seed; the table pools them."""
    max_workers: int = 1
    """Seeds that run at a time, each in a process and on GPUs of its own; set OMP_NUM_THREADS
    accordingly."""

    def __post_init__(self) -> None:
        if min(self.iterations, self.samples, self.max_workers) < 1 or self.temperature < 0:
            raise ValueError(
                "iterations, samples and max_workers are at least 1, temperature at least 0"
            )
        names = [tasks.name for tasks in self.environments]
        if not names or len(set(names)) != len(names):
            raise ValueError("environments are at least one, none of them twice")
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ValueError("seeds are at least one, none of them twice")
        if self.pretraining and self.cloning.model.init is None:
            raise ValueError("pretraining is for a model from scratch: set cloning.model.init")
        for tasks in self.environments:
            self._check_tasks(tasks)

    def _check_tasks(self, tasks: ImitatedTasks) -> None:
        if not tasks.base_tasks:
            raise ValueError(f"environment {tasks.name}: base_tasks is at least 1")
        if self.large and not tasks.large_tasks:
            raise ValueError(
                f"environment {tasks.name}: large_tasks is at least base_tasks, or large = false"
            )
        if self.choose == "validation" and not tasks.validate:
            raise ValueError(f"environment {tasks.name}: choosing by validation needs validate")


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended; the same is in `results.json`, `table.md` and `plot.png`."""

    rows: tuple[Row, ...]
    selected: Mapping[str, Mapping[str, int]]
    """Iteration -> environment -> episodes learned from, of all seeds."""
    checkpoints: tuple[Path, ...]
    """The agent that is the result of each seed."""


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
        recipe.out, to_plain(recipe), algorithm="agentevol", start=start, free=_FREE
    )
    with run_dir.logging():
        shared = _SharedStages(recipe, run_dir, console)
        _describe(shared.split, console)
        run_dir.stage("expert", shared.play_expert)
        if recipe.pretraining:
            shared.pretrain(recipe.pretraining)
        if recipe.max_workers > 1:
            # The processes do the stages; the loop below finds them finished.
            work = [(recipe, seed) for seed in recipe.seeds]
            run_in_processes(
                evolve_seed, work, max_workers=recipe.max_workers, devices=_devices(recipe)
            )
        seeds = [_SeedRun(shared, seed) for seed in recipe.seeds]
        for seed in seeds:
            seed.run()
        return _conclude(shared, seeds)


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
    split = _split_tasks(recipe)
    _describe(split, console)
    return split


def evolve_seed(recipe: AgentEvolRecipe, seed: int) -> None:
    """Run one seed of a run whose common stages are finished, in a process of its own."""
    # The program's other processes write to the same folder: the resume finds what they finished.
    run_dir = RunDir.open(
        recipe.out, to_plain(recipe), algorithm="agentevol", start=Start.RESUME, free=_FREE
    )
    configure_logging()
    with run_dir.logging(), bind_context(seed=seed):
        _SeedRun(_SharedStages(recipe, run_dir, Console(stderr=True)), seed).run()


def _devices(recipe: AgentEvolRecipe) -> list[str]:
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
    """Divide the tasks of each environment by what they are used for."""
    listed = list_tasks(recipe.rollout, recipe.environments)
    return {tasks.name: split_tasks(tasks, *listed[tasks.name]) for tasks in recipe.environments}


def _describe(split: Mapping[str, TaskSplit], console: Console) -> None:
    for name, tasks in split.items():
        sizes = ", ".join(f"{len(ids)} to {use}" for use, ids in tasks.to_plain().items() if ids)
        console.print(f"{name}: {sizes}", highlight=False, markup=False)


class _SharedStages:
    """What all seeds of a run have in common: tasks, expert episodes, baselines."""

    def __init__(self, recipe: AgentEvolRecipe, run_dir: RunDir, console: Console) -> None:
        self.recipe = recipe
        self.run_dir = run_dir
        self.console = console
        self.out = recipe.out
        self.split = self._recorded_split()

    def _recorded_split(self) -> dict[str, TaskSplit]:
        """Return the run's division of tasks, made once: a resume keeps it."""

        def split() -> dict[str, Any]:
            return {name: tasks.to_plain() for name, tasks in _split_tasks(self.recipe).items()}

        recorded = self.run_dir.stage("tasks", split)
        return {name: TaskSplit.from_plain(ids) for name, ids in recorded.items()}

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
        counts = self.run_dir.stage("expert", self.play_expert)
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

        folders = self.run_dir.stage("pretraining-episodes", play_episodes)["episodes"]
        sources = [SourceConfig(path=path, kind="run", targets="all") for path in folders]

        def learn() -> dict[str, Any]:
            config, seed = self.recipe.cloning, self.recipe.seeds[0]
            # The expert says words of its own and is a small part of what is learned from: its
            # episodes, and about as many of the others, teach the tokenizer.
            limited = [
                replace(source, limit=3 * tasks.base_tasks)
                for source, tasks in zip(sources, self.environments, strict=True)
            ]
            texts = [*self.expert_sources("base"), *limited]
            scratch = make_base(config, texts, folder / "scratch", seed=seed)
            config = replace(config, epochs=pretraining.epochs, max_steps=0)
            clone(config, sources, folder / "base", model=scratch, seed=seed, console=self.console)
            return {"path": str(folder / "base" / "final")}

        return self.run_dir.stage("pretraining", learn)["path"]

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

    def evaluate(
        self, policy: RolloutPolicy, folder: Path, use: Literal["evaluate", "validate"] = "evaluate"
    ) -> dict[str, Any]:
        """Return metrics on the tasks set apart for a use, as JSON values by environment."""
        items = {
            name: split.evaluate if use == "evaluate" else split.validate
            for name, split in self.split.items()
        }
        runs = self.play(policy, items, folder)
        return {run.environment: read_metric(run).to_plain() for run in runs}

    def baseline(self, policy: str) -> dict[str, Metric]:
        """Return the metrics of a scripted policy."""
        name = f"baseline-{policy}"
        folder = self.out / "evaluation" / name

        def work() -> dict[str, Any]:
            return self.evaluate(RolloutPolicy(policy=policy), folder)

        return metrics_from_plain(self.run_dir.stage(name, work))

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


class _SeedRun:
    """One seed of a run.

    The names of its stages are on disk, in the state of every run: they stay as they are.
    """

    def __init__(self, shared: _SharedStages, seed: int) -> None:
        self.seed = seed
        self.folder = shared.out / f"seed-{seed}"
        self.base_metrics: dict[str, Metric] = {}
        self.large_metrics: dict[str, Metric] = {}
        self.iteration_metrics: list[dict[str, Metric]] = []
        """Metrics after each iteration."""
        self.selected: list[dict[str, int]] = []
        """Episodes selected in each iteration, by environment."""
        self.best = 0
        """The iteration that is the result, from 1."""
        self._shared = shared
        self._recipe = shared.recipe
        self._base_model = ""

    @property
    def checkpoint(self) -> Path:
        """The agent that is the result."""
        return self._checkpoint(f"iteration-{self.best}")

    def run(self) -> None:
        """Do all stages of this seed, in order."""
        expert = self._shared.expert_sources("base")
        self._base_model = self._stage("base-model", self._make_base)["path"]

        agent = self._learn("bc-base", expert)
        self.base_metrics = self._evaluate("bc-base", agent)
        if self._recipe.large:
            large = self._learn("bc-large", self._shared.expert_sources("large"))
            self.large_metrics = self._evaluate("bc-large", large)

        sources = expert
        for iteration in range(1, self._recipe.iterations + 1):
            explored = self._explore(iteration, agent)
            selected = self._select(iteration, explored)
            sources = [*(expert if self._recipe.merge == "initial" else sources), *selected]
            agent = self._learn(f"iteration-{iteration}", sources)
            self.iteration_metrics.append(self._evaluate(f"iteration-{iteration}", agent))
        self.best = self._choose()

    def _make_base(self) -> dict[str, Any]:
        """Make the model that every agent of this seed starts from."""
        if self._recipe.pretraining:
            return {"path": self._shared.pretrain(self._recipe.pretraining)}
        path = make_base(
            self._recipe.cloning,
            self._shared.expert_sources("base"),
            self.folder / "base",
            seed=self.seed,
        )
        return {"path": path}

    def _learn(self, name: str, sources: Sequence[SourceConfig]) -> Path:
        """Clone an agent from the base model and these episodes; returns its checkpoint."""

        def work() -> dict[str, Any]:
            return clone(
                self._recipe.cloning,
                sources,
                self.folder / name,
                model=self._base_model,
                seed=self.seed,
                console=self._shared.console,
            )

        self._stage(f"learn-{name}", work)
        return self._checkpoint(name)

    def _explore(self, iteration: int, agent: Path) -> list[EvalRun]:
        """Play the agent on every environment's tasks."""

        def work() -> dict[str, Any]:
            policy = RolloutPolicy(
                policy=str(agent),
                temperature=self._recipe.temperature,
                samples=self._recipe.samples,
                seed=1000 * self.seed + iteration,
            )
            items = {name: split.explore for name, split in self._shared.split.items()}
            samples = {tasks.name: tasks.samples for tasks in self._shared.environments}
            runs = self._shared.play(policy, items, self._exploration(iteration), samples)
            return {"played": [{**asdict(run), "folder": str(run.folder)} for run in runs]}

        runs = self._stage(f"explore-{iteration}", work)["played"]
        return [
            EvalRun(
                folder=Path(run["folder"]),
                environment=run["environment"],
                by_score=run["by_score"],
                perfect=run["perfect"],
            )
            for run in runs
        ]

    def _select(self, iteration: int, explored: Sequence[EvalRun]) -> list[SourceConfig]:
        """Select what earned reward; returns it as sources."""

        def work() -> dict[str, Any]:
            counts: dict[str, Any] = {}
            for run, tasks in zip(explored, self._shared.environments, strict=True):
                selection = self._shared.select(run, tasks, explored=True)
                write_selection(self._selection_file(iteration, tasks.name), selection.selected)
                counts[tasks.name] = {
                    "kept": len(selection.selected),
                    "confirmed": selection.confirmed,
                    "episodes": selection.episodes,
                }
            return counts

        counts = self._stage(f"select-{iteration}", work)
        self.selected.append({name: int(count["kept"]) for name, count in counts.items()})
        return [
            SourceConfig(
                path=str(self._exploration(iteration) / name),
                kind="run",
                selection=str(self._selection_file(iteration, name)),
            )
            for name, count in self.selected[-1].items()
            if count
        ]

    def _evaluate(self, name: str, agent: Path) -> dict[str, Metric]:
        policy = RolloutPolicy(policy=str(agent), seed=self.seed)
        folder = self.folder / "evaluation" / name
        stage = self._stage(f"judge-{name}", lambda: self._shared.evaluate(policy, folder))
        return metrics_from_plain(stage)

    def _choose(self) -> int:
        """Return the iteration that is the result, from 1."""
        if self._recipe.choose == "last":
            return self._recipe.iterations
        means: list[float] = []
        for iteration in range(1, self._recipe.iterations + 1):
            name = f"iteration-{iteration}"
            policy = RolloutPolicy(policy=str(self._checkpoint(name)), seed=self.seed)
            folder = self.folder / "validation" / name
            validate = partial(self._shared.evaluate, policy, folder, "validate")
            metrics = metrics_from_plain(self._stage(f"validate-{name}", validate))
            means.append(Row(name, metrics).mean or 0.0)
        return means.index(max(means)) + 1

    def _stage(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return self._shared.run_dir.stage(f"seed-{self.seed}/{name}", work)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / name / "final"

    def _exploration(self, iteration: int) -> Path:
        return self.folder / f"explore-{iteration}"

    def _selection_file(self, iteration: int, environment: str) -> Path:
        return self._exploration(iteration) / f"{environment}-kept.jsonl"


def _pool_seeds(seeds: Sequence[Mapping[str, Metric]]) -> dict[str, Metric]:
    return {name: pool([metrics[name] for metrics in seeds]) for name in seeds[0]}


def _conclude(shared: _SharedStages, seeds: Sequence[_SeedRun]) -> Report:
    """Make one table and one plot of all seeds."""
    recipe = shared.recipe
    names = [tasks.name for tasks in shared.environments]
    base = _pool_seeds([seed.base_metrics for seed in seeds])
    large = _pool_seeds([seed.large_metrics for seed in seeds]) if recipe.large else {}
    by_iteration = zip(*(seed.iteration_metrics for seed in seeds), strict=True)
    iterations = [_pool_seeds(metrics) for metrics in by_iteration]
    evolved = _pool_seeds([seed.iteration_metrics[seed.best - 1] for seed in seeds])
    count = shared.count_expert_episodes("base")
    rows = [Row(policy, shared.baseline(policy)) for policy in recipe.baselines]
    rows.append(Row(BASE, base, f"{count} expert episodes"))
    if recipe.large:
        rows.append(Row(LARGE, large, f"{shared.count_expert_episodes('large')} expert episodes"))
    selected = {
        str(iteration + 1): {
            name: sum(seed.selected[iteration][name] for seed in seeds) for name in names
        }
        for iteration in range(recipe.iterations)
    }
    own = sum(sum(seed.selected[seed.best - 1].values()) for seed in seeds) / len(seeds)
    rows.append(Row(EVOLVED, evolved, f"{count} expert + {own:.0f} own episodes"))
    report = Report(tuple(rows), selected, tuple(seed.checkpoint for seed in seeds))
    _write_report(shared, report, [base, *iterations], large, names)
    return report


def _write_report(
    shared: _SharedStages,
    report: Report,
    iterations: Sequence[Mapping[str, Metric]],
    large: Mapping[str, Metric],
    names: Sequence[str],
) -> None:
    out, console = shared.out, shared.console
    results = {
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
    }
    write_atomically(out / RESULTS_FILE, json.dumps(results, indent=1) + "\n")
    write_atomically(out / "table.md", as_markdown(report.rows, names))
    console.print(as_table(report.rows, names, title=f"held-out tasks, {out}"))
    for iteration, counts in report.selected.items():
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        console.print(f"kept in iteration {iteration}: {listed}", highlight=False)
    try:
        draw(out / "plot.png", iterations, large, names)
    except ExtraMissing as error:
        console.print(f"no plot: {error}", highlight=False, markup=False)
    console.print(f"results: {out / 'table.md'}", highlight=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_recipe(AgentEvolRecipe, evolve, plan, argv, program="python -m training.agentevol")


if __name__ == "__main__":
    sys.exit(main())
