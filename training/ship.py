"""`python -m training.ship RUN --out FOLDER`: from an AgentEvol run to an agent that anybody plays.

Writes the folder of `--policy agent:FOLDER`: weights (in half precision where that changes no
figure), tokenizer, card and README. Invariant: every figure on the card was played with the very
files beside it, on tasks that the run held out; nothing on it names a machine or a path.

Knows no environment and needs no torch: the embedded engine plays, by whatever backend is there.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast

import tyro
from rich.console import Console

from agent_runtime.agents import AgentCard, AgentFigure, PlaySettings, write_card
from agent_runtime.agents.card import CARD_FILE
from agent_runtime.engine.checkpoint import read_architecture, weight_files, weights_digest
from agent_runtime.engine.numpy_backend import import_numpy
from orchestrator.command_line import make_console, run_command
from training.config.recipe import build
from training.errors import OutputOccupied, RecipeError, TrainingError
from training.rollouts.jobs import RolloutConfig, RolloutJob, RolloutPolicy, play
from training.rollouts.results import (
    Figure,
    Row,
    as_markdown,
    as_table,
    metrics_from_plain,
    read_metric,
)
from training.rollouts.tasks import ImitatedTasks, TaskSplit
from training.runs.run_dir import RunDir

__all__ = ["Ship", "Shipment", "main", "ship"]

StoredAs = Literal["float32", "float16", "bfloat16"]
_LARGEST: Final = 20_000_000
"""Bytes of an agent's folder."""
_NOTICEABLE: Final = 0.01
"""A change of an environment's figure that speaks against half precision."""
_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ship:
    """Make a folder for `--policy agent:FOLDER` from a finished run of `training.agentevol`."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    out: Path
    """Folder of the agent."""
    seed: int | None = None
    """Which seed's agent; default: the one with the best mean on validation tasks where the run
    has them, else on the held-out ones."""
    name: str = "laptop"
    stored_as: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Precision of the stored weights; auto = float16 where no figure changes by more than a
    hundredth, else float32."""
    overwrite: bool = False
    """Replace an agent that is in the folder."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """What was written."""

    folder: Path
    card: AgentCard
    recorded: Mapping[str, Figure]
    """Figures of the chosen checkpoint in its run."""
    played: Mapping[str, Figure]
    """Figures of the files in the folder."""


class _Run:
    """A finished run of AgentEvol, read from its folder."""

    def __init__(self, folder: Path) -> None:
        results = folder / "results.json"
        if not results.is_file():
            raise TrainingError(f"{folder} is no finished run of training.agentevol", field="run")
        self.folder = folder
        self._run_dir = RunDir.read(folder)
        self.recipe: Mapping[str, Any] = self._run_dir.recipe
        self.environments = [build(ImitatedTasks, it) for it in self.recipe["environments"]]
        self.rollout = build(RolloutConfig, self.recipe["rollout"])
        self.rows: Mapping[str, Any] = {}
        try:
            self._read(json.loads(results.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(f"{results} cannot be read: {error!r}", field="run") from error

    def _read(self, results: Mapping[str, Any]) -> None:
        divided = self.stage("tasks")
        self.split = {name: TaskSplit.from_plain(uses) for name, uses in divided.items()}
        self.rows = results["rows"]
        # Folders of runs are moved: only the names inside are relied on.
        self.chosen = {
            int(seed): Path(checkpoint).parent.name
            for seed, checkpoint in zip(self.recipe["seeds"], results["checkpoints"], strict=True)
        }

    def stage(self, name: str) -> dict[str, Any]:
        """The result of a stage; raises TrainingError where it is not finished."""
        result = self._run_dir.result(name)
        if result is None:
            raise TrainingError(f"the stage {name} is not finished", field="run")
        return result

    def figures(self, seed: int, kind: str = "judge") -> dict[str, Figure]:
        """Figures of a seed's chosen checkpoint."""
        return metrics_from_plain(self.stage(f"seed-{seed}/{kind}-{self.chosen[seed]}"))

    def checkpoint(self, seed: int) -> Path:
        """A seed's chosen checkpoint."""
        return self.folder / f"seed-{seed}" / self.chosen[seed] / "final"

    def learned_from(self, seed: int) -> str:
        """How many episodes a seed's chosen checkpoint learned from."""
        counts = self.stage("expert")
        expert = sum(count for name, count in counts.items() if name.endswith(" base"))
        number = self.chosen[seed].removeprefix("iteration-")
        kept = self.stage(f"seed-{seed}/select-{number}")
        own = sum(it["kept"] for it in kept.values())
        return f"{expert} expert + {own} own episodes"

    def best_seed(self) -> tuple[int, str]:
        """The seed to ship, and by which tasks it was chosen."""
        if len(self.chosen) == 1:
            return next(iter(self.chosen)), "the only seed"
        validated = self.recipe.get("choose") == "validation"
        kind = "validate" if validated else "judge"
        means = {seed: Row("", self.figures(seed, kind)).mean or 0.0 for seed in self.chosen}
        best = max(means, key=lambda seed: (means[seed], -seed))
        tasks = "validation" if validated else "held-out"
        return best, f"the best mean of {len(means)} seeds on {tasks} tasks"


