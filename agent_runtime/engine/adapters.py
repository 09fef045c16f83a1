"""LoRA adapters put into a model's weights: what an engine computes with is then a plain model.

Source: https://arxiv.org/abs/2106.09685.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.weights import AdapterWeights

__all__ = ["merge_adapter"]

_PREFIX: Final = "base_model.model."
"""What peft puts before the names of a model's weights."""
_DOWN: Final = ".lora_A.weight"
_UP: Final = ".lora_B.weight"


def merge_adapter(weights: Mapping[str, Any], adapter: AdapterWeights) -> dict[str, Any]:
    """Return weights with W + scale B A in place of each W that an adapter has, others as they are.

    Args:
        weights: Tensors of torch by the names of a checkpoint.
        adapter: With its tensors.

    Raises:
        PolicyMisconfigured: It is one of another model, is a folder, or has more than A and B.
    """
    if not isinstance(adapter.adapter, Mapping):
        raise PolicyMisconfigured("the embedded engine takes an adapter's tensors, not its folder")

    def rounded(tensor: Any) -> Any:
        return tensor if adapter.dtype is None else tensor.to(adapter.dtype)

    merged = {name: rounded(tensor) for name, tensor in weights.items()}
    left = dict(adapter.adapter)
    for name in [name for name in left if name.endswith(_DOWN)]:
        stem = name.removesuffix(_DOWN)
        down, up = left.pop(name), left.pop(stem + _UP, None)
        target = stem.removeprefix(_PREFIX) + ".weight"
        matrix = weights.get(target)
        if up is None or matrix is None or matrix.shape != (len(up), down.shape[1]):
            raise PolicyMisconfigured(f"the adapter is of another model: {target} does not fit")
        merged[target] = rounded(matrix.float() + adapter.scale * (up @ down))
    if left:
        raise PolicyMisconfigured(
            f"the adapter has more than matrices A and B of layers: {', '.join(sorted(left)[:5])}"
        )
    return merged
