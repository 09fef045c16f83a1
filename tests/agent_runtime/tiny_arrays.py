"""Tiny random checkpoints in the Hugging Face layout, made and written without torch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from agent_runtime.engine.checkpoint import INT8
from agent_runtime.engine.tensor_file import Array, StoredAs, write_tensors
from tests.agent_runtime import tiny_tokenizers

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 420,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": None,
    "eos_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with a head for each query": {"num_key_value_heads": 4},
    "llama-3 scaling": {"rope_scaling": LLAMA3_ROPE, "rope_theta": 500000.0},
    "linear scaling": {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "tied embeddings": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "own head size": {"head_dim": 32},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3", "head_dim": 16},
    "mistral": {"model_type": "mistral", "sliding_window": None},
}


def shapes(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of a model's tensors."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim") or hidden // config["num_attention_heads"]
    queries, keys = (size * config[f"num_{name}_heads"] for name in ("attention", "key_value"))
    family = config["model_type"]
    attention, mlp = config.get("attention_bias", False), config.get("mlp_bias", False)

    def linear(
        name: str, rows: int, columns: int, *, bias: bool = False
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"{name}.weight", (rows, columns)
        if bias:
            yield f"{name}.bias", (rows,)

    yield from linear("model.embed_tokens", config["vocab_size"], hidden)
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        for part, rows in (("q", queries), ("k", keys), ("v", keys)):
            bias = attention or family == "qwen2"
            yield from linear(f"{layer}.self_attn.{part}_proj", rows, hidden, bias=bias)
        yield from linear(f"{layer}.self_attn.o_proj", hidden, queries, bias=attention)
        yield from linear(f"{layer}.mlp.gate_proj", inner, hidden, bias=mlp)
        yield from linear(f"{layer}.mlp.up_proj", inner, hidden, bias=mlp)
        yield from linear(f"{layer}.mlp.down_proj", hidden, inner, bias=mlp)
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        if family == "qwen3":
            yield f"{layer}.self_attn.q_norm.weight", (size,)
            yield f"{layer}.self_attn.k_norm.weight", (size,)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield from linear("lm_head", config["vocab_size"], hidden)


def random_tensors(
    config: dict[str, Any], draw: Callable[[tuple[int, ...]], Any]
) -> dict[str, Any]:
    """Tensors of what `draw` gives by shape, standard normal numbers; wide enough that the
    likeliest token stands out.
    """
    return {
        name: 0.2 * draw(shape) + (1 if name.endswith("norm.weight") else 0)
        for name, shape in shapes(config)
    }


def arrays(config: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    """Random weights."""
    made = random_tensors(config, np.random.default_rng(seed).standard_normal)
    return {name: it.astype("f4") for name, it in made.items()}


def save_arrays(
    folder: Path, *, seed: int = 0, stored_as: StoredAs = "float32", **changes: Any
) -> Path:
    """Write config.json and model.safetensors; a change to None leaves the key out."""
    config = {key: it for key, it in {**LLAMA, **changes}.items() if it is not None}
    stored: dict[str, Any] = {"torch_dtype": stored_as}
    if stored_as == "int8":
        stored = {"torch_dtype": "float32", "quantization_config": INT8}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, **stored}))
    write_tensors(folder / "model.safetensors", arrays(config, seed), stored_as)
    return folder


def save_chat_model(folder: Path, **changes: Any) -> Path:
    """A whole model folder: tokenizer, chat template and weights that know all its ids."""
    tiny_tokenizers.chatml(folder)
    return save_arrays(folder, **changes)
