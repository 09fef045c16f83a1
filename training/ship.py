"""`python -m training.ship RUN --out FOLDER`: from a finished run to an agent that anybody plays.

Writes the folder of `--policy agent:FOLDER`: weights (in fewer bits where that changes no metric),
tokenizer, manifest and README. Every metric in the manifest was played with the very files beside
it; nothing in it names a machine or a path. Needs no torch: the embedded engine plays, by whatever
backend there is.

An agent of `training.agentevol` is judged on tasks that its run held out, in the run's settings;
one of `training.bc` in the environments' own settings, on tasks whose contents it did not learn
from, beside expert and random (`training.rollouts.own_settings`).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import tyro
from rich.console import Console

from agent_runtime.agents import AgentManifest, write_agent_manifest
from agent_runtime.agents.manifest import AGENT_FILE
from agent_runtime.engine.checkpoint import weights_digest
from orchestrator.command_line import make_console, run_command
from orchestrator.training_folder import RECIPE_FILE, read_training
from training.agent_files import (
    agent_metric,
    describe_model,
    require_small,
    write_model,
)
from training.cloned_agent import ClonedRun
from training.config.recipe import build
from training.errors import OutputOccupied, RecipeError, TrainingError
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.own_settings import OwnSettings
from training.rollouts.results import (
    Metric,
    Row,
    as_markdown,
    as_table,
    metrics_from_plain,
    read_metric,
)
from training.rollouts.tasks import ImitatedTasks, TaskSplit
from training.runs.run_dir import RunDir

if TYPE_CHECKING:  # it needs NumPy
    from agent_runtime.engine.tensor_file import StoredAs

__all__ = ["ExportAgent", "ExportedAgent", "export_agent", "main"]

_NOTICEABLE: Final = 0.01
"""A change of an environment's metric that speaks against half precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAgent:
    """Make a folder for `--policy agent:FOLDER` from a run of `training.agentevol` or `.bc`."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    out: Path
    """Folder of the agent."""
    seed: int | None = None
    """Which seed's agent of AgentEvol; default: the one with the best mean on validation tasks
    where the run has them, else on the held-out ones."""
    name: str = "laptop"
    stored_as: Literal["auto", "float32", "float16", "bfloat16", "int8"] = "auto"
    """How weights are stored; auto = in float16 where no figure changes by more than a hundredth,
    else in float32. A cloned agent has no figures yet: auto = float16."""
    episodes: int = 200
    """Tasks per environment of the split `eval` on which a cloned agent is judged; 0 = all."""
    max_new_tokens: int = 128
    """Longest reply of a cloned agent; AgentEvol's is its recipe's."""
    overwrite: bool = False
    """Replace an agent that is in the folder."""


@dataclass(frozen=True, slots=True)
class ExportedAgent:
    """What was written."""

    folder: Path
    manifest: AgentManifest
    beside: Mapping[str, Mapping[str, Metric]]
    """What it may be compared with, by the name of a row: the checkpoint in its run, or others who
    played the same tasks."""
    played: Mapping[str, Metric]
    """Metrics of the files in the folder."""


class _Run:
    """A finished run of AgentEvol, read from its folder."""

    def __init__(self, folder: Path) -> None:
        results = folder / "results.json"
        if not results.is_file():
            raise TrainingError(f"{folder} is no finished run of training.agentevol", field="run")
        self.folder = folder
        self._run_dir = RunDir.read(folder)
        self.recipe: Mapping[str, Any] = self._run_dir.recipe
        self.environments = [build(ImitatedTasks, tasks) for tasks in self.recipe["environments"]]
        self.rollout = build(RolloutConfig, self.recipe["rollout"])
        self.judged = bool(self.recipe.get("judge"))
        """Agents were evaluated on develop tasks; `training.judge` plays others."""
        self.rows: Mapping[str, Any] = {}
        try:
            self._read(json.loads(results.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{results} cannot be read: {error!r}", field="run") from error

    def _read(self, results: Mapping[str, Any]) -> None:
        self.rows = results["rows"]
        # Folders of runs are moved: only the names inside are relied on.
        self.checkpoint_names = {
            int(seed): Path(checkpoint).parent.name
            for seed, checkpoint in zip(self.recipe["seeds"], results["checkpoints"], strict=True)
        }

    def stage(self, name: str) -> dict[str, Any]:
        """Return the result of a stage; raises TrainingError where it is not finished."""
        result = self._run_dir.result(name)
        if result is None:
            raise TrainingError(f"the stage {name} is not finished", field="run")
        return result

    def shared_stage(self, name: str, seed: int) -> dict[str, Any]:
        """Return a stage that all seeds share, or have each where they redraw the division."""
        return self.stage(f"seed-{seed}/{name}" if self.recipe.get("redraw") else name)

    def tasks(self, seed: int) -> dict[str, tuple[str, ...]]:
        """Return the tasks that a seed's agents were evaluated on, by environment."""
        splits = {
            name: TaskSplit.from_plain(ids)
            for name, ids in self.shared_stage("tasks", seed).items()
        }
        return {
            name: split.validate if self.judged else split.evaluate
            for name, split in splits.items()
        }

    def metrics(self, seed: int, stage: Literal["judge", "validate", ""] = "") -> dict[str, Metric]:
        """Return the metrics of a seed's chosen checkpoint.

        Args:
            seed: Whose.
            stage: judge or validate; empty = on what the run evaluated.
        """
        stage = stage or ("validate" if self.judged else "judge")
        return metrics_from_plain(self.stage(f"seed-{seed}/{stage}-{self.checkpoint_names[seed]}"))

    def checkpoint(self, seed: int) -> Path:
        """Return the folder of a seed's chosen checkpoint."""
        return self.folder / f"seed-{seed}" / self.checkpoint_names[seed] / "final"

    def learned_from(self, seed: int) -> str:
        """Say how many episodes a seed's chosen checkpoint learned from."""
        counts = self.shared_stage("expert", seed)
        expert = sum(count for name, count in counts.items() if name.endswith(" base"))
        iteration = self.checkpoint_names[seed].removeprefix("iteration-")
        selected = self.stage(f"seed-{seed}/select-{iteration}")
        own = sum(count["kept"] for count in selected.values())
        return f"{expert} expert + {own} own episodes"

    def best_seed(self) -> tuple[int, str]:
        """Return the seed to export, and by which tasks it was chosen."""
        if len(self.checkpoint_names) == 1:
            return next(iter(self.checkpoint_names)), "the only seed"
        validated = self.judged or self.recipe.get("choose") == "validation"
        stage = "validate" if validated else "judge"
        means = {
            seed: Row("", self.metrics(seed, stage)).mean or 0.0 for seed in self.checkpoint_names
        }
        best = max(means, key=lambda seed: (means[seed], -seed))
        tasks = "validation" if validated else "held-out"
        return best, f"the best mean of {len(means)} seeds on {tasks} tasks"


