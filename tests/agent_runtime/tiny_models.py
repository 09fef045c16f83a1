"""Tiny random checkpoints in the Hugging Face layout, written by torch alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

from tests.agent_runtime.tiny_arrays import LLAMA, LLAMA3_ROPE, random_tensors  # noqa: E402

__all__ = ["LLAMA", "LLAMA3_ROPE", "save_model", "weights"]


def weights(config: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """A random state_dict."""
    draw = torch.Generator().manual_seed(seed)
    return random_tensors(config, lambda shape: torch.randn(shape, generator=draw))


def save_model(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write config.json and model.safetensors; a change to None leaves the key out."""
    config = {key: it for key, it in {**LLAMA, **changes}.items() if it is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.save_file(weights(config, seed), folder / "model.safetensors", {"format": "pt"})
    return folder
