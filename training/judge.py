"""`python -m training.judge RUN --recipe RECIPE.toml`: what a run of AgentEvol comes to.

For runs with `[judge]`. Their agents were chosen by develop tasks; this command draws the tasks
that judge from the pools that nobody met, by `judge.seed` of a recipe that is committed and frozen,
and plays every agent of every seed on them: tasks of the generator that made the learned ones, and
tasks of the split for evaluation. Before the first episode the run's folder says that it was done,
with the recipe's commit and digest:

    judgements.json    each judging: when, by which recipe (commit, digest), from which seed
    judgement-N/       its episodes
    judgement.json     figures of the last judging: every value, intervals, differences
    judgement.md       the same as tables

One that was cut off goes on when it is called again. A second judging has to be asked for
(`--again`), and the report says that it was: whoever knows the figures of a first one may have
fitted something to them.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import tyro
from rich.console import Console

from agent_runtime.logs import bind_context, configure_logging
from orchestrator.atomic_file import write_atomically
from orchestrator.command_line import make_console, run_command
from orchestrator.configuration import to_plain
from training.agentevol import (
    BASE,
    EVOLVED,
    FREE_KEYS,
    AgentEvolRecipe,
    SeedRun,
    open_seeds,
    row_notes,
    seed_devices,
)
from training.config.recipe import load_recipe
from training.config.start import Start
from training.errors import CheckpointDamaged, RecipeError, TrainingError
from training.rollouts.division import draw_judges
from training.rollouts.jobs import RolloutJob, RolloutPolicy, play
from training.rollouts.judgement import (
    Difference,
    Estimate,
    JudgedRow,
    compare_rows,
    differences_as_markdown,
    estimate_row,
    rows_as_markdown,
)
from training.rollouts.results import Metric, metrics_from_plain, read_metric
from training.runs.parallel import run_in_processes
from training.runs.run_dir import RunDir

__all__ = ["JudgeRun", "Judgement", "judge", "main"]

JUDGEMENTS_FILE: Final = "judgements.json"
RESULT_FILE: Final = "judgement.json"
LAYOUT: Final = 1
"""Of `judgement.json`; see benchmark/results/training/README.md."""
PARTS: Final = ("same generator", "evaluation split")

Items = Mapping[str, Mapping[str, Sequence[str]]]
"""Part -> environment -> item ids."""
PartMetrics = Mapping[str, Mapping[str, Metric]]
"""Part -> environment -> what an agent earned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRun:
    """Play the agents of a finished run of `training.agentevol` on tasks that nobody met, once."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    recipe: Path
    """Its recipe, with `judge.seed` written down, as it is committed."""
    again: bool = False
    """Judge a second time; the report says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judging of a run: a line of `judgements.json`."""

    recipe: str
    """The recipe's file name."""
    commit: str
    """In which the recipe was last changed; it has no changes since."""
    digest: str
    """Of the recipe's values that decide what is trained."""
    seed: int
    """That drew the tasks."""
    begun: str
    """UTC."""
    ended: str = ""
    """UTC; empty = not yet."""

    def same(self, other: Judgement) -> bool:
        """Tell whether it is the other one, at whatever time."""
        return (self.digest, self.seed) == (other.digest, other.seed)


