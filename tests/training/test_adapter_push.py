"""A learner's adapter reaches the engine that plays, alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("peft", reason="the extra `train` is not installed")

import torch
from anyio.from_thread import start_blocking_portal
from rich.console import Console
from tokenizers import Tokenizer

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies import EmbeddedOptions, PolicyConfig, SGLangOptions
from agent_runtime.policies.embedded import EmbeddedPolicy
from agent_runtime.policies.sglang import SGLangPolicy
from agent_runtime.weights import AdapterWeights
from orchestrator.store import RunReader
from tests.kit import fake_sglang
from tests.kit.fake_adapters import FakeAdapterSGLang
from tests.kit.fake_sglang import FakeModel
from tests.training.makers import stopped_in_step, write_echo_recipe
from training.config.recipe import build
from training.config.start import Start
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.errors import RecipeError
from training.grpo import GRPORecipe, train
from training.rollouts.jobs import RolloutConfig
from training.runs.tracking import read_log
from training.trainer.distributed import distributed_context
from training.trainer.models import (
    InitConfig,
    LoraSettings,
    ModelConfig,
    create_base,
    gather_adapter,
    load_for_training,
)
from training.weight_push import WeightPush

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("one_thread")]
LORA = {"rank": 4, "alpha": 8.0}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model of random weights."""
    folder = tmp_path_factory.mktemp("base")
    texts = ["say yes", "say no", "Thought:\nI talk.\n\nAction:\nhello", "user assistant system"]
    train_tokenizer(texts, folder / "tokenizer", TokenizerConfig(vocab_size=300))
    init = InitConfig(hidden_size=32, layers=2, heads=2, context=512)
    return create_base(init, folder / "tokenizer", folder / "model", seed=1)


def recipe_of(base: Path, out: Path, rollout: dict, **changes) -> GRPORecipe:
    values = write_echo_recipe(out, base, save_every=1, **changes)
    values["model"]["lora"] = LORA
    values["rollout"] = {"max_new_tokens": 16, "fleet": {"spawn": 1}, **rollout}
    return build(GRPORecipe, values)


# The embedded engine ----------------------------------------------------------


class Pushed:
    """What plays, as far as a push concerns it: an engine, and a count of bytes."""

    def __init__(self, policy: EmbeddedPolicy) -> None:
        self.policy = policy
        self.sizes: list[int] = []

    async def update_weights(self, weights, version: str) -> None:
        tensors = weights.adapter if isinstance(weights, AdapterWeights) else weights
        self.sizes.append(sum(it.numel() * it.element_size() for it in tensors.values()))
        await self.policy.update_weights(weights, version=version)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
async def test_an_adapter_alone_makes_the_engine_what_whole_weights_make_it(
    base, tmp_path, precision
):
    model = ModelConfig(path=str(base), precision=precision, lora=LoraSettings(**LORA))
    ids = list(range(20, 60))
    options = EmbeddedOptions(device="cpu", threads=1, cache_gib=0.1, context_length=64)
    with distributed_context("cpu") as dist:
        module = load_for_training(base, model, dist)
        policy = EmbeddedPolicy(base, PolicyConfig(embedded=options))
        await policy.start()
        rollouts = Pushed(policy)
        scores = {"base": await policy.score(ids)}
        for step in range(2):  # the second is put into the model's weights, not into the first
            with torch.no_grad():
                for name, parameter in module.named_parameters():
                    if ".lora_" in name:
                        parameter.copy_(0.2 * torch.randn_like(parameter))
            for adapter in (True, False):
                push = WeightPush(
                    model=model,
                    rollout=RolloutConfig(push_adapter=adapter),
                    folder=tmp_path,
                    dist=dist,
                )
                await push.push(module, rollouts, f"step-{step}-{adapter}")
                scores[step, adapter] = await policy.score(ids)
        await policy.close()
    for step in range(2):
        assert scores[step, True][1:] == pytest.approx(scores[step, False][1:], abs=1e-5)
        assert scores[step, True][1:] != pytest.approx(scores["base"][1:], abs=1e-2)
    assert scores[0, True][1:] != pytest.approx(scores[1, True][1:], abs=1e-2)
    adapter, whole = rollouts.sizes[:2]
    # 2 layers: each of 7 matrices has rank x (inputs + outputs) numbers of 4 bytes.
    assert adapter == 4 * 4 * 2 * (4 * 64 + 3 * (32 + 128))
    assert adapter < whole / 2
    assert not any(tmp_path.iterdir())


