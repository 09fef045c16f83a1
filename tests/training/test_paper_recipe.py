"""The paper's recipe for eight GPUs, as far as a machine without GPUs and weights can check it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

import torch
import transformers
from rich.console import Console
from safetensors.torch import load_file

from tests.training.makers import write_conversations
from training.agentevol import AgentEvolRecipe, plan
from training.cloning import Cloning, clone, describe_memory
from training.config.recipe import load_recipe
from training.data.sources import SourceConfig
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import ModelUnusable
from training.runs.tracking import read_log
from training.trainer.distributed import distributed_context
from training.trainer.memory import measure_model, plan_memory
from training.trainer.models import (
    InitConfig,
    ModelConfig,
    create_base,
    load_for_training,
    planned_hf_config,
)

pytestmark = pytest.mark.torch

RECIPES = Path(__file__).parents[2] / "recipes"
NAME = "agentevol-8xa100-llama2-7b.toml"
SHRUNK = 16
"""The test's model is so many times narrower and flatter than Llama-2-7b, in the same proportions:
heads of 128, an MLP of 2.6875 widths. Its vocabulary is as large."""


@pytest.fixture(scope="module")
def recipe() -> AgentEvolRecipe:
    return load_recipe(AgentEvolRecipe, RECIPES / NAME, {})


@pytest.fixture
def offline(monkeypatch):
    """Nothing may be read from a hub."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", refuse)


@pytest.fixture(scope="module")
def narrow(recipe, tmp_path_factory) -> Path:
    """A model of random weights with the recipe's architecture, shrunk."""
    shape = recipe.cloning.model.architecture
    assert shape is not None
    folder = tmp_path_factory.mktemp("narrow")
    train_tokenizer(["Thought: up. Action: move up"], folder / "tok", TokenizerConfig())
    init = InitConfig(
        hidden_size=shape.hidden_size // SHRUNK,
        layers=shape.layers // SHRUNK,
        heads=shape.heads // SHRUNK,
        intermediate_size=shape.intermediate_size // SHRUNK,
        vocab_size=shape.vocab_size,
        context=shape.context,
        tie_embeddings=shape.tie_embeddings,
    )
    return create_base(init, folder / "tok", folder / "model", seed=0)


def test_it_says_what_the_paper_says(recipe):
    cloning = recipe.cloning
    assert (recipe.iterations, recipe.samples, recipe.merge) == (4, 1, "initial")
    assert (cloning.processes, cloning.context) == (8, 4096)
    assert (cloning.optimizer.lr, cloning.batch.sequences) == (1e-5, 32)
    assert len(recipe.environments) == 11
    assert recipe.rollout.together


def test_its_memory_is_planned_without_the_weights_or_a_network(recipe, offline):
    size = measure_model(planned_hf_config(recipe.cloning.model))
    assert size.parameters == 6_738_415_616  # Llama-2-7b
    described = describe_memory(recipe.cloning)
    assert described.startswith("6,738 M parameters, 8 processes")
    plan = plan_memory(size, recipe.cloning.model, micro_tokens=4096, world_size=8, sharded=True)
    # In float32: weights and moments over eight, gradients of several micro-batches whole.
    assert plan.weights + plan.moments == 1.5 * size.parameters
    assert plan.gradients == 4 * size.parameters
    assert plan.describe() in described
    assert plan.total < 80e9


def test_a_plan_of_a_model_from_scratch_needs_no_model():
    init = InitConfig(tokenizer=TokenizerConfig(vocab_size=1000, multiword_tokens=24))
    assert describe_memory(Cloning(model=ModelConfig(init=init))).startswith("3 M parameters, 1 ")
    assert planned_hf_config(ModelConfig(init=init)).vocab_size == 1024


def test_a_model_of_another_shape_than_the_recipe_states_is_refused(recipe, narrow):
    wrong = replace(recipe.cloning.model, path=str(narrow))
    with (
        distributed_context("cpu") as dist,
        pytest.raises(ModelUnusable, match="hidden_size 256, the recipe says 4096"),
    ):
        load_for_training(narrow, wrong, dist)


def test_two_processes_clone_by_its_very_settings(recipe, narrow, tmp_path):
    data = write_conversations(tmp_path / "maze.jsonl", count=64)
    settings = recipe.cloning
    cloning = replace(
        settings,
        processes=2,
        max_steps=2,
        shares={},
        device="cpu",
        model=replace(settings.model, path=str(narrow), architecture=None),
        tracking=replace(settings.tracking, tensorboard=False, print_every=0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        report = clone(cloning, [SourceConfig(path=str(data))], tmp_path / "out")
    assert report["steps"] == 2
    rows = [it for it in read_log(tmp_path / "out/log.jsonl") if "loss" in it]
    assert rows[0]["loss"] == pytest.approx(10.4, abs=0.3)  # ln 32,000: it knows nothing yet
    assert [it["lr"] for it in rows] == pytest.approx([1e-5, 5e-6], rel=0.2)
    before, after = (load_file(it / "model.safetensors") for it in (narrow, tmp_path / "out/final"))
    assert before.keys() == after.keys()
    assert {it.dtype for it in after.values()} == {torch.bfloat16}  # save.half
    assert any(not torch.equal(after[name], before[name].bfloat16()) for name in after)


@pytest.mark.slow
def test_its_plan_is_printed(recipe, offline, tmp_path):
    """Of two environments: a plan asks for the contents of all tasks, which takes minutes."""
    console = Console(record=True, quiet=False, file=(tmp_path / "log").open("w"), width=200)
    chosen = tuple(it for it in recipe.environments if it.name in ("maze", "wordle"))
    cloning = replace(recipe.cloning, shares={it.name: 1.0 for it in chosen})
    wanted = replace(recipe, out=tmp_path / "run", environments=chosen, cloning=cloning)
    plan(wanted, console=console)
    printed = console.export_text()
    assert "41.79 GiB per device" in printed
    assert "wordle: 500 to base, 955 to large, 980 to explore, 50 to validate" in printed
    # BC_base, BC_large, four iterations, a random player's wins, M = 1 with as many episodes.
    assert f"{8 * 640:,} updates" in printed
    assert not (tmp_path / "run").exists()