def export_agent(config: ExportAgent, console: Console) -> ExportedAgent:
    """Write the agent's folder, whole or not at all.

    Raises:
        TrainingError: The run is not finished, or the agent is too large.
        RecipeError: The run has no such seed.
        OutputOccupied: The folder holds something else.
        OrchestratorError: The agent could not be played.
    """
    _require_free(config)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{config.out.name}-", dir=config.out.parent) as work:
        folder = Path(work) / "agent"
        export = _export_cloned if _is_cloned(config.run) else _export_evolved
        manifest, readme, beside, played = export(config, folder, console)
        write_agent_manifest(folder, manifest)
        (folder / "README.md").write_text(readme, encoding="utf-8")
        require_small(folder)
        if config.out.exists():
            shutil.rmtree(config.out)
        folder.rename(config.out)
    return ExportedAgent(config.out, manifest, beside, played)


Written = tuple[AgentManifest, str, Mapping[str, Mapping[str, Metric]], Mapping[str, Metric]]
"""Manifest, README, other rows of the table, and the metrics of the written files."""


def _is_cloned(folder: Path) -> bool:
    recipe = folder / RECIPE_FILE
    return recipe.is_file() and read_training(folder).algorithm == "bc"


def _export_cloned(config: ExportAgent, folder: Path, console: Console) -> Written:
    if config.seed is not None:
        raise RecipeError("is of runs of training.agentevol", field="seed")
    run = ClonedRun(read_training(config.run))
    settings = OwnSettings(
        environments=tuple(run.contents),
        episodes=config.episodes,
        max_new_tokens=config.max_new_tokens,
    )
    stored_as: StoredAs = "float16" if config.stored_as == "auto" else config.stored_as
    agent = run.write(
        folder, name=config.name, stored_as=stored_as, settings=settings, console=console
    )
    return agent.manifest, agent.readme, agent.judged.beside, agent.judged.metrics


