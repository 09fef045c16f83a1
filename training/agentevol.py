# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""`python -m training.agentevol recipe.toml`: an agent that evolves by exploring all environments.

Reads top to bottom. Behavioural cloning of a few expert episodes gives a base agent. Then, M times:
the current agent **explores** every environment's tasks, which are many more than those it has
cloned; what earned reward is **kept** (or every episode is weighted by its reward, as in the
objective of the paper); and the agent **learns**, each time anew from the base model, from the
expert episodes together with what was kept. After each iteration it is judged on held-out tasks.
Beside it, BC_base and BC_large are what cloning alone reaches with little and with much expert
data. Every stage is done once, whatever ends the process in between (`training.runs.run_dir`).

Source: AgentGym, https://arxiv.org/abs/2406.04151, section 4 (the algorithm), table 3, figure 3.

Knows no environment and no engine: `training.rollouts` plays, `training.cloning` learns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from rich.console import Console

from agent_runtime.logs import bind_context, configure_logging
from orchestrator.atomic_file import write_atomically
from orchestrator.configuration import to_plain
from orchestrator.errors import ExtraMissing
from orchestrator.store import RunReader
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
    Figure,
    Row,
    as_markdown,
    as_table,
    draw,
    metrics_from_plain,
    pool,
    read_metric,
)
from training.rollouts.tasks import ImitatedTasks, TaskSplit, split_tasks
from training.runs.parallel import run_in_processes
from training.runs.run_dir import RunDir

__all__ = ["AgentEvolRecipe", "Report", "evolve", "main", "plan"]

BASE: Final = "BC_base"
LARGE: Final = "BC_large"
EVOLVED: Final = "AgentEvol"
_FREE: Final = ("iterations", "seeds", "max_workers", "rollout.client")
"""What a resume may change: it may ask for more and reach servers otherwise; what is finished stays
as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretraining:
    """What a base model from scratch reads before anybody shows it anything: episodes of a scripted
    player, every token of them. Their rewards are not looked at.
    """

    policy: str = "random"
    samples: int = 1
    """Episodes per task, where its environment names no `readings`."""
    epochs: int = 4

    def __post_init__(self) -> None:
        if self.samples < 1 or self.epochs < 1:
            raise ValueError("samples and epochs are at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvolRecipe:
    """One run of AgentEvol."""

    out: Path
    environments: tuple[ImitatedTasks, ...]
    """What is imitated, explored and judged, environment by environment."""
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
    """Of exploration; judging is greedy."""
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
    """Seeds that run at a time, each in a process of its own; set OMP_NUM_THREADS accordingly."""

    def __post_init__(self) -> None:
        if min(self.iterations, self.samples, self.max_workers) < 1 or self.temperature < 0:
            raise ValueError(
                "iterations, samples and max_workers are at least 1, temperature at least 0"
            )
        names = [it.name for it in self.environments]
        if not names or len(set(names)) != len(names):
            raise ValueError("environments are at least one, none of them twice")
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise ValueError("seeds are at least one, none of them twice")
        if self.pretraining and self.cloning.model.init is None:
            raise ValueError("pretraining is for a model from scratch: set cloning.model.init")
        for it in self.environments:
            if not it.base_tasks:
                raise ValueError(f"environment {it.name}: base_tasks is at least 1")
            if self.large and not it.large_tasks:
                raise ValueError(
                    f"environment {it.name}: large_tasks is at least base_tasks, or large = false"
                )
            if self.choose == "validation" and not it.validate:
                raise ValueError(f"environment {it.name}: choosing by validation needs validate")


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended; the same is in `results.json`, `table.md` and `plot.png`."""

    rows: tuple[Row, ...]
    kept: Mapping[str, Mapping[str, int]]
    """Iteration -> environment -> episodes kept, of all seeds."""
    checkpoints: tuple[Path, ...]
    """The chosen agent of each seed."""


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
        shared = _Shared(recipe, run_dir, console)
        _describe(shared.split, console)
        run_dir.stage("expert", shared.play_expert)
        if recipe.pretraining:
            shared.pretrain(recipe.pretraining)
        if recipe.max_workers > 1:
            # What they did is found finished below.
            seeds = [(recipe, seed) for seed in recipe.seeds]
            run_in_processes(evolve_seed, seeds, max_workers=recipe.max_workers)
        evolutions = [_Evolution(shared, seed) for seed in recipe.seeds]
        for evolution in evolutions:
            evolution.run()
        return _conclude(shared, evolutions)


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
        _Evolution(_Shared(recipe, run_dir, Console(stderr=True)), seed).run()


