"""How much memory a training needs, computed from shapes before anything is loaded.

An upper estimate for transformers of the Llama kind: parameters, gradients, moments, activations
and logits of one device, against what the device has. Loads no weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from agent_runtime.memory import available_memory
from training.errors import NotEnoughMemory
from training.trainer.distributed import DistributedContext
from training.trainer.models import ModelConfig, uses_bf16

__all__ = [
    "MemoryPlan",
    "ModelSize",
    "available_bytes",
    "measure_model",
    "plan_memory",
    "require_memory",
]

_GIB = 1 << 30
_UNLIMITED = 1 << 62
"""Where a system does not say what is free, no training is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Numbers of parameters, and widths, of a model."""

    parameters: int
    embedding: int
    """Parameters that are looked up and not multiplied; 0 where the head shares them."""
    head: int
    """Parameters of the head: vocabulary x hidden size."""
    blocks: int
    """Transformer blocks."""
    largest_block: int
    """Parameters of the largest block."""
    hidden: int
    intermediate: int
    attention: int
    """Heads times their size."""
    vocabulary: int

    def flops(self, tokens: int, targets: int, squared_lengths: int) -> float:
        """Return the operations of a forward and a backward pass, nothing computed twice.

        6 for each weight and token; the head only where there are targets; causal attention by the
        sum of squared lengths, half of the square being masked.

        Args:
            tokens: That pass through the blocks.
            targets: Tokens that pass through the head.
            squared_lengths: Sum over the sequences.
        """
        inner = self.parameters - self.head - self.embedding
        products = 6.0 * inner * tokens + 6.0 * self.head * targets
        return products + 6.0 * self.blocks * self.attention * squared_lengths


def measure_model(config: Any) -> ModelSize:
    """Return the size of a model from its `transformers` configuration."""
    import transformers

    auto_model: Any = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = auto_model.from_config(config)
    total = _count_parameters(model)
    head: int = model.get_output_embeddings().weight.numel()
    tied = bool(getattr(config, "tie_word_embeddings", False))
    names = set(getattr(model, "_no_split_modules", None) or ())
    blocks = [
        _count_parameters(module)
        for module in model.modules()
        if module.__class__.__name__ in names
    ]
    heads: int = config.num_attention_heads
    head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // heads
    return ModelSize(
        parameters=total,
        embedding=0 if tied else head,
        head=head,
        blocks=len(blocks),
        largest_block=max(blocks, default=0),
        hidden=config.hidden_size,
        intermediate=getattr(config, "intermediate_size", 4 * config.hidden_size),
        attention=heads * head_dim,
        vocabulary=config.vocab_size,
    )


def _count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Bytes of one device, by what they are for."""

    weights: int
    gradients: int
    moments: int
    gathered: int
    """Blocks in the precision of the computation."""
    activations: int
    logits: int
    reference: int = 0
    """A frozen second model."""
    engine: int = 0
    """What an inference engine beside the learner takes at least."""

    @property
    def total(self) -> int:
        """The sum, and a tenth more for what is not modelled."""
        parts = (self.weights, self.gradients, self.moments, self.gathered, self.activations)
        return int(1.1 * (sum(parts) + self.logits + self.reference)) + self.engine

    def describe(self) -> str:
        """Return one line with the GiB of each part."""
        names = ("weights", "gradients", "moments", "gathered", "activations", "logits")
        parts = [f"{name} {getattr(self, name) / _GIB:.2f}" for name in names]
        extra = (name for name in ("reference", "engine") if getattr(self, name))
        parts += [f"{name} {getattr(self, name) / _GIB:.2f}" for name in extra]
        return f"{self.total / _GIB:.2f} GiB per device ({', '.join(parts)})"


def plan_memory(
    size: ModelSize,
    config: ModelConfig,
    *,
    micro_tokens: int,
    world_size: int,
    sharded: bool,
    reference: bool = False,
    engine: int = 0,
) -> MemoryPlan:
    """Return what one device needs to train a model.

    Args:
        size: Of the model.
        config: How it is computed.
        micro_tokens: Tokens of a micro-batch.
        world_size: Devices that share the model.
        sharded: Whether it is under FSDP.
        reference: Whether a frozen copy of the model is computed beside it.
        engine: Bytes of an inference engine on the same device.
    """
    trained, frozen = size.parameters, 0
    if config.lora is not None:
        # Two thin matrices beside each linear layer of a block: about seven of them.
        per_block = 7 * config.lora.rank * 2 * max(size.hidden, size.intermediate // 2)
        trained, frozen = size.blocks * per_block, size.parameters
    bf16 = uses_bf16(config, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    value_bytes = 2 if bf16 else 4
    frozen_bytes = value_bytes if sharded else 4
    part = 2 * size.largest_block + size.head + size.embedding
    if world_size > 1 or (sharded and frozen):
        gathered = part
    else:
        gathered = size.parameters if sharded or bf16 else 0
    # Of head and embedding a gradient is whole beside the sum that it is added to.
    arriving = 0 if sharded or config.lora is not None else 8 * size.head
    reference_bytes = 0
    if reference:
        # Its blocks are gathered when the model's are not, its head and embedding with them.
        roots = value_bytes * (size.head + size.embedding) if sharded else 0
        reference_bytes = frozen_bytes * size.parameters // world_size + roots
    return MemoryPlan(
        weights=(4 * trained + frozen_bytes * frozen) // world_size,
        # Of all micro-batches but the last each process keeps the sum for itself.
        gradients=4 * trained // (world_size if config.reduce_every_micro_batch else 1) + arriving,
        moments=8 * trained // world_size,
        gathered=value_bytes * gathered,
        activations=_saved_bytes(size, config, value_bytes, sharded=sharded) * micro_tokens,
        logits=2 * value_bytes * size.vocabulary * micro_tokens,
        reference=reference_bytes,
        engine=engine,
    )


def _saved_bytes(size: ModelSize, config: ModelConfig, value_bytes: int, *, sharded: bool) -> int:
    """Return what is saved for the backward pass, in bytes per token."""
    # Where autocast casts products alone, what passes from block to block stays in float32.
    stream_bytes = value_bytes if sharded else 4
    # Of each block: inputs of norms, of linear layers and of the attention, the MLP's three inner
    # tensors.
    inner_values = 3 * size.attention + 4 * size.intermediate
    block_bytes = 10 * stream_bytes * size.hidden + value_bytes * inner_values
    if config.activation_checkpointing:
        return stream_bytes * size.blocks * size.hidden + block_bytes
    return size.blocks * block_bytes


def available_bytes(device: torch.device) -> int:
    """Return the memory that is free on a device now; of a CPU, within its container's limits."""
    if device.type == "cuda":
        # torch keeps freed memory for later allocations of this process: it is free, too.
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    return available_memory(unknown=_UNLIMITED)


def require_memory(plan: MemoryPlan, dist: DistributedContext, *, micro_tokens: int) -> None:
    """Check that a plan fits the device.

    Raises:
        NotEnoughMemory: It does not; the message says what would help.
    """
    available = available_bytes(dist.device)
    if dist.device.type == "cpu":
        available //= dist.world_size
    if plan.total <= available:
        return
    raise NotEnoughMemory(
        f"{micro_tokens} tokens at once need {plan.describe()}; {dist.device} has "
        f"{available / _GIB:.2f} GiB free. Lower batch.micro_tokens or data.context, set "
        "model.activation_checkpointing or model.reduce_every_micro_batch, use model.lora, or add "
        "processes (torchrun)",
        field="batch.micro_tokens",
    )
