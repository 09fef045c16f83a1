"""New weights for a policy that goes on playing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["BroadcastWeights", "GroupBackend", "Interrupt", "Weights"]

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


Weights = str | Path | Mapping[str, Any] | BroadcastWeights
"""A checkpoint's folder, or a state_dict of tensors under the names of its safetensors files."""

Interrupt = Literal["in_place", "retract", "abort", "finish"]
"""What happens to replies that are being sampled when weights are replaced: they go on with their
cache as it is, go on after it was recomputed with the new weights, are given back and continued by
a new request, or are finished first while new ones wait."""