def ship(config: Ship, console: Console) -> Shipment:
    """Write the agent's folder, whole or not at all.

    Raises TrainingError for a run that is not finished or an agent that is too large,
    OutputOccupied for a folder that holds something else, and what playing raises.
    """
    run = _Run(config.run)
    if config.seed is not None and config.seed not in run.chosen:
        raise RecipeError("no such seed", field="seed", valid=map(str, run.chosen))
    seed, why = run.best_seed() if config.seed is None else (config.seed, "named")
    _require_free(config)
    config.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{config.out.name}-", dir=config.out.parent) as work:
        made = Path(work) / "agent"
        stored_as, played = _store(config, run, seed, made, console)
        card = _card(config.name, run, seed, played, stored_as, weights_digest(made))
        write_card(made, card)
        (made / "README.md").write_text(_readme(run, seed, why, card, played), encoding="utf-8")
        _require_small(made)
        if config.out.exists():
            shutil.rmtree(config.out)
        made.rename(config.out)
    return Shipment(config.out, card, run.figures(seed), played)


def _require_free(config: Ship) -> None:
    out = config.out
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / CARD_FILE).is_file():
        raise OutputOccupied(out, "it holds something that is no agent")
    if not config.overwrite:
        raise OutputOccupied(out, "an agent is here; --overwrite replaces it")


def _store(
    config: Ship, run: _Run, seed: int, made: Path, console: Console
) -> tuple[StoredAs, dict[str, Figure]]:
    """Write weights and tokenizer in the smallest precision that will do, and play them."""
    recorded = run.figures(seed)
    wanted: Sequence[StoredAs] = (
        ("float16", "float32") if config.stored_as == "auto" else (config.stored_as,)
    )
    for stored_as in wanted:
        if not _write_model(run.checkpoint(seed), made, stored_as):
            continue
        _require_small(made)
        played = _play(run, made, console)
        changes = {
            name: abs((it.mean or 0.0) - (recorded[name].mean or 0.0))
            for name, it in played.items()
        }
        worst = max(changes.values())
        console.print(
            f"{stored_as}: figures differ by {100 * worst:.1f} points at most", highlight=False
        )
        if worst <= _NOTICEABLE + 1e-9 or stored_as == wanted[-1]:
            return stored_as, played
    raise TrainingError("the weights hold numbers beyond the precision", field="stored_as")


def _write_model(checkpoint: Path, made: Path, stored_as: StoredAs) -> bool:
    """Write a checkpoint's files; False = its numbers do not fit into that precision."""
    import_numpy(1)
    from agent_runtime.engine.tensor_file import read_tensors, write_tensors

    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    tensors = {
        name: it for path in weight_files(checkpoint) for name, it in read_tensors(path).items()
    }
    try:
        write_tensors(made / "model.safetensors", tensors, stored_as)
    except ValueError:
        return False
    settings = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    settings.pop("torch_dtype", None)
    settings["dtype"] = stored_as
    (made / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for name in _TOKENIZER_FILES:
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, made / name)
    return True


def _play(run: _Run, made: Path, console: Console) -> dict[str, Figure]:
    """Figures of the written files on the held-out tasks, as the run judged."""
    rollout = replace(run.rollout, engine="embedded", url="")
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            RolloutJob(it, run.split[it.name].evaluate, Path(folder) / it.name)
            for it in run.environments
        ]
        done = play(rollout, RolloutPolicy(policy=str(made)), jobs, console=console)
        return {it.environment: read_metric(it) for it in done}


