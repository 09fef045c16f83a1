"""New weights for a policy that goes on playing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

__all__ = ["Interrupt", "Weights"]

Weights = str | Path | Mapping[str, Any]
"""A checkpoint's folder, or a state_dict of tensors under the names of its safetensors files."""

Interrupt = Literal["in_place", "retract", "abort", "finish"]
"""What happens to replies that are being sampled when weights are replaced: they go on with their
cache as it is, go on after it was recomputed with the new weights, are given back and continued by
a new request, or are finished first while new ones wait."""
