"""From a finished run of AgentEvol to an agent's folder; no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agent_runtime.agents import read_agent_manifest
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.engine.tensor_file import read_tensors, write_tensors
from orchestrator import sample
from orchestrator.store import RunReader
from tests.agent_runtime.tiny_arrays import save_chat_model
from training import agent_files
from training import ship as shipping
from training.errors import OutputOccupied, RecipeError, TrainingError
from training.ship import ExportAgent, export_agent, main

ITEMS = ["maze_2000001", "maze_2000004"]


def figure(*values: float) -> dict[str, Any]:
    pairs = [[item, value] for item, value in zip(ITEMS, values, strict=True)]
    return {"maze": {"environment": "maze", "by_score": False, "values": pairs}}


def stage(result: object) -> dict[str, Any]:
    return {"result": result, "seconds": 1.0}


def write_run(folder: Path, *, validated: bool = False) -> Path:
    """Two seeds; the second is better on what judged, the first on what validated."""
    environment = {
        "name": "maze",
        "base": 1,
        "large": 1,
        "explore": 2,
        "evaluate": 2,
        "opening": ["maze", "OK"],
        "options": {"rows": 7, "columns": 7, "instructions": ""},
        "max_rounds": 2,
    }
    finished = {
        "tasks": stage(
            {
                "maze": {
                    "base": ["maze_1000000"],
                    "large": ["maze_1000000"],
                    "explore": ["maze_1000000", "maze_1000001"],
                    "evaluate": ITEMS,
                    "validate": ["maze_1000005", "maze_1000006"],
                }
            }
        ),
        "expert": stage({"maze base": 1, "maze large": 1}),
    }
    for seed in (0, 1):
        checkpoint = folder / f"seed-{seed}" / "iteration-2" / "final"
        save_chat_model(checkpoint, seed=seed, max_position_embeddings=1024)
        finished[f"seed-{seed}/judge-iteration-2"] = stage(figure(0.0, 0.0))
        finished[f"seed-{seed}/select-2"] = stage({"maze": {"kept": 3 + seed}})
        finished[f"seed-{seed}/validate-iteration-2"] = stage(figure(1.0 - seed, 0.0))
    finished["seed-1/judge-iteration-2"] = stage(figure(1.0, 0.0))
    recipe = {
        "out": "/somewhere/else",
        "environments": [environment],
        "players": {"max_new_tokens": 4, "fleet": {"spawn": 1}, "embedded": {"max_slots": 2}},
        "iterations": 2,
        "temperature": 1.0,
        "choose": "validation" if validated else "last",
        "seeds": [0, 1],
        "cloning": {"epochs": 5},
    }
    rows = {
        "random": {"mean": 0.5, "note": "", "figures": figure(0.0, 1.0)},
        "AgentEvol": {"mean": 0.5, "note": "1 expert + 4 own episodes", "figures": figure(1, 0)},
    }
    checkpoints = [f"/somewhere/else/seed-{seed}/iteration-2/final" for seed in (0, 1)]
    state = {"layout": 1, "recipe": recipe, "finished": finished}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "results.json").write_text(json.dumps({"rows": rows, "checkpoints": checkpoints}))
    return folder


def quiet() -> Console:
    return Console(quiet=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("evolution"))


@pytest.fixture(scope="module")
def agent(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shipped") / "walker"
    assert main([str(run), "--out", str(out), "--seed", "0", "--name", "walker"]) == 0
    return out


def test_the_folder_has_what_an_agent_needs_and_no_machine_in_it(agent: Path) -> None:
    names = {path.name for path in agent.iterdir()}
    assert names == {
        *("agent.json", "README.md", "config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json"),
    }
    for name in ("agent.json", "README.md", "config.json"):
        assert "/somewhere" not in (agent / name).read_text()
        assert str(agent.parent) not in (agent / name).read_text()


def test_the_card_says_what_it_plays_and_what_its_files_scored(agent: Path) -> None:
    manifest = read_agent_manifest(agent)
    settings = manifest.environments["maze"]
    assert (manifest.name, manifest.temperature, manifest.max_new_tokens) == ("walker", 0.0, 4)
    assert settings.items == tuple(ITEMS)
    assert settings.conversation_start == ("maze", "OK")
    assert settings.options == {"rows": 7, "columns": 7, "instructions": ""}
    assert settings.max_rounds == 2
    # A random model reaches no goal.
    assert (manifest.metrics["maze"].value, manifest.metrics["maze"].episodes) == (0.0, 2)
    assert manifest.provenance["weights"] == weights_digest(agent)
    assert manifest.provenance["stored_as"] == "float16"


def test_the_readme_has_the_runs_figures_and_how_it_was_made(agent: Path) -> None:
    text = (agent / "README.md").read_text()
    assert "| random | 50.0" in text
    assert "| **this agent** | 0.0" in text
    assert "1 expert + 3 own episodes" in text
    assert "seed 0 (named), iteration-2" in text
    assert "Apache-2.0" in text


def test_it_plays_in_its_settings_by_its_folder(agent: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ["--policy", f"agent:{agent}", "--spawn", "1", "--embedded.backend", "numpy"]
    assert sample.main([*flags, "--out", str(out)]) == 0
    with RunReader.open(out) as reader:
        records = list(reader.episodes())
    assert sorted(it.item_id for it in records) == ITEMS
    assert all(len(it.steps) == 3 for it in records)


def written(*_: object) -> dict[str, shipping.Metric]:
    plain = figure(1.0, 0.0)["maze"]
    return {"maze": shipping.Metric.from_plain(plain)}


@pytest.mark.parametrize(("validated", "seed"), [(False, 1), (True, 0)])
def test_the_best_seed_is_chosen_by_validation_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validated: bool, seed: int
) -> None:
    monkeypatch.setattr(shipping, "_play", written)
    folder = tmp_path / "run"
    folder.mkdir()
    done = export_agent(
        ExportAgent(run=write_run(folder, validated=validated), out=tmp_path / "a"), quiet()
    )
    assert done.manifest.provenance["seed"] == seed


def test_half_precision_that_changes_a_figure_is_not_taken(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_play", written)
    # Seed 0 scored nothing in its run, so whatever is played differs.
    done = export_agent(ExportAgent(run=run, out=tmp_path / "a", seed=0), quiet())
    assert done.manifest.provenance["stored_as"] == "float32"
    forced = export_agent(
        ExportAgent(run=run, out=tmp_path / "b", seed=0, stored_as="bfloat16"), quiet()
    )
    assert forced.manifest.provenance["stored_as"] == "bfloat16"


def test_numbers_beyond_float16_stay_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_play", written)
    run = write_run(tmp_path)
    path = run / "seed-1" / "iteration-2" / "final" / "model.safetensors"
    tensors = read_tensors(path)
    tensors["model.norm.weight"] *= 1e6
    write_tensors(path, tensors, "float32")
    done = export_agent(ExportAgent(run=run, out=tmp_path / "a", seed=1), quiet())
    assert done.manifest.provenance["stored_as"] == "float32"
    with pytest.raises(TrainingError, match="stored_as"):
        export_agent(ExportAgent(run=run, out=tmp_path / "b", seed=1, stored_as="float16"), quiet())


def test_an_agent_that_is_too_large_is_refused_and_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_files, "_LARGEST", 1000)
    with pytest.raises(TrainingError, match="MB"):
        export_agent(ExportAgent(run=run, out=tmp_path / "a"), quiet())
    assert list(tmp_path.iterdir()) == []


def test_only_an_agent_is_replaced_and_only_when_asked(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_play", written)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("chapter one")
    with pytest.raises(OutputOccupied, match="no agent"):
        export_agent(ExportAgent(run=run, out=foreign, overwrite=True), quiet())
    export_agent(ExportAgent(run=run, out=tmp_path / "a", seed=1), quiet())
    with pytest.raises(OutputOccupied, match="--overwrite"):
        export_agent(ExportAgent(run=run, out=tmp_path / "a", seed=1), quiet())
    export_agent(
        ExportAgent(run=run, out=tmp_path / "a", seed=1, name="new", overwrite=True), quiet()
    )
    assert read_agent_manifest(tmp_path / "a").name == "new"


def test_what_is_no_finished_run_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no finished run"):
        export_agent(ExportAgent(run=tmp_path, out=tmp_path / "a"), quiet())
    with pytest.raises(RecipeError, match="0, 1"):
        export_agent(ExportAgent(run=run, out=tmp_path / "a", seed=7), quiet())
