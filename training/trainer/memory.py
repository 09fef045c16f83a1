"""How much memory a training needs, computed from shapes before anything is loaded.

Owns the estimate: parameters, gradients, moments, activations and logits of one device, against
what the device has. It is an upper estimate for transformers of the Llama kind. Loads no weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """What the shapes of a model say."""

    parameters: int
    embedding: int
    """Parameters that are looked up and not multiplied; 0 where the head shares them."""
    head: int
    """Parameters of the head: vocabulary x hidden size."""
    blocks: int
    largest_block: int
    hidden: int
    intermediate: int
    attention: int
    """Heads times their size."""
    vocabulary: int

    def flops(self, tokens: int, targets: int, squares: int) -> float:
        """Work of a forward and a backward pass, nothing computed twice.

        6 for each weight and token; the head only where there are targets; causal attention by the
        sum of squared lengths, half of the square being masked.
        """
        inner = self.parameters - self.head - self.embedding
        products = 6.0 * inner * tokens + 6.0 * self.head * targets
        return products + 6.0 * self.blocks * self.attention * squares


def measure_model(settings: Any) -> ModelSize:
    """The size of a model from its configuration."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(settings)
    total = sum(it.numel() for it in model.parameters())
    head = model.get_output_embeddings().weight.numel()
    tied = bool(getattr(settings, "tie_word_embeddings", False))
    names = set(getattr(model, "_no_split_modules", None) or ())
    blocks = [
        sum(it.numel() for it in module.parameters())
        for module in model.modules()
        if module.__class__.__name__ in names
    ]
    heads = settings.num_attention_heads
    size = getattr(settings, "head_dim", None) or settings.hidden_size // heads
    return ModelSize(
        parameters=total,
        embedding=0 if tied else head,
        head=head,
        blocks=len(blocks),
        largest_block=max(blocks, default=0),
        hidden=settings.hidden_size,
        intermediate=getattr(settings, "intermediate_size", 4 * settings.hidden_size),
        attention=heads * size,
        vocabulary=settings.vocab_size,
    )


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

    @property
    def total(self) -> int:
        """All of it, and a tenth for what is not modelled."""
        parts = (self.weights, self.gradients, self.moments, self.gathered, self.activations)
        return int(1.1 * (sum(parts) + self.logits + self.reference))

    def describe(self) -> str:
        """One line with GiB of each part."""
        names = ("weights", "gradients", "moments", "gathered", "activations", "logits")
        parts = [f"{name} {getattr(self, name) / _GIB:.2f}" for name in names]
        if self.reference:
            parts.append(f"reference {self.reference / _GIB:.2f}")
        return f"{self.total / _GIB:.2f} GiB per device ({', '.join(parts)})"


def plan_memory(
    size: ModelSize, config: ModelConfig, *, micro_tokens: int, world_size: int, sharded: bool
) -> MemoryPlan:
    """What one device needs to train `size` with micro-batches of so many tokens."""
    trained = size.parameters
    if config.lora is not None:
        # Two thin matrices beside each linear layer of a block: about seven of them.
        per_block = 7 * config.lora.rank * 2 * max(size.hidden, size.intermediate // 2)
        trained = size.blocks * per_block
    half = uses_bf16(config, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    number = 2 if half else 4
    # Kept for the backward pass by each block, in values per token: inputs of norms, of linear
    # layers and of the attention, the MLP's three inner tensors.
    width = 10 * size.hidden + 3 * size.attention + 4 * size.intermediate
    kept = (
        size.blocks * size.hidden + width
        if config.activation_checkpointing
        else size.blocks * width
    )
    if world_size > 1:
        gathered = 2 * size.largest_block + size.head + size.embedding
    else:
        gathered = size.parameters if sharded or half else 0
    return MemoryPlan(
        weights=4 * size.parameters // world_size,
        gradients=4 * trained // world_size,
        moments=8 * trained // world_size,
        gathered=number * gathered,
        activations=number * kept * micro_tokens,
        logits=2 * number * size.vocabulary * micro_tokens,
    )


def available_bytes(device: torch.device) -> int:
    """Memory that is free on a device now; on a CPU, within the limits of its container."""
    if device.type == "cuda":
        # What this process keeps for later allocations is free, too.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    found = [_meminfo()]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return min(found)


def _meminfo() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        line = next(it for it in lines if it.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        return 1 << 62  # unknown: do not stand in the way


def require_memory(plan: MemoryPlan, dist: DistributedContext, *, micro_tokens: int) -> None:
    """Raise NotEnoughMemory where the plan does not fit the device, saying what would help."""
    there = available_bytes(dist.device)
    if dist.device.type == "cpu":
        there //= dist.world_size
    if plan.total <= there:
        return
    raise NotEnoughMemory(
        f"{micro_tokens} tokens at once need {plan.describe()}; {dist.device} has "
        f"{there / _GIB:.2f} GiB free. Lower batch.micro_tokens or data.context, set "
        "model.activation_checkpointing, use model.lora, or add processes (torchrun)",
        field="batch.micro_tokens",
    )
