"""The memory plan of one CPU against what a forward pass keeps for its backward pass."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

import torch
import transformers

from training.trainer import models
from training.trainer.attention import PACKED, register
from training.trainer.distributed import distributed_context
from training.trainer.memory import measure_model, plan_memory
from training.trainer.models import Architecture, ModelConfig

pytestmark = pytest.mark.torch

SHAPE = Architecture(
    hidden_size=96,
    layers=6,
    heads=3,
    kv_heads=1,
    intermediate_size=256,
    vocab_size=512,
    context=512,
    tie_embeddings=True,
)
TOKENS = 256


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_is_kept_for_the_backward_pass_is_planned(precision, checkpointing):
    config = ModelConfig(
        path="planned",
        architecture=SHAPE,
        precision=precision,
        activation_checkpointing=checkpointing,
    )
    settings = models.planned_hf_config(config)
    register()
    model = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation=PACKED)
    model = models._prepare(model, config, seed=0, frozen=False).train()
    kept = kept_bytes(model, config)
    plan = plan_memory(
        measure_model(settings), config, micro_tokens=TOKENS, world_size=1, sharded=False
    )
    assert kept < plan.activations + plan.gathered + plan.logits
    if not checkpointing:
        assert plan.activations < 1.5 * kept


def kept_bytes(model: torch.nn.Module, config: ModelConfig) -> int:
    """Bytes of all storages that a forward pass keeps, without the weights' own."""
    weights = {it.untyped_storage().data_ptr() for it in model.parameters()}
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    bounds = torch.tensor([0, TOKENS], dtype=torch.int32)
    with (
        distributed_context("cpu") as dist,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        models.precision_context(config, dist),
    ):
        model(
            input_ids=torch.zeros(1, TOKENS, dtype=torch.long),
            position_ids=torch.arange(TOKENS)[None],
            use_cache=False,
            cu_seq_lens_q=bounds,
            cu_seq_lens_k=bounds,
            max_length_q=TOKENS,
            max_length_k=TOKENS,
        ).logits.sum()
    storages = {it.untyped_storage().data_ptr(): it.untyped_storage() for it in kept}
    return sum(it.nbytes() for begin, it in storages.items() if begin not in weights)