class _FinishedRun(RunDir):
    """A run in which nothing is trained any more."""

    def stage(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a stage of judging; raises TrainingError for another one that is not finished."""
        if not name.startswith("judgement-") and self.result(name) is None:
            raise TrainingError(
                f"the stage {name} is not finished: `python -m training.agentevol RECIPE --resume` "
                "first; judging is the last thing that is done",
                field="run",
            )
        return super().stage(name, work)


def judge(config: JudgeRun, *, console: Console | None = None) -> dict[str, Any]:
    """Judge a run, or tell what it was judged to be.

    Args:
        config: Which run, by which recipe.
        console: Gets progress and the tables; None = stderr.

    Returns:
        What `judgement.json` holds.

    Raises:
        RecipeError: The recipe has no `[judge]`, no seed, or is not committed as it is.
        RecipeChanged: The run was trained by another recipe.
        TrainingError: The run is not finished, or was judged already.
        OrchestratorError: Episodes could not be played.
    """
    console = console or Console(stderr=True)
    recipe = replace(load_recipe(AgentEvolRecipe, config.recipe), out=config.run)
    if recipe.judge is None:
        raise RecipeError("there is none, so no tasks were set apart to judge", field="judge")
    if not recipe.judge.seed:
        raise RecipeError(
            "write down a seed, which draws the tasks, and commit the recipe", field="judge.seed"
        )
    RunDir.read(config.run)  # a folder without a run is refused before anything is written
    run_dir = _open(recipe)
    wanted = Judgement(
        recipe=config.recipe.name,
        commit=_commit(config.recipe),
        digest=_digest(recipe),
        seed=recipe.judge.seed,
        begun=_now(),
    )
    with run_dir.logging():
        _require_all_seeds(recipe, run_dir)
        seeds = open_seeds(recipe, run_dir, console)
        for seed in seeds:
            seed.run()
        judgements = _record(run_dir, wanted, again=config.again)
        number = len(judgements)
        items = _draw(seeds[0], seed=wanted.seed)
        if recipe.max_workers > 1 and not judgements[-1].ended:
            # The processes play; `_play_rows` finds their stages finished.
            work = [(recipe, seed, items, number) for seed in recipe.seeds]
            run_in_processes(
                _judge_seed, work, max_workers=recipe.max_workers, devices=seed_devices(recipe)
            )
        rows = _play_rows(seeds, items, number)
        judgements = _finish(run_dir, judgements)
    result = _result(recipe, judgements, items, rows)
    write_atomically(config.run / RESULT_FILE, json.dumps(result, indent=1) + "\n")
    text = _tables(recipe, rows, judgements)
    write_atomically(config.run / "judgement.md", text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    return result


def _open(recipe: AgentEvolRecipe) -> _FinishedRun:
    """Open the run that a recipe describes; raises RecipeChanged where it was another's."""
    return _FinishedRun.open(
        recipe.out,
        to_plain(recipe),
        algorithm="agentevol",
        start=Start.RESUME,
        free=(*FREE_KEYS, "out"),
    )


def _require_all_seeds(recipe: AgentEvolRecipe, run_dir: RunDir) -> None:
    """Raise RecipeError where a seed is left out: whoever may choose seeds may choose figures."""
    trained = {name.split("/")[0] for name in run_dir.finished if name.startswith("seed-")}
    missing = sorted(trained - {f"seed-{seed}" for seed in recipe.seeds})
    if missing:
        raise RecipeError(
            f"lacks {', '.join(missing)}, which the run has: judge all of them", field="seeds"
        )


# The record of judging ------------------------------------------------------------------------


def _record(run_dir: RunDir, wanted: Judgement, *, again: bool) -> list[Judgement]:
    """Write down that a run is being judged, before the first episode; returns all judgings."""
    done = _read(run_dir)
    last = done[-1] if done else None
    if last is not None and last.same(wanted) and not (last.ended and again):
        return done  # goes on, or is told again
    if last is not None and not again:
        raise TrainingError(
            f"was judged at {last.begun} from seed {last.seed} by a recipe of digest "
            f"{last.digest}: --again judges once more, and the report says so",
            field="run",
        )
    done.append(wanted)
    _write(run_dir, done)
    return done


def _finish(run_dir: RunDir, judgements: list[Judgement]) -> list[Judgement]:
    """Write down that the last judging has ended, once; returns all judgings."""
    if not judgements[-1].ended:
        judgements = [*judgements[:-1], replace(judgements[-1], ended=_now())]
        _write(run_dir, judgements)
    return judgements


def _read(run_dir: RunDir) -> list[Judgement]:
    path = run_dir.folder / JUDGEMENTS_FILE
    if not path.is_file():
        return []
    try:
        return [Judgement(**it) for it in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise CheckpointDamaged(f"{path} is damaged: {error!r}", field="run") from error


def _write(run_dir: RunDir, judgements: Sequence[Judgement]) -> None:
    plain = [asdict(it) for it in judgements]
    write_atomically(run_dir.folder / JUDGEMENTS_FILE, json.dumps(plain, indent=1) + "\n")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _digest(recipe: AgentEvolRecipe) -> str:
    """Return what identifies the values that decide what is trained and judged."""
    plain = to_plain(recipe)
    for name in ("out", "judge", "max_workers", "rates"):
        plain.pop(name)
    plain["rollout"] = {
        name: value for name, value in plain["rollout"].items() if name not in ("client", "fleet")
    }
    text = json.dumps(plain, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _commit(path: Path) -> str:
    """Return the commit that last changed a file; raises RecipeError where it has changed since."""
    commit = _git(path, "log", "-1", "--format=%H", "--", path.name)
    if not commit or _git(path, "status", "--porcelain", "--", path.name):
        raise RecipeError(
            f"{path} is not committed as it is: commit it, so that it can be told what was frozen "
            "before anything was judged",
            field="recipe",
        )
    return commit


def _git(path: Path, *words: str) -> str:
    """Return what git says; empty where it fails: there is no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(path.parent.resolve()), *words],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise RecipeError("git is needed, to tell the recipe's commit", field="recipe") from error
    return done.stdout.strip() if done.returncode == 0 else ""


# Playing --------------------------------------------------------------------------------------


def _draw(seed_run: SeedRun, *, seed: int) -> Items:
    """Draw the tasks that judge; all seeds of a run have the same pools."""
    shared = seed_run.shared
    drawn = {
        tasks.name: draw_judges(
            tasks, shared.split[tasks.name], shared.contents[tasks.name], seed=seed
        )
        for tasks in shared.environments
    }
    return {
        part: {name: it[number] for name, it in drawn.items()} for number, part in enumerate(PARTS)
    }


def _play_rows(seeds: Sequence[SeedRun], items: Items, number: int) -> dict[str, list[JudgedRow]]:
    """Return the rows of each part; a baseline plays once and stands for all seeds."""
    recipe, notes = seeds[0].shared.recipe, row_notes(seeds)
    rows: dict[str, list[JudgedRow]] = {part: [] for part in PARTS}

    def add(name: str, note: str, played: Mapping[int, PartMetrics]) -> None:
        for part in PARTS:
            metrics = {seed: by_part[part] for seed, by_part in played.items()}
            rows[part].append(JudgedRow(name, note, metrics))

    for name in recipe.baselines:
        played = _play(seeds[0], recipe.baseline_policy(name), name, items, number)
        add(name, "", {seed.seed: played for seed in seeds})
    for name in seeds[0].agents:
        add(name, notes[name], {it.seed: _play_agent(it, name, items, number) for it in seeds})
    return rows


def _judge_seed(recipe: AgentEvolRecipe, seed: int, items: Items, number: int) -> None:
    """Play one seed's agents, in a process of its own."""
    run_dir = _open(recipe)
    configure_logging()
    with run_dir.logging(), bind_context(seed=seed):
        (own,) = open_seeds(replace(recipe, seeds=(seed,)), run_dir, Console(stderr=True))
        own.run()
        for name in own.agents:
            _play_agent(own, name, items, number)


def _play_agent(seed: SeedRun, name: str, items: Items, number: int) -> PartMetrics:
    policy = RolloutPolicy(policy=str(seed.agents[name].checkpoint), seed=seed.seed)
    return _play(seed, policy, f"seed-{seed.seed}/{name}", items, number)


def _play(
    seed: SeedRun, policy: RolloutPolicy, label: str, items: Items, number: int
) -> PartMetrics:
    """Play one agent on all that judges, once."""
    shared = seed.shared
    name = f"judgement-{number}/{label}".replace(" ", "-")

    def play_part(part: str) -> dict[str, Any]:
        # A part by itself: environments that are played together have each of them once.
        folder = shared.recipe.out / name / part.replace(" ", "-")
        jobs = [
            RolloutJob(tasks, items[part][tasks.name], folder / tasks.name)
            for tasks in shared.environments
        ]
        runs = play(shared.recipe.rollout, policy, jobs, console=shared.console)
        return {
            tasks.name: read_metric(run).to_plain()
            for tasks, run in zip(shared.environments, runs, strict=True)
        }

    def work() -> dict[str, Any]:
        return {part: play_part(part) for part in PARTS}

    played = shared.run_dir.stage(name, work)
    return {part: metrics_from_plain(played[part]) for part in PARTS}


# The report -----------------------------------------------------------------------------------


def _result(
    recipe: AgentEvolRecipe,
    judgements: Sequence[Judgement],
    items: Items,
    rows: Mapping[str, Sequence[JudgedRow]],
) -> dict[str, Any]:
    names = [tasks.name for tasks in recipe.environments]
    return {
        "layout": LAYOUT,
        "judgements": [asdict(it) for it in judgements],
        "judged": _judged_times(judgements),
        "environments": names,
        "seeds": list(recipe.seeds),
        "redraw": recipe.redraw,
        "tasks": {
            part: {name: list(ids) for name, ids in it.items()} for part, it in items.items()
        },
        "rows": {part: [_plain_row(row, names) for row in rows[part]] for part in PARTS},
        "differences": {
            part: [_plain_difference(it) for it in _differences(rows[part], names)]
            for part in PARTS
        },
    }


def _plain_row(row: JudgedRow, names: Sequence[str]) -> dict[str, Any]:
    return {
        "name": row.name,
        "note": row.note,
        "figures": _plain_estimates(estimate_row(row, names)),
        "values": {
            str(seed): {name: dict(metrics[name].values) for name in names}
            for seed, metrics in row.metrics.items()
        },
    }


def _plain_difference(difference: Difference) -> dict[str, Any]:
    return {
        "first": difference.first,
        "second": difference.second,
        "figures": _plain_estimates({**difference.by_environment, "mean": difference.mean}),
        "tasks": dict(difference.tasks),
    }


def _plain_estimates(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: it.to_plain() for name, it in estimates.items()}


def _differences(rows: Sequence[JudgedRow], names: Sequence[str]) -> list[Difference]:
    """Compare AgentEvol with every other agent, and every other agent with BC_base."""
    by_name = {row.name: row for row in rows}
    others = [row for row in rows if row.name not in (EVOLVED, BASE)]
    found = [compare_rows(by_name[BASE], row, names) for row in others]
    if evolved := by_name.get(EVOLVED):
        found = [*(compare_rows(row, evolved, names) for row in rows if row is not evolved), *found]
    return found


def _judged_times(judgements: Sequence[Judgement]) -> str:
    if len(judgements) == 1:
        return "once"
    return (
        f"{len(judgements)} times: these figures are the last ones, and whoever knew the earlier "
        "ones may have fitted something to them"
    )


def _tables(
    recipe: AgentEvolRecipe,
    rows: Mapping[str, Sequence[JudgedRow]],
    judgements: Sequence[Judgement],
) -> str:
    names = [tasks.name for tasks in recipe.environments]
    last = judgements[-1]
    drawn = "redrew division and base model" if recipe.redraw else "share division and base model"
    lines = [
        f"Judged {_judged_times(judgements)}. {last.recipe} at commit {last.commit[:12]} (digest "
        f"{last.digest}), judge.seed {last.seed}, {last.begun}.",
        "",
        f"Percent, greedy, 95 % intervals over tasks and {len(recipe.seeds)} seeds, which {drawn}; "
        f"{recipe.cloning.max_steps:,} updates each, with equal shares per environment.",
    ]
    for part in PARTS:
        figures = [(row, estimate_row(row, names)) for row in rows[part]]
        lines += ["", f"## Tasks of the {part}", "", rows_as_markdown(figures, names)]
        lines += [differences_as_markdown(_differences(rows[part], names), names).rstrip()]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(JudgeRun, _act, argv, program="python -m training.judge")


def _act(config: JudgeRun) -> int:
    judge(config, console=make_console(stderr=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
