from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

from rich.console import Console

from orchestrator.configuration import dump_toml, to_plain
from orchestrator.store import RunReader
from orchestrator.viewer.library import Library
from orchestrator.viewer.trainings import Trainings
from training.agentevol import AgentEvolRecipe, SharedStages, evolve, main, plan
from training.bc import BcRecipe
from training.config.recipe import build, load_recipe
from training.config.start import Start
from training.data.dataset import TokenDataset
from training.errors import OutputOccupied, RecipeChanged, RecipeError
from training.grpo import GRPORecipe
from training.runs.run_dir import RunDir
from training.trainer.models import ModelConfig

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]

RECIPES = Path(__file__).parents[2] / "recipes"


def values(out: Path, *, wordle: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A run of seconds: everything that was explored is kept, whatever it scored. Changes are to
    the recipe, those in `wordle` to its one environment.
    """
    return {
        "out": str(out),
        "iterations": 2,
        "temperature": 1.0,
        "baselines": ["random"],
        "cloning": {
            "context": 512,
            "epochs": 100,
            "max_steps": 16,
            "device": "cpu",
            "model": {
                "precision": "float32",
                "init": {
                    "hidden_size": 48,
                    "layers": 2,
                    "heads": 2,
                    "context": 512,
                    "tokenizer": {"vocab_size": 320, "multiword_tokens": 20},
                },
            },
            "batch": {"sequences": 6, "micro_tokens": 1024},
            "optimizer": {"lr": 5e-3, "warmup": 4, "beta2": 0.95},
            "save": {"state_every": 8},
            "tracking": {"tensorboard": False, "print_every": 0},
        },
        "rollout": {
            "max_new_tokens": 24,
            "fleet": {"spawn": 1},
            "embedded": {"context_length": 512, "max_slots": 16, "threads": 1},
        },
        "environments": [
            {
                "name": "wordle",
                "train": "official_train",
                "evaluation": "official_train",
                "base_tasks": 6,
                "large_tasks": 9,
                "explore": 8,
                "evaluate": 6,
                "conversation_start": ["wordle", "OK"],
                "options": {"instructions": "guess"},
                "threshold": -1.0,
                **(wordle or {}),
            }
        ],
        **changes,
    }


def recipe(out: Path, **changes: Any) -> AgentEvolRecipe:
    return build(AgentEvolRecipe, values(out, **changes))


def quiet() -> Console:
    return Console(quiet=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("evolution") / "run"
    evolve(recipe(out), console=quiet())
    return out


# What a run leaves behind --------------------------------------------------------


def test_the_table_has_the_rows_of_the_paper(finished):
    results = json.loads((finished / "results.json").read_text())
    assert list(results["rows"]) == ["random", "BC_base", "BC_large", "AgentEvol"]
    assert len(results["iterations"]) == 3
    assert "| AgentEvol |" in (finished / "table.md").read_text()
    assert results["rows"]["AgentEvol"]["note"] == "6 expert + 8 own episodes"
    for checkpoint in results["checkpoints"]:
        assert (Path(checkpoint) / "model.safetensors").is_file()


def test_a_published_model_is_evaluated_before_it_is_trained(finished, tmp_path):
    with pytest.raises(RecipeError, match=r"untrained is a published model: set cloning\.model"):
        recipe(tmp_path / "run", baselines=["untrained"])
    published = ModelConfig(path=str(finished / "seed-0" / "base"), precision="float32")
    scratch = recipe(tmp_path / "run")
    cloning = replace(scratch.cloning, model=published)
    wanted = replace(scratch, cloning=cloning, baselines=("untrained",))
    run_dir = RunDir.open(wanted.out, to_plain(wanted), algorithm="agentevol")
    console = Console(record=True, quiet=False, file=io.StringIO())
    SharedStages(wanted, run_dir, console).prepare()
    assert run_dir.finished == ("tasks", "expert", "baseline-untrained")
    with RunReader.open(wanted.out / "evaluation" / "baseline-untrained" / "wordle") as reader:
        assert {it.policy for it in reader.summaries()} == {f"embedded:{published.path}"}
    assert "evaluation/baseline-untrained: wordle" in console.export_text()


def test_agents_are_judged_on_tasks_that_nobody_learned_from(finished):
    judged, learned = set(), set()
    for folder in (finished / "seed-0" / "evaluation").iterdir():
        judged |= items_of(folder / "wordle")
    for folder in (finished / "expert", *(finished / "seed-0").glob("explore-*")):
        learned |= items_of(folder / "wordle")
    assert len(judged) == 6
    assert judged.isdisjoint(learned)


def items_of(folder: Path) -> set[str]:
    with RunReader.open(folder) as reader:
        return {it.item_id for it in reader.summaries()}


def test_every_training_begins_at_the_base_and_takes_the_episodes_as_they_were_sampled(finished):
    dataset = TokenDataset(finished / "seed-0" / "iteration-2" / "data" / "train")
    recorded = json.loads((finished / "seed-0" / "iteration-2" / "recipe.json").read_text())
    assert recorded["recipe"]["model"]["path"].endswith("seed-0/base")
    origins = list(dataset.origins())
    assert sum(it.policy == "expert" for it in origins) == 6
    own = [number for number, it in enumerate(origins) if it.policy != "expert"]
    assert own
    with RunReader.open(finished / "seed-0" / "explore-2" / "wordle") as reader:
        for number in own:
            sequence = dataset[number]
            episode = reader.get_by_id(origins[number].name)
            ids = list(episode.token_segments[origins[number].segment].ids)
            assert sequence.ids.tolist() == ids[: len(sequence)]
            assert sequence.logprobs is not None


# Going on ----------------------------------------------------------------------


def test_a_run_that_is_stopped_after_every_stage_ends_with_the_same_table(finished, tmp_path):
    stops = 0
    original = RunDir.stage

    def stop_after_new(self: RunDir, name: str, work: Any) -> dict[str, Any]:
        known = name in self.finished
        result = original(self, name, work)
        if not known:
            raise KeyboardInterrupt
        return result

    wanted = recipe(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDir, "stage", stop_after_new)
        while True:
            try:
                evolve(wanted, start=Start.RESUME, console=quiet())
                break
            except KeyboardInterrupt:
                stops += 1
    assert stops == len(RunDir.read(wanted.out).finished) == 16
    assert (wanted.out / "table.md").read_text() == (finished / "table.md").read_text()


@pytest.mark.slow
def test_a_run_that_is_killed_within_its_stages_ends_with_the_same_table(finished, tmp_path):
    wanted = recipe(tmp_path / "run")
    path = tmp_path / "recipe.toml"
    path.write_text(dump_toml(wanted))
    command = [sys.executable, "-m", "training.agentevol", str(path), "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for reached in ("tasks", "seed-0/base-model", "seed-0/judge-bc-base", "seed-0/select-1"):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        wait_for_stage(wanted.out / "state.json", reached)
        time.sleep(1.0)  # somewhere within the next stage
        process.kill()
        process.wait()
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    assert (wanted.out / "table.md").read_text() == (finished / "table.md").read_text()


@pytest.mark.slow
def test_a_run_goes_on_with_the_engine_in_a_process_of_its_own(finished, tmp_path):
    here = recipe(tmp_path / "run")
    embedded = replace(here.rollout.embedded, process=True)
    moved = replace(here, rollout=replace(here.rollout, embedded=embedded))
    original = RunDir.stage

    def stop_after_exploring(self: RunDir, name: str, work: Any) -> dict[str, Any]:
        result = original(self, name, work)
        if name == "seed-0/explore-1":
            raise KeyboardInterrupt
        return result

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunDir, "stage", stop_after_exploring)
        evolve(here, console=quiet())
    evolve(moved, start=Start.RESUME, console=quiet())
    assert (moved.out / "table.md").read_text() == (finished / "table.md").read_text()


def wait_for_stage(state: Path, name: str) -> None:
    for _ in range(2400):
        if state.is_file() and name in json.loads(state.read_text())["finished"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"stage {name} was not reached")


def test_a_finished_run_only_reports_again(finished):
    before = (finished / "state.json").read_bytes()
    report = evolve(recipe(finished), start=Start.RESUME, console=quiet())
    assert (finished / "state.json").read_bytes() == before
    assert report.rows[-1].name == "AgentEvol"


def test_nothing_is_overwritten_unless_asked_for(finished):
    with pytest.raises(OutputOccupied, match="--overwrite"):
        evolve(recipe(finished), console=quiet())
    with pytest.raises(RecipeChanged, match=r"temperature: 1\.0 -> 0\.5"):
        evolve(recipe(finished, temperature=0.5), start=Start.RESUME, console=quiet())


def test_a_plan_writes_nothing(tmp_path):
    split = plan(recipe(tmp_path / "run"), console=quiet())
    assert len(split["wordle"].explore) == 8
    assert not (tmp_path / "run").exists()


# Variants -------------------------------------------------------------------------


def test_two_seeds_that_weight_learn_from_every_rewarded_episode_by_its_reward(tmp_path):
    wanted = recipe(
        tmp_path / "run",
        use="weight",
        merge="previous",
        iterations=1,
        large=False,
        baselines=[],
        seeds=[0, 1],
        choose="validation",
        wordle={"threshold": None, "validate": 3},
    )
    report = evolve(wanted, console=quiet())
    assert len(report.checkpoints) == 2
    assert len(report.rows[-1].metrics["wordle"].values) == 2 * 6
    explored = tmp_path / "run" / "seed-0" / "explore-1"
    kept = [json.loads(it) for it in (explored / "wordle-kept.jsonl").read_text().splitlines()]
    assert all(0 < it["weight"] <= 1 for it in kept)
    with RunReader.open(explored / "wordle") as reader:
        rewarded = {it.item_id for it in reader.summaries() if (it.reward or 0) > 0}
    assert {it["item_id"] for it in kept} == rewarded
    assert len(items_of(tmp_path / "run/seed-0/validation/iteration-1/wordle")) == 3


def test_seeds_side_by_side_give_the_same_table_as_one_after_the_other(finished, tmp_path):
    wanted = recipe(tmp_path / "run", seeds=[0, 1], max_workers=2, iterations=1)
    evolve(wanted, console=quiet())
    alone = recipe(tmp_path / "alone", seeds=[0, 1], iterations=1)
    evolve(alone, console=quiet())
    assert (wanted.out / "table.md").read_text() == (alone.out / "table.md").read_text()


@pytest.mark.parametrize("samples", [0, 3])
def test_pretraining_reads_every_token_of_a_player_and_gives_all_seeds_one_base(tmp_path, samples):
    wanted = recipe(
        tmp_path / "run",
        wordle={"pretrain_samples": samples},
        seeds=[0, 1],
        iterations=1,
        large=False,
        baselines=[],
        pretraining={"player": "random", "samples": 2, "epochs": 1},
    )
    evolve(wanted, console=quiet())
    read = TokenDataset(wanted.out / "pretraining" / "base" / "data" / "train")
    assert read.summary.records == (samples or 2) * 8
    assert read.summary.targets == read.summary.tokens - read.summary.sequences
    for seed in (0, 1):
        recorded = json.loads((wanted.out / f"seed-{seed}/bc-base/recipe.json").read_text())
        assert recorded["recipe"]["model"]["path"].endswith("pretraining/base/final")


@pytest.mark.parametrize("samples", [0, 3])
def test_an_environment_may_be_explored_with_samples_of_its_own(tmp_path, samples):
    wanted = recipe(
        tmp_path / "run",
        wordle={"samples": samples},
        samples=2,
        iterations=1,
        large=False,
        baselines=[],
    )
    evolve(wanted, console=quiet())
    finished = json.loads((wanted.out / "state.json").read_text())["finished"]
    assert finished["seed-0/select-1"]["result"]["wordle"]["episodes"] == (samples or 2) * 8


# Recipes -----------------------------------------------------------------------


# GRPO as a control of AgentEvol's: a recipe of this program.
EVOLVING = [
    *sorted(RECIPES.glob("agentevol-*.toml")),
    *(RECIPES / f"grpo-{name}.toml" for name in ("babyai", "wordle")),
]


@pytest.mark.parametrize("path", EVOLVING, ids=lambda it: it.name)
def test_every_recipe_of_agentevol_can_be_read(path):
    wanted = load_recipe(AgentEvolRecipe, path, {})
    assert build(AgentEvolRecipe, to_plain(wanted)) == wanted


def test_the_recipe_of_grpo_can_be_read():
    wanted = load_recipe(GRPORecipe, RECIPES / "grpo-tiny.toml", {})
    assert build(GRPORecipe, to_plain(wanted)) == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iteration": 3}, "did you mean iterations"),
        ({"iterations": -1}, "iterations and temperature at least 0"),
        ({"seeds": [1, 1]}, "none of them twice"),
        ({"choose": "validation"}, "needs validate"),
        ({"merge": "all"}, "merge: cannot be 'all'"),
        ({"environments": []}, "at least one"),
        ({"max_workers": 0}, "max_workers are at least 1"),
        ({"pretraining": {"epochs": 0}}, "epochs are at least 1"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_refused_with_its_field(tmp_path, changes, message):
    with pytest.raises(RecipeError, match=message):
        recipe(tmp_path, **changes)


def test_the_command_ends_with_2_for_a_recipe_with_an_unknown_key(tmp_path, capsys):
    path = tmp_path / "recipe.toml"
    path.write_text('out = "x"\nexplore = 3\n')
    assert main([str(path)]) == 2
    assert "unknown key" in capsys.readouterr().err


def test_a_recipe_of_cloning_survives_its_way_to_torchrun(tmp_path):
    wanted = build(
        BcRecipe,
        {
            "out": str(tmp_path / "out"),
            "model": {"path": 'odd "name"', "precision": "float32"},
            "data": {"sources": [{"path": "a", "thresholds": {"maze": 0.5}, "weight": 0.25}]},
        },
    )
    (tmp_path / "recipe.toml").write_text(dump_toml(wanted))
    assert load_recipe(BcRecipe, tmp_path / "recipe.toml", {}) == wanted
    assert replace(wanted, epochs=2) != wanted


# The mini recipe, as a user runs it ------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_mini_recipe_learns(tmp_path):
    pytest.importorskip("minigrid", reason="the extra `babyai` is not installed")
    wanted = load_recipe(
        AgentEvolRecipe, RECIPES / "agentevol-mini.toml", {"out": str(tmp_path / "run")}
    )
    report = evolve(wanted, console=quiet())
    means = {row.name: row.mean or 0.0 for row in report.rows}
    assert means["BC_base"] > means["random"]
    kept = [sum(counts.values()) for counts in report.selected.values()]
    assert kept[-1] > kept[0] > 0


# What the viewer shows ---------------------------------------------------------


def test_the_viewer_leads_from_a_real_run_to_every_agent_and_its_episodes(finished):
    library = Library([finished])
    trainings = Trainings(library)
    try:
        (line,) = trainings.lines()
        assert (line["state"], line["progress"]) == ("finished", "2 of 2 iterations")
        data = trainings.training({"training": finished.name})
        agents = {it["agent"]: it for it in data["agents"]}
        assert list(agents) == ["random", "BC_base", "BC_large", "iteration 1", "iteration 2"]
        results = json.loads((finished / "results.json").read_text())
        means = [
            it["scores"]["wordle"]["value"] for it in data["pooled"] if "large" not in it["agent"]
        ]
        assert means == pytest.approx([it["wordle"] for it in results["iterations"]])
        kept = {it["agent"]: it["kept"] for it in data["pooled"] if it["kept"]}
        assert {name[-1]: it["wordle"]["kept"] for name, it in kept.items()} == {
            number: it["wordle"] for number, it in results["kept"].items()
        }
        last = agents["iteration 2"]
        for run in (last["explored"]["wordle"], last["scores"]["wordle"]["run"]):
            assert run in library.folders()
        nested = trainings.training({"training": last["training"]})
        assert (nested["algorithm"], nested["state"]) == ("bc", "finished")
        assert nested["curves"]["loss"]["values"][-1] == pytest.approx(last["learned"]["loss"])
    finally:
        library.close()
