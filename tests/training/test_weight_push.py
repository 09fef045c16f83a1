"""A learner's weights reach the servers that play it, whichever way they go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import httpx
import torch
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from safetensors.torch import load_file
from tokenizers import Tokenizer

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.serving import ServeConfig, serving
from agent_runtime.serving.installation import find_python
from orchestrator.ray_cluster import workplace
from tests.kit import fake_sglang
from tests.kit.fake_sglang import FakeModel
from tests.kit.fake_weight_groups import FakeGroupSGLang
from tests.orchestrator.ray_cluster.local_host import LocalHost
from tests.training.makers import train_speaker, write_echo_recipe
from training.config.recipe import build
from training.errors import RecipeError
from training.grpo import GRPORecipe, train
from training.rollouts.jobs import RolloutConfig
from training.runs.tracking import read_log
from training.weight_push import prune_weights

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return train_speaker(tmp_path_factory.mktemp("speaker"))


def recipe_on(
    model: Path, out: Path, address: str, push: str, *, cluster: str = "", **changes
) -> GRPORecipe:
    rollout = {
        "cluster": {"address": cluster, "ray_workers": 1},
        "max_new_tokens": 16,
        "fleet": {"spawn": 1},
        "engine": "sglang",
        "url": address,
        "push": push,
    }
    return build(GRPORecipe, write_echo_recipe(out, model, rollout=rollout, **changes))


@pytest.fixture
def fake(model: Path) -> Iterator[tuple[FakeGroupSGLang, str]]:
    engine = FakeGroupSGLang(FakeModel(model_path=str(model), context_length=512))
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    stop = tokenizer.token_to_id("<|im_end|>")
    says, nothing = (
        [*tokenizer.encode(f"Action:\n{word}", add_special_tokens=False).ids, stop]
        for word in ("hello", "")
    )
    draw = random.Random(0)
    engine.script = [draw.choice([says, nothing]) for _ in range(200)]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_sglang.serving(engine)) as address,
    ):
        yield engine, address


def test_a_training_sends_its_weights_to_a_server_that_shares_no_disk(model, tmp_path, fake):
    engine, address = fake
    recipe = recipe_on(model, tmp_path / "run", address, "distributed")
    before = load_file(model / "model.safetensors")
    final = load_file(train(recipe, console=Console(quiet=True)) / "model.safetensors")
    assert any(not torch.equal(final[name], before[name]) for name in before)
    assert engine.weights.keys() == final.keys()
    for name, tensor in final.items():
        assert torch.equal(engine.weights[name], tensor), name
    # Of the first weights, and after each of two steps; there is no group for each push.
    assert len(engine.buckets) == 3 and len(engine.joined) == 1
    assert engine.version.endswith("step-2")
    assert engine.model_path == str(model)
    assert not (recipe.out / "weights").exists()


def learns_without_a_barrier(model: Path, out: Path, address: str, push: str, **sizes) -> None:
    """New weights reach a server by no disk while episodes go on, and tokens keep their age."""
    clip, names = {"importance_cap": 2.0}, {"asynchronous": True, "max_off_policy_steps": 1}
    recipe = recipe_on(model, out, address, push, steps=3, clip=clip, **names, **sizes)
    final = load_file(train(recipe, console=Console(quiet=True)) / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert any(not torch.equal(final[name], before[name]) for name in before)
    rows = read_log(out / "log.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert max(row["token_age_max"] for row in rows) == 1


def test_weights_by_no_disk_reach_a_server_while_episodes_go_on(model, tmp_path, fake):
    engine, address = fake
    learns_without_a_barrier(model, tmp_path / "run", address, "distributed")
    assert len(engine.buckets) == 4 and engine.version.endswith("step-3")


def test_weights_by_no_disk_reach_a_server_that_workers_of_a_cluster_ask(
    model, tmp_path, fake, monkeypatch
):
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")
    host = LocalHost(2)
    monkeypatch.setattr(workplace, "open_cluster", host.open)
    engine, address = fake
    learns_without_a_barrier(model, tmp_path / "run", address, "distributed", cluster="local")
    assert len(engine.buckets) == 4 and engine.version.endswith("step-3")
    assert len(host.workers()) == 2


def test_a_server_that_takes_no_weights_like_this_is_refused(model, tmp_path):
    config = ServeConfig(
        engine="embedded", device="cpu", context_length=512, engine_options=("threads=1",)
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(str(model), config, in_process=True)) as served,
    ):
        recipe = recipe_on(model, tmp_path / "run", served.address, "distributed")
        with pytest.raises(PolicyMisconfigured, match=r'rollout\.push = "disk"'):
            train(recipe, console=Console(quiet=True))


def test_only_a_server_that_goes_on_is_pushed_to(model, tmp_path):
    with pytest.raises(ValueError, match="needs url"):
        RolloutConfig(push="tensors")
    with pytest.raises(RecipeError, match="push"):
        recipe_on(model, tmp_path, "http://127.0.0.1:1", "nccl")


def test_weights_that_no_engine_serves_any_more_are_removed(tmp_path):
    for name in ("aa-01-step-1", "aa-01-step-2", "step-7", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"weights")
    prune_weights(tmp_path, keep="aa-01-step-2")
    assert sorted(it.name for it in tmp_path.iterdir()) == ["aa-01-step-2", "mine"]


@pytest.fixture(scope="module")
def sglang(model: Path) -> Iterator[str]:
    """A real server on this machine's CPU."""
    try:
        python = find_python()
    except PolicyMisconfigured as error:
        pytest.skip(str(error))
    config = ServeConfig(python=python, device="cpu", ready_seconds=500)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(str(model), config)) as served,
    ):
        yield served.address


@pytest.mark.sglang
@pytest.mark.timeout(900)
@pytest.mark.parametrize("push", ["tensors", "distributed"])
def test_a_training_learns_beside_a_real_server_without_a_disk(model, tmp_path, sglang, push):
    # Of 32 episodes it may be that none earns anything, and nothing is learned.
    recipe = recipe_on(model, tmp_path / push, sglang, push, tasks=8, group=8)
    final = load_file(train(recipe, console=Console(quiet=True)) / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert any(not torch.equal(final[name], before[name]) for name in before)
    gaps = [it["logprob_gap"] for it in read_log(recipe.out / "log.jsonl") if "logprob_gap" in it]
    assert gaps and max(gaps) < 1e-3
    name = "model.norm.weight"
    asked = httpx.post(f"{sglang}/get_weights_by_name", json={"name": name, "truncate_size": 100})
    assert asked.json() == pytest.approx(final[name].tolist(), abs=1e-6)
    assert not (recipe.out / "weights").exists()


@pytest.mark.sglang
@pytest.mark.timeout(900)
def test_a_training_without_a_barrier_learns_beside_a_real_server(model, tmp_path, sglang):
    sizes = {"tasks": 8, "group": 8}
    learns_without_a_barrier(model, tmp_path / "run", sglang, "distributed", **sizes)
