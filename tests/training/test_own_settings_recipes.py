"""Recipes that play environments as they are, under the protocol of a clean comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import torch

from agent_runtime.models import KNOWN_MODELS
from training.agentevol import AgentEvolRecipe
from training.config.recipe import load_recipe
from training.errors import NotEnoughMemory
from training.trainer import memory
from training.trainer.distributed import distributed_context
from training.trainer.models import planned_hf_config

pytestmark = pytest.mark.torch

RECIPES = Path(__file__).parents[2] / "recipes"
LAPTOP = "agentevol-smollm2-laptop"
SAME = (LAPTOP, "agentevol-smollm2-gpu")
"""One experiment in two sizes."""
NAMES = (*SAME, "agentevol-h100", "agentevol-8xa100-llama2-7b")
LEAST_TOKENS = 500
"""Of a conversation with an environment's own instruction."""
GIB = 2**30


def read(name: str) -> AgentEvolRecipe:
    return load_recipe(AgentEvolRecipe, RECIPES / f"{name}.toml", {})


@pytest.mark.parametrize("name", NAMES)
def test_prompts_options_and_rounds_are_the_environments_own(name):
    for tasks in read(name).environments:
        assert (tasks.conversation_start, tasks.options, tasks.max_rounds) == ((), {}, 0)
        # Prices of WebShop's original profile are the seed's: a task has no content there.
        assert tasks.profile == ("fixed" if tasks.name == "webshop" else "")


@pytest.mark.parametrize("name", NAMES)
def test_agents_make_equal_updates_and_are_judged_once_at_the_end(name):
    recipe = read(name)
    assert recipe.judge is not None
    assert recipe.judge.seed == 0  # nobody has seen the tasks that judge
    assert recipe.choose == "validation"
    assert recipe.redraw
    assert set(recipe.cloning.shares.values()) == {1.0}
    cloning = recipe.cloning
    # The smallest set, BC_base's, reaches all updates.
    shown = sum(tasks.base_tasks for tasks in recipe.environments)
    by_tokens = shown * LEAST_TOKENS / max(cloning.batch.tokens, 1)
    per_epoch = shown / cloning.batch.sequences if cloning.batch.sequences else by_tokens
    assert cloning.epochs * per_epoch > cloning.max_steps > 0


@pytest.mark.parametrize("name", SAME)
def test_the_experiment_has_m_of_two_and_the_environments_that_were_asked_for(name):
    recipe = read(name)
    assert recipe.iterations >= 2
    assert {"random", "untrained"} == set(recipe.baselines)
    names = {tasks.name for tasks in recipe.environments}
    assert names == {"textcraft", "wordle", "maze", "babyai", "alfworld", "academia"}


@pytest.mark.parametrize("name", [*SAME, "agentevol-h100"])
def test_babyai_has_all_levels_of_one_room(name):
    pytest.importorskip("minigrid", reason="the extra `babyai` is not installed")
    from env_servers.environments.babyai.levels import LEVELS, build

    (babyai,) = (tasks for tasks in read(name).environments if tasks.name == "babyai")
    rooms = {level: build(number, 1)[0] for number, level in enumerate(LEVELS, 1)}
    single = {level for level, it in rooms.items() if it.num_rows * it.num_cols == 1}
    assert set(babyai.categories) == single


def test_the_laptop_recipe_is_refused_where_memory_does_not_hold_it(monkeypatch):
    cloning = read(LAPTOP).cloning
    size = memory.measure_model(planned_hf_config(cloning.model))
    assert size.parameters == KNOWN_MODELS["smollm2"].parameters
    tokens = cloning.batch.micro_tokens
    plan = memory.plan_memory(size, cloning.model, micro_tokens=tokens, world_size=1, sharded=False)
    assert plan.total < 6 * GIB
    with distributed_context("cpu") as dist:
        assert dist.device == torch.device("cpu")
        monkeypatch.setattr(memory, "available_memory", lambda **_: 6 * GIB)
        memory.require_memory(plan, dist, micro_tokens=tokens)
        monkeypatch.setattr(memory, "available_memory", lambda **_: 4 * GIB)
        with pytest.raises(NotEnoughMemory, match=r"2048 tokens at once need 5\.5"):
            memory.require_memory(plan, dist, micro_tokens=tokens)
