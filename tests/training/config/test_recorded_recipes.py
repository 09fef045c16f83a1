"""Recipes as runs of version 0.1.0 recorded them: read by today's trees, and resumable."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from orchestrator.configuration import to_plain
from training.config.recipe import build, load_recipe, recipe_differences

pytestmark = pytest.mark.torch

RECIPES = Path(__file__).parents[3] / "recipes"
RECORDED = Path(__file__).parent / "recorded_recipes"
KINDS = {
    "agentevol-tiny": "agentevol:AgentEvolRecipe",
    "agentevol-h100": "agentevol:AgentEvolRecipe",
    "grpo-tiny": "grpo:GRPORecipe",
    "bc-1b-h100": "bc:BcRecipe",
    "dpo": "dpo:DpoRecipe",
}
REACH = {
    "rollout.client.answer_deadline",
    "rollout.client.connect_deadline",
    "rollout.fleet.wait_for_servers",
}
"""Keys that are new, have a value, and may differ in a resume."""

REPLACED = "agentevol-h100"
"""Another experiment since then; what it was is kept beside what was recorded."""


def load_today(name: str) -> Any:
    folder = RECORDED if name == REPLACED else RECIPES
    return load_recipe(recipe_class(name), folder / f"{name}.toml", {})


def recipe_class(name: str) -> type[Any]:
    module, kind = KINDS[name].split(":")
    return getattr(importlib.import_module(f"training.{module}"), kind)


@pytest.mark.parametrize("name", KINDS)
def test_a_run_that_was_recorded_with_old_keys_can_be_resumed(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    today = load_today(name)
    changes = recipe_differences(recorded, to_plain(today))
    assert [str(change) for change in changes if change.field not in REACH] == []


@pytest.mark.parametrize("name", KINDS)
def test_a_recorded_recipe_is_that_of_today(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())
    today = load_today(name)
    assert build(recipe_class(name), recorded) == today