def _card(
    name: str,
    run: _Run,
    seed: int,
    played: Mapping[str, Figure],
    stored_as: StoredAs,
    weights: str,
) -> AgentCard:
    return AgentCard(
        name=name,
        temperature=0.0,
        max_new_tokens=run.rollout.max_new_tokens,
        environments={
            it.name: PlaySettings(
                profile=it.profile,
                options=dict(it.options),
                conversation_start=it.conversation_start,
                max_rounds=it.max_rounds,
                items=run.split[it.name].evaluate,
            )
            for it in run.environments
        },
        figures={name: _figure(it) for name, it in played.items()},
        made={
            "algorithm": "AgentEvol",
            "seed": seed,
            "checkpoint": run.chosen[seed],
            "stored_as": stored_as,
            "weights": weights,
        },
    )


def _figure(figure: Figure) -> AgentFigure:
    mean, interval = figure.mean, figure.interval
    if mean is None:
        raise TrainingError(f"no episode of {figure.environment} was finished")
    return AgentFigure(
        metric="mean score" if figure.by_score else "success rate",
        value=round(mean, 4),
        low=round(interval.low if interval else mean, 4),
        high=round(interval.high if interval else mean, 4),
        episodes=len(figure.values),
    )


def _require_small(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > _LARGEST:
        raise TrainingError(
            f"the agent has {size / 1e6:.1f} MB; what is shipped has at most {_LARGEST / 1e6:.0f}"
        )


# The README -----------------------------------------------------------------------


def _readme(run: _Run, seed: int, why: str, card: AgentCard, played: Mapping[str, Figure]) -> str:
    names = [it.name for it in run.environments]
    rows = [
        Row(name, metrics_from_plain(row["figures"]), row["note"]) for name, row in run.rows.items()
    ]
    rows.append(Row("**this agent**", played, run.learned_from(seed)))
    return _README.format(
        name=card.name,
        model=_model_line(run.checkpoint(seed), str(card.made["stored_as"])),
        recipe=_recipe_lines(run),
        seed=seed,
        why=why,
        checkpoint=run.chosen[seed],
        seeds="one seed" if len(run.chosen) == 1 else f"{len(run.chosen)} seeds",
        table=as_markdown(rows, names),
        settings=_settings_table(card),
    )


_README: Final = """# The agent {name}

What `python -m orchestrator.sample` plays beside expert and random. {model}

Made by `python -m training.agentevol`, then `python -m training.ship`, from nothing but episodes of
this project: the scripted experts', then the agent's own that earned reward. No published
weights, conversations or texts went into it.

{recipe}
- Shipped: seed {seed} ({why}), {checkpoint}.

## Figures

Percent on tasks that were held out from learning, greedy, 95 % intervals clustered by item. The
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


def _model_line(checkpoint: Path, stored_as: str) -> str:
    a = read_architecture(checkpoint)
    return (
        f"A Llama of {a.parameters / 1e6:.1f} million parameters\n({a.layers} layers of "
        f"{a.hidden_size}, {a.vocab_size} tokens, contexts of {a.positions}), in {stored_as}."
    )


def _recipe_lines(run: _Run) -> str:
    recipe = run.recipe
    cloning = cast("Mapping[str, Any]", recipe.get("cloning") or {})
    lines = [
        f"- {it.name}: {it.base_tasks} expert episodes; {it.explore or 'all'} tasks explored in "
        f"each iteration; judged on {len(run.split[it.name].evaluate)}."
        for it in run.environments
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


def _settings_table(card: AgentCard) -> str:
    lines = ["| environment | reset options | opening | rounds |", "|---|---|---|---|"]
    for name, it in card.environments.items():
        options = json.dumps(dict(it.options), sort_keys=True) if it.options else "its own"
        opening = " / ".join(it.conversation_start) or "its own"
        rounds = str(it.max_rounds) if it.max_rounds else "its own number"
        lines.append(f"| {name} | `{options}` | {opening} | {rounds} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    return run_command(Ship, _act, argv, program="python -m training.ship")


def _act(config: Ship) -> int:
    console = make_console(stderr=True)
    shipment = ship(config, console)
    names = list(shipment.played)
    rows = [Row("in its run", shipment.recorded), Row("as shipped", shipment.played)]
    console.print(as_table(rows, names, title=f"agent {shipment.card.name}, {shipment.folder}"))
    size = sum(path.stat().st_size for path in shipment.folder.iterdir())
    console.print(f"{size / 1e6:.1f} MB, {shipment.card.made['stored_as']}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