async def test_an_adapter_of_another_model_is_refused_and_changes_nothing(base):
    options = EmbeddedOptions(device="cpu", threads=1, cache_gib=0.1, context_length=64)
    policy = EmbeddedPolicy(base, PolicyConfig(embedded=options))
    await policy.start()
    before = await policy.score([5, 6, 7])
    stem = "base_model.model.model.layers.9.self_attn.q_proj"
    matrices = {
        f"{stem}.lora_A.weight": torch.ones(4, 32),
        f"{stem}.lora_B.weight": torch.ones(32, 4),
    }
    for adapter, why in ((matrices, "layers.9"), (Path("folder"), "tensors"), ({"x": 1}, "more")):
        with pytest.raises(PolicyMisconfigured, match=why):
            await policy.update_weights(AdapterWeights(adapter=adapter), version="next")
    assert await policy.score([5, 6, 7]) == before
    await policy.close()


# SGLang -----------------------------------------------------------------------


@pytest.fixture
def server(base: Path) -> Iterator[tuple[FakeAdapterSGLang, str]]:
    engine = FakeAdapterSGLang(FakeModel(model_path=str(base), context_length=512))
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    stop = tokenizer.token_to_id("<|im_end|>")
    replies = [
        [*tokenizer.encode(f"Action:\n{word}", add_special_tokens=False).ids, stop]
        for word in ("hello", "")
    ]
    count = 0

    def write() -> list[int]:
        nonlocal count
        count += 1
        return replies[count * 7 % 3 % 2]

    engine.write = write
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_sglang.serving(engine)) as address,
    ):
        yield engine, address


def test_a_server_gets_the_weights_once_and_adapters_by_versions(base, tmp_path, server):
    engine, address = server
    rollout = {"engine": "sglang", "url": address, "push_adapter": True}
    recipe = recipe_of(base, tmp_path / "run", rollout, steps=4)
    with stopped_in_step(3):
        train(recipe, console=Console(quiet=True))
    assert engine.updates == [str(base)]
    assert [name.rpartition("-")[2] for name, _ in engine.loaded] == ["1", "2", "3"]
    assert list(engine.adapters) == [name for name, _ in engine.loaded[-2:]]
    whole = (base / "model.safetensors").stat().st_size
    assert all(size < whole / 2 for _, size in engine.loaded)
    # Each prompt is sampled and cached under the one name of the weights of its step.
    named: dict[str, set] = {}
    for request in engine.requests:
        named.setdefault(request["extra_key"], set()).add(request.get("lora_path"))
    assert list(named.values()) == [{None}, *({name} for name, _ in engine.loaded[:2])]
    with RunReader.open(recipe.out / "rollouts" / "step-000002") as reader:
        versions = {
            version
            for episode in reader.episodes()
            for segment in episode.token_segments
            for version in segment.policy_versions
        }
    assert versions == {engine.loaded[1][0]}

    train(recipe, start=Start.RESUME, console=Console(quiet=True))
    # Whatever else it served meanwhile, a resumed run begins with the weights below its adapter.
    assert engine.updates == [str(base)] * 2
    assert len({name for name, _ in engine.loaded}) == len(engine.loaded)
    assert [it.name for it in (recipe.out / "weights").iterdir()] == [engine.loaded[-1][0]]


