"""The recipe for one H100 and its measurement, as far as a machine without a GPU can check them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")

import torch

from agent_runtime.engine.checkpoint import read_architecture
from agent_runtime.engine.engine import derive_slots
from agent_runtime.engine.torch_backend import TorchBackend
from agent_runtime.models import KNOWN_MODELS
from benchmark.training.gpu import GpuOptions, measure, most_live
from orchestrator.configuration import dump_toml
from training.agentevol import AgentEvolRecipe
from training.cloning import describe_memory
from training.config.recipe import load_recipe
from training.data.tokenizer_training import TokenizerConfig
from training.trainer.memory import measure_model, plan_memory
from training.trainer.models import InitConfig, ModelConfig, planned_hf_config

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
GIB = 2**30


@pytest.fixture(scope="module")
def recipe() -> AgentEvolRecipe:
    return load_recipe(AgentEvolRecipe, ROOT / "recipes/agentevol-h100.toml", {})


def small(recipe: AgentEvolRecipe, out: Path) -> AgentEvolRecipe:
    """The recipe for seconds of a CPU: two layers of random weights, two environments, few tasks,
    one iteration.
    """
    categories = {"maze": ("perfect_7x7", "braided_7x7"), "wordle": ("listed_40",)}
    init = InitConfig(
        hidden_size=32,
        layers=2,
        heads=2,
        kv_heads=1,
        intermediate_size=64,
        context=2432,
        tokenizer=TokenizerConfig(vocab_size=512),
    )
    return replace(
        recipe,
        out=out,
        iterations=1,
        baselines=("random",),
        environments=tuple(
            replace(
                it,
                categories=categories[it.name],
                base_tasks=4,
                large_tasks=6,
                explore=12,
                validate=2,
                judge_tasks=2,
                judge_eval_tasks=2,
                threshold=-1.0,
            )
            for it in recipe.environments
            if it.name in categories
        ),
        cloning=replace(
            recipe.cloning,
            epochs=40,
            max_steps=4,
            shares=dict.fromkeys(categories, 1.0),
            model=ModelConfig(init=init, precision="float32"),
            batch=replace(recipe.cloning.batch, tokens=4096, micro_tokens=4096),
        ),
        rollout=replace(
            recipe.rollout,
            max_new_tokens=8,
            concurrency=24,
            fleet=replace(recipe.rollout.fleet, spawn=1),
            embedded=replace(recipe.rollout.embedded, dtype="float32", threads=1, max_slots=24),
        ),
    )


def test_a_thousand_episodes_are_live_and_the_engine_admits_them_all(recipe, tmp_path, monkeypatch):
    options = recipe.rollout.embedded
    assert recipe.rollout.together
    assert recipe.rollout.concurrency >= 1000
    assert sum(it.explore for it in recipe.environments) * recipe.samples >= 5000
    settings = planned_hf_config(recipe.cloning.model)
    settings.save_pretrained(tmp_path)
    # Of 80 GB, what the driver, the context and a learner that has gone leave.
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (70 * GIB, 79 * GIB))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    backend = object.__new__(TorchBackend)  # one that is made would need the GPU
    backend.architecture = read_architecture(tmp_path)
    backend.device, backend.dtype = torch.device("cuda"), torch.bfloat16
    admitted = derive_slots(options, backend, options.context_length or 0)
    assert admitted == options.max_slots == recipe.rollout.concurrency


def test_its_model_is_of_the_size_that_it_says_and_fits_one_gpu(recipe):
    size = measure_model(planned_hf_config(recipe.cloning.model))
    assert size.parameters == KNOWN_MODELS["smollm2"].parameters
    config, tokens = recipe.cloning.model, recipe.cloning.batch.micro_tokens
    plan = plan_memory(size, config, micro_tokens=tokens, world_size=1, sharded=True)
    assert plan.total < 40 * GIB
    assert plan.describe() in describe_memory(recipe.cloning)


def test_the_most_live_episodes_are_counted_by_their_times():
    assert most_live([]) == 0
    assert most_live([(0, 10), (5, 15), (10, 20)]) == 2
    assert most_live([(3, 3), (3, 3), (4, 9)]) == 2


@pytest.mark.timeout(600)
def test_one_command_measures_all_parts_and_goes_on_where_it_was_cut_off(recipe, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(dump_toml(small(recipe, tmp_path / "unused")))
    options = GpuOptions(
        out=tmp_path / "gpu.json",
        folder=tmp_path / "kept",
        device="cpu",
        tests="tests/training/test_cuda.py",
        mfu_size="tiny",
        mfu_flags="--rows 1 --accumulate 1 --warmup 1 --steps 2 --variants eager",
        pushes_flags="--engine embedded --pushes disk --size tiny --steps 1 --tasks 2 --group 2",
        recipe=path,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("OMP_NUM_THREADS", "1")
        first = measure(replace(options, parts=("tests", "mfu", "pushes")))
        assert list(first["parts"]) == ["tests", "mfu", "pushes"]
        report = measure(options)
    parts = report["parts"]
    assert {name: it["done"] for name, it in parts.items()} == dict.fromkeys(options.parts, True)
    assert parts["mfu"] == first["parts"]["mfu"]  # what is done is not done again
    assert parts["mfu"]["results"][0]["tokens_per_second"] > 0
    assert parts["mfu"]["results"][0]["planned_memory_gib"] > 0
    [step] = parts["pushes"]["results"]["disk"]["steps"]
    assert step["episodes"] == 4
    if not torch.cuda.is_available():
        assert "no CUDA device" in parts["tests"]["skipped"][0]
    evolved = parts["agentevol"]
    assert list(evolved["stages"])[:3] == ["contents", "seed-0/tasks", "seed-0/expert"]
    assert evolved["explorations"]["explore-1"]["episodes"] == 24
    # More than one environment has: they were played together.
    assert evolved["most_live_episodes"] > 12
    assert "| AgentEvol |" in evolved["table"]
    assert json.loads(options.out.read_text()) == report
