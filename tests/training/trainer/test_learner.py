from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.agent_runtime.tiny_models import save_model
from tests.training.trainer.test_batches import SEQUENCES
from training.errors import CheckpointDamaged, NotEnoughMemory, RecipeError, TrainingDiverged
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import DistributedContext
from training.trainer.learner import (
    Learner,
    OptimizerConfig,
    latest_state,
    learning_rate,
    prune_states,
)
from training.trainer.memory import MemoryPlan, measure_model, plan_memory, require_memory
from training.trainer.models import LoraSettings, ModelConfig, hf_config, load_for_training

pytestmark = pytest.mark.torch

CPU = DistributedContext(rank=0, world_size=1, device=torch.device("cpu"))


def rates(total: int = 10, **options) -> list[float]:
    config = OptimizerConfig(lr=1.0, **options)
    return [learning_rate(config, step, total) for step in range(total)]


def test_the_rate_warms_up_and_falls_as_asked_for() -> None:
    assert rates(schedule="constant", warmup=0.2) == [0.5] + [1.0] * 9
    assert rates(schedule="constant", warmup=4)[:5] == [0.25, 0.5, 0.75, 1, 1]
    linear = rates(schedule="linear", warmup=0)
    assert linear == pytest.approx([1 - step / 10 for step in range(10)])
    cosine = rates(schedule="cosine", warmup=0, min_lr_ratio=0.1)
    assert cosine[0] == 1 and cosine[5] == pytest.approx(0.55)
    assert cosine == sorted(cosine, reverse=True) and cosine[-1] > 0.1


def make(seed: int = 0, **options) -> Learner:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8))
    config = OptimizerConfig(lr=0.1, warmup=0.0, **options)
    return Learner(model, config, CPU, seed=0, total=10)


def learn(learner: Learner, scale: float = 1.0) -> float:
    learner.begin_step()
    learner.backward(scale * learner.model(torch.ones(2, 4)).pow(3).sum(), last=True)
    return learner.update()[0]


def weights(learner: Learner) -> list[torch.Tensor]:
    return [it.detach().clone() for it in learner.model.parameters()]


def test_long_gradients_are_clipped_and_reported_as_they_were() -> None:
    large, small = make(eps=1.0), make(eps=1.0)
    assert learn(large, 1e6) > 1e3 * learn(small, 1.0) > 1
    for one, other in zip(weights(large), weights(small), strict=True):
        torch.testing.assert_close(one, other)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    learner = make()
    before = weights(learner)
    with pytest.raises(TrainingDiverged, match=r"optimizer\.lr: the gradient of step 0"):
        learn(learner, float("inf"))
    assert all(torch.equal(one, other) for one, other in zip(before, weights(learner), strict=True))


def test_a_state_brings_back_weights_and_moments(tmp_path: Path) -> None:
    learner = make()
    for _ in range(3):
        learn(learner)
    learner.save_state(tmp_path, {"note": 7})
    other = make(seed=5)
    state = latest_state(tmp_path)
    assert state is not None and other.load_state(state) == {"note": 7}
    assert other.step == 3
    assert [learn(learner) for _ in range(3)] == [learn(other) for _ in range(3)]
    assert all(
        torch.equal(one, two) for one, two in zip(weights(learner), weights(other), strict=True)
    )


def test_states_are_pruned_and_half_written_ones_are_not_seen(tmp_path: Path) -> None:
    learner = make()
    for _ in range(3):
        learn(learner)
        learner.save_state(tmp_path)
    (tmp_path / "step-00000009").mkdir()
    assert latest_state(tmp_path) == tmp_path / "step-00000003"
    (tmp_path / "step-00000009").rmdir()
    prune_states(tmp_path, 2)
    assert [it.name for it in sorted(tmp_path.iterdir())] == ["step-00000002", "step-00000003"]


def test_a_state_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    learner = make()
    learn(learner)
    state = learner.save_state(tmp_path)
    pair = DistributedContext(rank=0, world_size=2, device=torch.device("cpu"))
    with pytest.raises(RecipeError, match="saved by 1 processes, this job has 2"):
        Learner(learner.model, learner.config, pair, seed=0, total=1).load_state(state)
    bigger = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.LayerNorm(9))
    with pytest.raises(CheckpointDamaged, match="cannot be used"):
        Learner(bigger, learner.config, CPU, seed=0, total=1).load_state(state)
    (state / "shard-00000.safetensors").write_bytes(b"short")
    with pytest.raises(CheckpointDamaged, match="cannot be used"):
        learner.load_state(state)


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def folder(request, tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"), tie_word_embeddings=request.param)


def test_work_is_counted_as_the_products_that_are_computed(folder: Path) -> None:
    config = ModelConfig(path=str(folder), precision="float32", attention="eager")
    model = load_for_training(folder, config, CPU)
    size = measure_model(hf_config(folder))
    assert size.parameters == sum(it.numel() for it in model.parameters())
    batch = collate([SEQUENCES[4]], CPU.device)
    with FlopCounterMode(display=False) as counter:
        target_logprobs(model, batch).sum().backward()
    # Eager attention computes the masked half, too; the rotary table is a small product of its own.
    expected = size.flops(batch.tokens, len(batch.logit_indices), 2 * batch.squared_lengths)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.01)


def test_adapters_and_references_are_planned_as_they_are_kept(folder: Path) -> None:
    size = measure_model(hf_config(folder))

    def planned(*, lora: bool, **options) -> MemoryPlan:
        adapters = LoraSettings(rank=1) if lora else None
        config = ModelConfig(path="x", precision="bf16", lora=adapters)
        return plan_memory(size, config, micro_tokens=1, world_size=1, sharded=True, **options)

    whole, adapted = planned(lora=False), planned(lora=True)
    assert whole.weights == 4 * size.parameters
    # The frozen base in bf16, and adapters that are few.
    assert 2 * size.parameters < adapted.weights < 3 * size.parameters
    assert planned(lora=False, reference=True).reference >= 2 * size.parameters
    assert planned(lora=False, engine=7).total == whole.total + 7
    assert "engine 1.00" in planned(lora=False, engine=2**30).describe()


def test_the_memory_plan_falls_with_what_it_recommends(folder: Path) -> None:
    size = measure_model(hf_config(folder))

    def total(tokens: int = 4096, world_size: int = 1, **options) -> int:
        config = ModelConfig(path="x", precision="bf16", **options)
        return plan_memory(
            size, config, micro_tokens=tokens, world_size=world_size, sharded=world_size > 1
        ).total

    assert total(2048) < total()
    assert total(activation_checkpointing=True) < total()
    assert total(lora=LoraSettings(rank=2)) < total()
    assert total(world_size=4) < total()
    assert total(world_size=4, reduce_every_micro_batch=True) < total(world_size=4)
    plan = plan_memory(size, ModelConfig(path="x"), micro_tokens=10**9, world_size=1, sharded=False)
    with pytest.raises(NotEnoughMemory, match=r"batch\.micro_tokens: 1000000000 tokens at once"):
        require_memory(plan, CPU, micro_tokens=10**9)