def _split_tasks(recipe: AgentEvolRecipe) -> dict[str, TaskSplit]:
    """Divide the tasks of each environment by what they are used for."""
    listed = list_tasks(recipe.rollout, recipe.environments)
    return {tasks.name: split_tasks(tasks, *listed[tasks.name]) for tasks in recipe.environments}


def _describe(split: Mapping[str, TaskSplit], console: Console) -> None:
    for name, tasks in split.items():
        sizes = ", ".join(f"{len(ids)} to {use}" for use, ids in tasks.to_plain().items() if ids)
        console.print(f"{name}: {sizes}", highlight=False, markup=False)


class _Shared:
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
            split = _split_tasks(self.recipe)
            return {name: tasks.to_plain() for name, tasks in split.items()}

        recorded = self.run_dir.stage("tasks", split)
        return {name: TaskSplit.from_plain(ids) for name, ids in recorded.items()}

    @property
    def environments(self) -> tuple[ImitatedTasks, ...]:
        """Those of the recipe."""
        return self.recipe.environments

    def play_expert(self) -> dict[str, Any]:
        """The expert on the larger of the imitated sets; kept is what the reward confirms."""
        agent = RolloutPolicy(policy="expert")
        chosen = {
            name: it.large if self.recipe.large else it.base for name, it in self.split.items()
        }
        played = self.play(agent, chosen, self.out / "expert")
        counts: dict[str, Any] = {}
        for run, wanted in zip(played, self.environments, strict=True):
            selection = self.select(run, wanted)
            if not selection.kept:
                threshold = score_threshold(wanted.name, wanted.threshold)
                raise NothingToTrainOn(
                    f"no expert episode scored above {threshold}",
                    field=f"{wanted.name}.threshold",
                )
            division = self.split[wanted.name]
            for size, items in (("base", set(division.base)), ("large", set(division.large))):
                kept = [it for it in selection.kept if it.item_id in items]
                write_selection(self._expert_file(wanted.name, size), kept)
                counts[f"{wanted.name} {size}"] = len(kept)
        return counts

    def _expert_file(self, environment: str, size: str) -> Path:
        return self.out / "expert" / f"{environment}-{size}.jsonl"

    def imitated(self, size: Literal["base", "large"]) -> list[SourceConfig]:
        """The expert episodes of a set, as sources."""
        return [
            SourceConfig(
                path=str(self.out / "expert" / it.name),
                kind="run",
                selection=str(self._expert_file(it.name, size)),
            )
            for it in self.environments
        ]

    def pretrain(self, pretraining: Pretraining) -> str:
        """The base model of all seeds: from scratch, then all tokens of the player's episodes."""
        folder = self.out / "pretraining"

        def play_it() -> dict[str, Any]:
            chosen = {name: it.pretrain or it.explore for name, it in self.split.items()}
            samples = {it.name: it.pretrain_samples for it in self.environments}
            player = RolloutPolicy(policy=pretraining.policy, samples=pretraining.samples)
            played = self.play(player, chosen, folder, samples)
            return {"episodes": [str(it.folder) for it in played]}

        episodes = self.run_dir.stage("pretraining-episodes", play_it)["episodes"]
        read = [SourceConfig(path=it, kind="run", targets="all") for it in episodes]

        def learn() -> dict[str, Any]:
            config, seed = self.recipe.cloning, self.recipe.seeds[0]
            # The tokenizer needs the words of the expert, who is a small part of what is read.
            some = [
                replace(it, limit=3 * wanted.base_tasks)
                for it, wanted in zip(read, self.environments, strict=True)
            ]
            spoken = [*self.imitated("base"), *some]
            scratch = make_base(config, spoken, folder / "scratch", seed=seed)
            config = replace(config, epochs=pretraining.epochs, max_steps=0)
            clone(config, read, folder / "base", model=scratch, seed=seed, console=self.console)
            return {"path": str(folder / "base" / "final")}

        return self.run_dir.stage("pretraining", learn)["path"]

    def imitated_count(self, size: Literal["base", "large"]) -> int:
        """How many expert episodes a set has."""
        counts = self.run_dir.stage("expert", self.play_expert)
        return sum(count for name, count in counts.items() if name.endswith(f" {size}"))

    def play(
        self,
        agent: RolloutPolicy,
        chosen: Mapping[str, Sequence[str]],
        folder: Path,
        samples: Mapping[str, int] | None = None,
    ) -> list[EvalRun]:
        """Play tasks of every environment, one run each; some with a number of `samples` of their
        own.
        """
        own = samples or {}
        jobs = [
            RolloutJob(it, chosen[it.name], folder / it.name, own.get(it.name, 0))
            for it in self.environments
        ]
        return play(self.recipe.rollout, agent, jobs, console=self.console)

    def judge(self, agent: RolloutPolicy, folder: Path, use: str = "evaluate") -> dict[str, Any]:
        """Figures on the held-out tasks (or another part of them), as JSON values."""
        chosen = {name: getattr(it, use) for name, it in self.split.items()}
        played = self.play(agent, chosen, folder)
        return {it.environment: read_metric(it).to_plain() for it in played}

    def baseline(self, policy: str) -> dict[str, Figure]:
        """Figures of a scripted player."""
        agent = RolloutPolicy(policy=policy)
        name = f"baseline-{policy}"
        plain = self.run_dir.stage(name, lambda: self.judge(agent, self.out / "evaluation" / name))
        return metrics_from_plain(plain)

    def select(self, run: EvalRun, wanted: ImitatedTasks, *, explored: bool = False) -> Selection:
        """What is kept of a run. The expert's episodes are always filtered, never weighted."""
        with RunReader.open(run.folder) as reader:
            return select(
                reader.summaries(),
                threshold=score_threshold(wanted.name, wanted.threshold),
                weighted=explored and self.recipe.use == "weight",
                perfect=run.perfect,
                repeats=self.recipe.repeats,
            )