def _export_evolved(config: ExportAgent, folder: Path, console: Console) -> Written:
    run = _Run(config.run)
    if config.seed is not None and config.seed not in run.checkpoint_names:
        raise RecipeError("no such seed", field="seed", valid=map(str, run.checkpoint_names))
    seed, reason = run.best_seed() if config.seed is None else (config.seed, "named")
    stored_as, played = _store(config, run, seed, folder, console)
    manifest = _manifest(config.name, run, seed, played, stored_as, weights_digest(folder))
    readme = _readme(run, seed, reason, manifest, played)
    return manifest, readme, {"in its run": run.metrics(seed)}, played


def _require_free(config: ExportAgent) -> None:
    out = config.out
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / AGENT_FILE).is_file():
        raise OutputOccupied(out, "it holds something that is no agent")
    if not config.overwrite:
        raise OutputOccupied(out, "an agent is here; --overwrite replaces it")


def _store(
    config: ExportAgent, run: _Run, seed: int, folder: Path, console: Console
) -> tuple[StoredAs, dict[str, Metric]]:
    """Write weights and tokenizer in the smallest precision that will do, and play them."""
    recorded = run.metrics(seed)
    precisions: Sequence[StoredAs] = (
        ("float16", "float32") if config.stored_as == "auto" else (config.stored_as,)
    )
    for stored_as in precisions:
        if not write_model(run.checkpoint(seed), folder, stored_as):
            continue
        require_small(folder)
        played = _play(run, seed, folder, console)
        worst = max(
            abs((metric.mean or 0.0) - (recorded[name].mean or 0.0))
            for name, metric in played.items()
        )
        console.print(
            f"{stored_as}: figures differ by {100 * worst:.1f} points at most", highlight=False
        )
        if worst <= _NOTICEABLE + 1e-9 or stored_as == precisions[-1]:
            return stored_as, played
    raise TrainingError("the weights hold numbers beyond the precision", field="stored_as")


def _play(run: _Run, seed: int, folder: Path, console: Console) -> dict[str, Metric]:
    """Return metrics of the written files on the held-out tasks, as the run evaluated."""
    rollout, tasks_of = replace(run.rollout, engine="embedded", url=""), run.tasks(seed)
    with tempfile.TemporaryDirectory() as work:
        jobs = [
            RolloutJob(tasks, tasks_of[tasks.name], Path(work) / tasks.name)
            for tasks in run.environments
        ]
        runs = play(rollout, RolloutPolicy(policy=str(folder)), jobs, console=console)
        return {played.environment: read_metric(played) for played in runs}


def _manifest(
    name: str,
    run: _Run,
    seed: int,
    played: Mapping[str, Metric],
    stored_as: StoredAs,
    weights: str,
) -> AgentManifest:
    return AgentManifest(
        name=name,
        temperature=0.0,
        max_new_tokens=run.rollout.max_new_tokens,
        environments={
            tasks.name: replace(tasks.settings(), items=run.tasks(seed)[tasks.name])
            for tasks in run.environments
        },
        metrics={name: agent_metric(metric) for name, metric in played.items()},
        provenance={
            "algorithm": "AgentEvol",
            "seed": seed,
            "checkpoint": run.checkpoint_names[seed],
            "stored_as": stored_as,
            "weights": weights,
        },
    )


# The README -----------------------------------------------------------------------


