"""An agent's manifest, and the one that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_runtime.agents import (
    BUNDLED_AGENT,
    AgentManifest,
    AgentMetric,
    PlaySettings,
    agent_folder,
    read_agent_manifest,
    write_agent_manifest,
)
from agent_runtime.engine.checkpoint import weights_digest
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.huggingface import HuggingFaceRenderer

MANIFEST = AgentManifest(
    name="walker",
    temperature=0.0,
    max_new_tokens=8,
    environments={
        "maze": PlaySettings(
            options={"rows": 7},
            conversation_start=("maze", "OK"),
            max_rounds=5,
            items=("maze_1", "maze_2"),
        ),
        "echo": PlaySettings(),
    },
    metrics={"maze": AgentMetric(metric="success rate", value=0.5, low=0.1, high=0.9, episodes=2)},
    provenance={"seed": 0},
)


def test_a_manifest_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_agent_manifest(tmp_path, MANIFEST)
    assert read_agent_manifest(tmp_path) == MANIFEST
    assert read_agent_manifest(agent_folder(str(tmp_path))).sampling().temperature == 0


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"layout": 2},
        {"environments": {}},
        {"environments": {"maze": {"opening": ["one"]}}},
        {"environments": {"maze": {"wheels": 4}}},
        {"max_new_tokens": 0},
        {"surprise": 1},
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    write_agent_manifest(tmp_path, MANIFEST)
    document = json.loads((tmp_path / "agent.json").read_text())
    (tmp_path / "agent.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(PolicyMisconfigured, match=r"agent\.json"):
        read_agent_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_agent(tmp_path: Path) -> None:
    with pytest.raises(PolicyMisconfigured, match=r"training\.ship"):
        agent_folder(str(tmp_path))


def test_the_bundled_agent_is_small_and_says_what_it_is() -> None:
    manifest = read_agent_manifest(agent_folder(""))
    files = [path for path in BUNDLED_AGENT.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 20_000_000
    assert {"README.md", "agent.json", "config.json"} <= {path.name for path in files}
    assert manifest.provenance["weights"] == weights_digest(BUNDLED_AGENT)
    for name, settings in manifest.environments.items():
        assert len(set(settings.items)) == len(settings.items) >= 40
        assert manifest.metrics[name].episodes == len(settings.items)


def test_the_bundled_agents_own_template_ends_its_turns() -> None:
    assert HuggingFaceRenderer(BUNDLED_AGENT).stop_ids


def test_an_agent_that_was_exported_under_the_old_names_is_read(tmp_path: Path) -> None:
    write_agent_manifest(tmp_path, MANIFEST)
    document = json.loads((tmp_path / "agent.json").read_text())
    document["figures"], document["made"] = document.pop("metrics"), document.pop("provenance")
    maze = document["environments"]["maze"]
    maze["opening"] = maze.pop("conversation_start")
    (tmp_path / "agent.json").write_text(json.dumps(document))
    assert read_agent_manifest(tmp_path) == MANIFEST
