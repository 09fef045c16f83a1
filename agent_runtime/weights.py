"""New weights for a policy that goes on playing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["AdapterWeights", "BroadcastWeights", "GroupBackend", "Interrupt", "Weights"]

GroupBackend = Literal["auto", "nccl", "gloo"]
"""Of a process group with a model server: auto = nccl where server and learner have GPUs of their
own, else gloo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastWeights:
    """A state_dict that model servers get through a process group, on whichever machine they are.

    Such a group is for a network of one's own: nothing in it is encrypted or authenticated.
    """

    tensors: Mapping[str, Any]
    backend: GroupBackend = "auto"
    address: str = ""
    """This machine, as the servers see it; empty = the address that leads to each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWeights:
    """A LoRA adapter on the weights that a policy has: W + scale B A in place of some."""

    adapter: str | Path | Mapping[str, Any]
    """Its folder as peft writes it, for servers; or tensors in float32 under the names in it, for
    the embedded engine."""
    scale: float = 1.0
    """Of tensors: alpha over rank. A folder says it itself."""
    dtype: Any = None
    """Of tensors: what the model's weights are rounded to, a `torch.dtype`; None = nothing."""


Weights = str | Path | Mapping[str, Any] | BroadcastWeights | AdapterWeights
"""A checkpoint's folder, a state_dict of tensors under the names of its safetensors files, or an
adapter on what was given before."""

Interrupt = Literal["in_place", "retract", "abort", "finish"]
"""What happens to replies that are being sampled when weights are replaced: they go on with their
cache as it is, go on after it was recomputed with the new weights, are given back and continued by
a new request, or are finished first while new ones wait."""