class _Evolution:
    """One seed of a run."""

    def __init__(self, shared: _Shared, seed: int) -> None:
        self.seed = seed
        self.folder = shared.out / f"seed-{seed}"
        self.base_figures: dict[str, Figure] = {}
        self.large_figures: dict[str, Figure] = {}
        self.evolved: list[dict[str, Figure]] = []
        """Figures after each iteration."""
        self.kept: list[dict[str, int]] = []
        """Episodes kept in each iteration, by environment."""
        self.chosen = 0
        """The iteration that is the result, from 1."""
        self._shared = shared
        self._recipe = shared.recipe
        self._base_model = ""

    @property
    def checkpoint(self) -> Path:
        """The chosen agent."""
        return self._checkpoint(f"iteration-{self.chosen}")

    def run(self) -> None:
        """All stages of this seed, in order."""
        expert = self._shared.imitated("base")
        made = self._stage("base-model", self._make_base)
        self._base_model = made["path"]

        current = self._learn("bc-base", expert)
        self.base_figures = self._judge("bc-base", current)
        if self._recipe.large:
            large = self._learn("bc-large", self._shared.imitated("large"))
            self.large_figures = self._judge("bc-large", large)

        before = expert
        for number in range(1, self._recipe.iterations + 1):
            explored = self._explore(number, current)
            kept = self._select(number, explored)
            before = [*(expert if self._recipe.merge == "initial" else before), *kept]
            current = self._learn(f"iteration-{number}", before)
            self.evolved.append(self._judge(f"iteration-{number}", current))
        self.chosen = self._choose()

    def _make_base(self) -> dict[str, Any]:
        """The model that every agent of this seed starts from."""
        if self._recipe.pretraining:
            return {"path": self._shared.pretrain(self._recipe.pretraining)}
        path = make_base(
            self._recipe.cloning,
            self._shared.imitated("base"),
            self.folder / "base",
            seed=self.seed,
        )
        return {"path": path}

    def _learn(self, name: str, sources: Sequence[SourceConfig]) -> Path:
        """An agent from the base model and these episodes."""

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

    def _explore(self, number: int, agent: Path) -> list[dict[str, Any]]:
        """The current agent on every environment's tasks."""

        def work() -> dict[str, Any]:
            player = RolloutPolicy(
                policy=str(agent),
                temperature=self._recipe.temperature,
                samples=self._recipe.samples,
                seed=1000 * self.seed + number,
            )
            chosen = {name: it.explore for name, it in self._shared.split.items()}
            samples = {it.name: it.samples for it in self._shared.environments}
            played = self._shared.play(player, chosen, self._exploration(number), samples)
            return {"played": [{**asdict(it), "folder": str(it.folder)} for it in played]}

        return self._stage(f"explore-{number}", work)["played"]

    def _select(self, number: int, explored: Sequence[Mapping[str, Any]]) -> list[SourceConfig]:
        """Keep what earned reward; returns it as sources."""

        def work() -> dict[str, Any]:
            counts: dict[str, Any] = {}
            for plain, wanted in zip(explored, self._shared.environments, strict=True):
                run = EvalRun(**{**plain, "folder": Path(plain["folder"])})
                selection = self._shared.select(run, wanted, explored=True)
                write_selection(self._kept_file(number, wanted.name), selection.kept)
                counts[wanted.name] = {
                    "kept": len(selection.kept),
                    "confirmed": selection.confirmed,
                    "episodes": selection.episodes,
                }
            return counts

        counts = self._stage(f"select-{number}", work)
        self.kept.append({name: int(it["kept"]) for name, it in counts.items()})
        return [
            SourceConfig(
                path=str(self._exploration(number) / name),
                kind="run",
                selection=str(self._kept_file(number, name)),
            )
            for name, count in self.kept[-1].items()
            if count
        ]

    def _judge(self, name: str, agent: Path) -> dict[str, Figure]:
        player = RolloutPolicy(policy=str(agent), seed=self.seed)
        folder = self.folder / "evaluation" / name
        return metrics_from_plain(
            self._stage(f"judge-{name}", lambda: self._shared.judge(player, folder))
        )

    def _choose(self) -> int:
        if self._recipe.choose == "last":
            return self._recipe.iterations
        means: list[float] = []
        for number in range(1, self._recipe.iterations + 1):
            name = f"iteration-{number}"
            player = RolloutPolicy(policy=str(self._checkpoint(name)), seed=self.seed)
            folder = self.folder / "validation" / name
            plain = self._stage(
                f"validate-{name}",
                lambda player=player, folder=folder: self._shared.judge(player, folder, "validate"),
            )
            means.append(Row(name, metrics_from_plain(plain)).mean or 0.0)
        return means.index(max(means)) + 1

    def _stage(self, name: str, work: Any) -> dict[str, Any]:
        return self._shared.run_dir.stage(f"seed-{self.seed}/{name}", work)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / name / "final"

    def _exploration(self, number: int) -> Path:
        return self.folder / f"explore-{number}"

    def _kept_file(self, number: int, environment: str) -> Path:
        return self._exploration(number) / f"{environment}-kept.jsonl"