def test_adapters_reach_a_server_while_episodes_are_played(base, tmp_path, server):
    engine, address = server
    rollout = {"engine": "sglang", "url": address, "push_adapter": True}
    changes = {"asynchronous": True, "max_off_policy_steps": 1, "clip": {"importance_cap": 2.0}}
    recipe = recipe_of(base, tmp_path / "run", rollout, steps=4, **changes)
    train(recipe, console=Console(quiet=True))
    assert engine.updates == [str(base)]
    assert [name.rpartition("-")[2] for name, _ in engine.loaded] == ["1", "2", "3", "4"]
    assert max(row["token_age_max"] for row in read_log(recipe.out / "log.jsonl")) == 1
    # Whatever it was asked for by an adapter's name was sampled by that adapter.
    by_key = {(it["extra_key"], it.get("lora_path")) for it in engine.requests}
    assert len(by_key) == len({key for key, _ in by_key}) > 1


async def test_an_engine_that_restarts_serves_again_with_weights_and_adapter(base, tmp_path):
    engine = FakeAdapterSGLang(FakeModel(model_path=str(base), context_length=512))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"adapter")
    config = PolicyConfig(sglang=SGLangOptions(recovery=60))
    async with fake_sglang.serving(engine) as address:
        policy = SGLangPolicy(address, config)
        await policy.start()
        await policy.update_weights(base, version="whole")
        with pytest.raises(PolicyMisconfigured, match="leave out interrupt"):
            adapter = AdapterWeights(adapter=tmp_path)
            await policy.update_weights(adapter, version="a", interrupt="retract")
        await policy.update_weights(AdapterWeights(adapter=tmp_path), version="adapted")
        with pytest.raises(PolicyMisconfigured, match="name a new one"):
            await policy.update_weights(AdapterWeights(adapter=tmp_path), version="adapted")
        engine._startup += 100
        engine.version = "default"
        engine.adapters.clear()
        policy.engines.report_failure("it was restarted")
        assert await policy.engines.wait_ready() == {"whole"}
        assert list(engine.adapters) == [policy.engines.adapter] == ["adapted"]
        # Whole weights are no longer below it.
        await policy.update_weights(base, version="others")
        assert (policy.engines.adapter, list(engine.adapters)) == ("", [])
        await policy.close()


def test_a_server_that_takes_no_adapters_is_refused_with_what_it_lacks(base, tmp_path, server):
    engine, address = server
    engine.takes_adapters = False
    rollout = {"engine": "sglang", "url": address, "push_adapter": True}
    with pytest.raises(PolicyMisconfigured, match="--enable-lora"):
        train(recipe_of(base, tmp_path / "run", rollout), console=Console(quiet=True))


@pytest.mark.parametrize(
    ("rollout", "why"),
    [
        (
            {"push_adapter": True, "engine": "sglang", "url": "http://x:1", "push": "tensors"},
            "disk",
        ),
        ({"push_adapter": True, "engine": "sglang", "serve": {"port": 30000}}, "url"),
    ],
)
def test_ways_that_no_adapter_goes_are_refused(base, tmp_path, rollout, why):
    with pytest.raises(RecipeError, match=why):
        recipe_of(base, tmp_path, {"push_adapter": True, "engine": "sglang", **rollout})


def test_there_is_no_adapter_without_lora(base, tmp_path):
    values = write_echo_recipe(tmp_path, base, rollout={"push_adapter": True})
    with pytest.raises(RecipeError, match=r"model\.lora"):
        build(GRPORecipe, values)


def test_what_is_gathered_is_the_adapter_alone(base):
    with distributed_context("cpu") as dist:
        model = ModelConfig(path=str(base), precision="float32", lora=LoraSettings(**LORA))
        tensors = gather_adapter(load_for_training(base, model, dist), dist)
    assert len(tensors) == 2 * 2 * 7
    assert all(name.endswith((".lora_A.weight", ".lora_B.weight")) for name in tensors)
