"""From a run of behavioural cloning to an agent's folder, judged in own settings; no torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from agent_runtime.agents import AgentMetric, read_agent_manifest
from agent_runtime.engine.checkpoint import read_architecture
from orchestrator import sample
from orchestrator.config import RunConfig, parse_policies
from orchestrator.errors import UsageError
from orchestrator.store import RunReader
from tests.agent_runtime.tiny_arrays import save_chat_model
from training.data.contents import record_content
from training.data.dataset import DatasetWriter
from training.data.sequences import Provenance, TokenSequence
from training.errors import RecipeError, TrainingError
from training.ship import ExportAgent, export_agent, main

TASKS = 3


def write_run(folder: Path, contents: list[str], *, finished: bool = True) -> Path:
    """A training on one episode for each content, learned from twice."""
    save_chat_model(folder / "final", max_position_embeddings=4096)
    recipe = {"algorithm": "bc", "recipe": {"batch": {"sequences": 8}}, "run_id": "r"}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    writer = DatasetWriter(folder / "data" / "train", context=100)
    for number, content in enumerate(contents):
        origin = Provenance(
            source="expert",
            name=f"e{number}",
            environment="maze",
            item_id=f"i{number}",
            content=content,
        )
        ids, mask = np.arange(4, dtype=np.uint32), np.array([False, False, True, True])
        sequence = TokenSequence(ids=ids, mask=mask, logprobs=None, origin=origin)
        writer.add_record([sequence, sequence])
    writer.close()
    if finished:
        (folder / "report.json").write_text(json.dumps({"steps": 7}))
    return folder


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The tasks that judge, by item id, with their contents."""
    out = tmp_path_factory.mktemp("judges") / "run"
    flags = ["--env", "maze", "--policy", "expert", "--episodes", str(TASKS), "--spawn", "1"]
    assert sample.main([*flags, "--out", str(out)]) == 0
    with RunReader.open(out) as reader:
        return {it.item_id: record_content(it) for it in reader.episodes()}


@pytest.fixture(scope="module")
def agent(known: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("cloned")
    learned = [known[min(known)], "0123456789abcdef", "0123456789abcdef"]
    run = write_run(work / "run", learned)
    flags = ["--episodes", str(TASKS), "--max-new-tokens", "4", "--stored-as", "int8"]
    assert main([str(run), "--out", str(work / "agent"), *flags, "--name", "copycat"]) == 0
    return work / "agent"


def test_a_task_whose_content_was_learned_from_counts_for_nobody(
    agent: Path, known: dict[str, str]
) -> None:
    manifest = read_agent_manifest(agent)
    judged = tuple(sorted(set(known) - {min(known)}))
    assert manifest.environments["maze"].items == judged
    assert manifest.metrics["maze"].episodes == manifest.random["maze"].episodes == len(judged)
    text = (agent / "README.md").read_text()
    assert "3 expert episodes of 2 contents" in text
    assert "1 left out" in text


def test_its_settings_are_the_environments_own(agent: Path) -> None:
    manifest = read_agent_manifest(agent)
    settings = manifest.environments["maze"]
    assert (settings.options, settings.conversation_start, settings.max_rounds) == ({}, (), 0)
    assert (manifest.temperature, manifest.max_new_tokens) == (0.0, 4)
    assert manifest.provenance["stored_as"] == "int8"
    assert read_architecture(agent).dtype == "float32"


def test_an_agent_that_does_not_beat_random_is_not_demonstrated(agent: Path) -> None:
    # A model of random weights.
    assert read_agent_manifest(agent).demonstrated == ()
    assert (
        "interval lies above the random player's in: nowhere" in (agent / "README.md").read_text()
    )
    policies = parse_policies(f"agent:{agent}")
    with pytest.raises(UsageError, match="beats a random player nowhere"):
        RunConfig(suite="demo", policies=policies).resolve()
    named = RunConfig(environments=("maze",), policies=policies).resolve()
    assert named.environments == ("maze",)


def test_what_is_demonstrated_has_its_interval_above_the_random_players(agent: Path) -> None:
    manifest = read_agent_manifest(agent)

    def figure(low: float, high: float) -> AgentMetric:
        return AgentMetric(metric="success rate", value=low, low=low, high=high, episodes=9)

    environments = dict.fromkeys(("a", "b", "c"), manifest.environments["maze"])
    shown = type(manifest)(
        name="x",
        temperature=0,
        max_new_tokens=1,
        environments=environments,
        metrics={"a": figure(0.4, 0.6), "b": figure(0.2, 0.5)},
        random={"a": figure(0.1, 0.3), "b": figure(0.1, 0.3), "c": figure(0, 0)},
    )
    assert shown.demonstrated == ("a",)


def test_a_run_that_cannot_be_judged_honestly_is_refused(tmp_path: Path) -> None:
    quiet = Console(quiet=True)

    def export(run: Path, seed: int | None = None) -> None:
        export_agent(ExportAgent(run=run, out=tmp_path / "agent", seed=seed), quiet)

    with pytest.raises(TrainingError, match="not finished"):
        export(write_run(tmp_path / "begun", ["00"], finished=False))
    with pytest.raises(TrainingError, match="does not tell in which state"):
        export(write_run(tmp_path / "untold", [""]))
    with pytest.raises(RecipeError, match="agentevol"):
        export(write_run(tmp_path / "seeded", ["00"]), seed=1)
    assert not (tmp_path / "agent").exists()