def _pooled(parts: Sequence[Mapping[str, Figure]]) -> dict[str, Figure]:
    return {name: pool([it[name] for it in parts]) for name in parts[0]}


def _conclude(shared: _Shared, evolutions: Sequence[_Evolution]) -> Report:
    """One table and one plot of all seeds."""
    recipe = shared.recipe
    names = [it.name for it in shared.environments]
    base = _pooled([it.base_figures for it in evolutions])
    large = _pooled([it.large_figures for it in evolutions]) if recipe.large else {}
    iterations = [_pooled(parts) for parts in zip(*(it.evolved for it in evolutions), strict=True)]
    chosen = _pooled([it.evolved[it.chosen - 1] for it in evolutions])
    count = shared.imitated_count("base")
    rows = [Row(policy, shared.baseline(policy)) for policy in recipe.baselines]
    rows.append(Row(BASE, base, f"{count} expert episodes"))
    if recipe.large:
        rows.append(Row(LARGE, large, f"{shared.imitated_count('large')} expert episodes"))
    kept = {
        str(number + 1): {name: sum(it.kept[number][name] for it in evolutions) for name in names}
        for number in range(recipe.iterations)
    }
    last = sum(sum(it.kept[it.chosen - 1].values()) for it in evolutions) / len(evolutions)
    rows.append(Row(EVOLVED, chosen, f"{count} expert + {last:.0f} own episodes"))
    report = Report(tuple(rows), kept, tuple(it.checkpoint for it in evolutions))
    _write(shared, report, [base, *iterations], large, names)
    return report


def _write(
    shared: _Shared,
    report: Report,
    iterations: Sequence[Mapping[str, Figure]],
    large: Mapping[str, Figure],
    names: Sequence[str],
) -> None:
    out, console = shared.out, shared.console
    results = {
        "rows": {
            row.name: {
                "mean": row.mean,
                "note": row.note,
                "figures": {name: it.to_plain() for name, it in row.figures.items()},
            }
            for row in report.rows
        },
        "iterations": [{name: it[name].mean for name in names} for it in iterations],
        "kept": report.kept,
        "checkpoints": [str(it) for it in report.checkpoints],
    }
    write_atomically(out / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(out / "table.md", as_markdown(report.rows, names))
    console.print(as_table(report.rows, names, title=f"AgentEval, {out}"))
    for number, counts in report.kept.items():
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        console.print(f"kept in iteration {number}: {listed}", highlight=False)
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