def _readme(
    run: _Run, seed: int, reason: str, manifest: AgentManifest, played: Mapping[str, Metric]
) -> str:
    names = [tasks.name for tasks in run.environments]
    rows = [
        Row(name, metrics_from_plain(row["figures"]), row["note"]) for name, row in run.rows.items()
    ]
    rows.append(Row("**this agent**", played, run.learned_from(seed)))
    seeds = len(run.checkpoint_names)
    return _README.format(
        name=manifest.name,
        model=describe_model(run.checkpoint(seed), str(manifest.provenance["stored_as"])),
        recipe=_recipe_lines(run, seed),
        seed=seed,
        why=reason,
        checkpoint=run.checkpoint_names[seed],
        tasks=_JUDGED if run.judged else _BY_ID,
        seeds="one seed" if seeds == 1 else f"{seeds} seeds",
        table=as_markdown(rows, names),
        settings=_settings_table(manifest),
    )


_BY_ID: Final = """on tasks that were held out from learning by their
ids. They are draws of the generator that made the learned ones, some equal in content."""
_JUDGED: Final = """on develop tasks: nobody learned from their contents, but
iteration and seed were chosen by them. What it is judged to be is in the run's judgement.md."""
_README: Final = """# The agent {name}

What `python -m orchestrator.sample` plays beside expert and random. {model}

Made by `python -m training.agentevol`, then `python -m training.ship`, from nothing but episodes of
this project: the scripted experts', then the agent's own that earned reward. No published
weights, conversations or texts went into it.

{recipe}
- Shipped: seed {seed} ({why}), {checkpoint}.

## Figures

Percent, greedy, 95 % intervals clustered by item, {tasks} The
last row was played with the files of this folder; the others are of the run ({seeds}).
Where the seed was chosen by the held-out tasks themselves, its figures flatter a little.

{table}
## Settings

It learned under these and can do nothing under others. `agent.json` has them in full, with the ids
of the held-out tasks; `--policy agent` applies them to everyone who plays beside it.

{settings}
## Licence

Apache-2.0, like the project. Wordle's words are those of the environment (see its COPYRIGHT file).
"""


def _recipe_lines(run: _Run, seed: int) -> str:
    recipe = run.recipe
    cloning = cast("Mapping[str, Any]", recipe.get("cloning") or {})
    lines = [
        f"- {tasks.name}: {tasks.base_tasks} expert episodes; {tasks.explore or 'all'} tasks "
        "explored in each iteration; judged on "
        f"{len(run.tasks(seed)[tasks.name])}."
        for tasks in run.environments
    ]
    steps = cloning.get("max_steps")
    length = f"{steps} updates" if steps else f"{cloning.get('epochs')} epochs"
    lines.append(
        f"- {recipe.get('iterations')} iterations of exploring (temperature "
        f"{recipe.get('temperature')}) and learning, {length} each."
    )
    if pretraining := recipe.get("pretraining"):
        lines.append(
            f"- The base model had read what the {pretraining.get('policy')} player said and saw "
            "on tasks that do not judge, whatever it earned."
        )
    return "\n".join(lines)


def _settings_table(manifest: AgentManifest) -> str:
    lines = ["| environment | reset options | conversation start | rounds |", "|---|---|---|---|"]
    for name, settings in manifest.environments.items():
        options = "its own"
        if settings.options:
            options = json.dumps(dict(settings.options), sort_keys=True)
        start = " / ".join(settings.conversation_start) or "its own"
        rounds = str(settings.max_rounds) if settings.max_rounds else "its own number"
        lines.append(f"| {name} | `{options}` | {start} | {rounds} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(ExportAgent, _act, argv, program="python -m training.ship")


def _act(config: ExportAgent) -> int:
    console = make_console(stderr=True)
    agent = export_agent(config, console)
    names = list(agent.played)
    rows = [Row(name, metrics) for name, metrics in agent.beside.items()]
    rows.append(Row("as shipped", agent.played))
    console.print(as_table(rows, names, title=f"agent {agent.manifest.name}, {agent.folder}"))
    size = sum(path.stat().st_size for path in agent.folder.iterdir())
    console.print(f"{size / 1e6:.1f} MB, {agent.manifest.provenance['stored_as']}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
