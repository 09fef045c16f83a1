"""The recipe of GRPO that everybody can run in minutes, shortened: sampled play gets better."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

from rich.console import Console

from training.agentevol import AgentEvolRecipe, evolve
from training.config.recipe import load_recipe

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

RECIPE = Path(__file__).parents[2] / "recipes" / "grpo-wordle.toml"


def test_sampled_play_rises_on_the_tasks_that_are_learned_from(tmp_path):
    recipe = load_recipe(AgentEvolRecipe, RECIPE, {})
    assert recipe.grpo is not None
    # Every task is met in every other step: steps that are compared have the same tasks.
    recipe = replace(
        recipe,
        out=tmp_path / "run",
        seeds=(0,),
        baselines=(),
        environments=(replace(recipe.environments[0], explore=40, evaluate=40),),
        grpo=replace(recipe.grpo, steps=40, tasks=20),
    )
    evolve(recipe, console=Console(quiet=True))
    results = json.loads((recipe.out / "results.json").read_text())
    rewards = results["grpo_rewards"]["seed 0"]
    assert len(rewards) == 40
    assert fmean(rewards[-10:]) > fmean(rewards[:10]) + 0.08
