"""Tiny random checkpoints in the Hugging Face layout, written by torch alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")

from tests.agent_runtime.tiny_arrays import LLAMA, LLAMA3_ROPE  # noqa: E402

__all__ = ["LLAMA", "LLAMA3_ROPE", "save_model", "weights"]


def weights(config: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """A random state_dict; wide enough that the likeliest token stands out."""
    draw = torch.Generator().manual_seed(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries, keys = (size * config[f"num_{name}_heads"] for name in ("attention", "key_value"))
    family = config["model_type"]
    state: dict[str, Any] = {}

    def linear(name: str, rows: int, columns: int, *, bias: bool = False) -> None:
        state[f"{name}.weight"] = torch.randn(rows, columns, generator=draw) * 0.2
        if bias:
            state[f"{name}.bias"] = torch.randn(rows, generator=draw) * 0.2

    def norm(name: str, width: int) -> None:
        state[f"{name}.weight"] = 1 + 0.2 * torch.randn(width, generator=draw)

    linear("model.embed_tokens", config["vocab_size"], hidden)
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        attention = config.get("attention_bias", False)
        for part, rows in (("q", queries), ("k", keys), ("v", keys)):
            bias = attention or family == "qwen2"
            linear(f"{layer}.self_attn.{part}_proj", rows, hidden, bias=bias)
        linear(f"{layer}.self_attn.o_proj", hidden, queries, bias=attention)
        mlp = config.get("mlp_bias", False)
        linear(f"{layer}.mlp.gate_proj", inner, hidden, bias=mlp)
        linear(f"{layer}.mlp.up_proj", inner, hidden, bias=mlp)
        linear(f"{layer}.mlp.down_proj", hidden, inner, bias=mlp)
        norm(f"{layer}.input_layernorm", hidden)
        norm(f"{layer}.post_attention_layernorm", hidden)
        if family == "qwen3":
            norm(f"{layer}.self_attn.q_norm", size)
            norm(f"{layer}.self_attn.k_norm", size)
    norm("model.norm", hidden)
    if not config["tie_word_embeddings"]:
        linear("lm_head", config["vocab_size"], hidden)
    return state


def save_model(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write config.json and model.safetensors; a change to None leaves the key out."""
    config = {key: it for key, it in {**LLAMA, **changes}.items() if it is not None}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.save_file(weights(config, seed), folder / "model.safetensors", {"format": "pt"})
    return folder
