"""A Llama as textbooks have it: one token and one head after the other, in float64, no cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent_runtime.engine.checkpoint import Architecture, read_architecture
from agent_runtime.engine.tensor_file import read_tensors

Wide = NDArray[np.float64]


class PlainLlama:
    """The model in a folder."""

    def __init__(self, folder: Path) -> None:
        self.a = read_architecture(folder)
        stored = read_tensors(folder / "model.safetensors")
        self.w = {name: it.astype(np.float64) for name, it in stored.items()}
        self.frequencies = np.array([frequency(self.a, at) for at in range(self.a.head_dim // 2)])

    def linear(self, x: Wide, name: str) -> Wide:
        return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0.0)

    def norm(self, x: Wide, name: str) -> Wide:
        return x / np.sqrt((x * x).mean() + self.a.norm_eps) * self.w[f"{name}.weight"]

    def rotate(self, x: Wide, position: int) -> Wide:
        cos, sin = np.cos(self.frequencies * position), np.sin(self.frequencies * position)
        first, second = np.split(x, 2)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin])

    def heads(self, x: Wide, layer: str, part: str, position: int) -> list[Wide]:
        """A token's queries, keys or values."""
        found = list(self.linear(x, f"{layer}.self_attn.{part}_proj").reshape(-1, self.a.head_dim))
        if part == "v":
            return found
        if self.a.head_norms:
            found = [self.norm(head, f"{layer}.self_attn.{part}_norm") for head in found]
        return [self.rotate(head, position) for head in found]

    def attend(self, queries: list[Wide], keys: list[list[Wide]], values: list[list[Wide]]) -> Wide:
        mixed: list[Wide] = []
        for head, query in enumerate(queries):
            shared = head * self.a.kv_heads // self.a.heads
            scores = np.array([query @ each[shared] for each in keys])
            weights = np.exp(scores / math.sqrt(self.a.head_dim))
            weights /= weights.sum()
            mixed.append(weights @ np.array([each[shared] for each in values]))
        return np.concatenate(mixed)

    def layer(self, rows: list[Wide], layer: str) -> list[Wide]:
        normed = [self.norm(row, f"{layer}.input_layernorm") for row in rows]
        queries, keys, values = (
            [self.heads(x, layer, part, at) for at, x in enumerate(normed)] for part in "qkv"
        )
        after: list[Wide] = []
        for at, row in enumerate(rows):
            mixed = self.attend(queries[at], keys[: at + 1], values[: at + 1])
            row = row + self.linear(mixed, f"{layer}.self_attn.o_proj")
            x = self.norm(row, f"{layer}.post_attention_layernorm")
            gate = self.linear(x, f"{layer}.mlp.gate_proj")
            inner = gate / (1 + np.exp(-gate)) * self.linear(x, f"{layer}.mlp.up_proj")
            after.append(row + self.linear(inner, f"{layer}.mlp.down_proj"))
        return after

    def logits(self, ids: Sequence[int]) -> Wide:
        rows = [self.w["model.embed_tokens.weight"][token] for token in ids]
        for index in range(self.a.layers):
            rows = self.layer(rows, f"model.layers.{index}")
        head = self.w["model.embed_tokens.weight" if self.a.tied_embeddings else "lm_head.weight"]
        return np.array([self.norm(row, "model.norm") @ head.T for row in rows])


def frequency(a: Architecture, at: int) -> float:
    """Of a pair of dimensions, in radians a position."""
    plain, scaling = a.rope_theta ** (-2 * at / a.head_dim), a.rope_scaling
    if scaling is None:
        return plain
    if not scaling.original_positions:
        return plain / scaling.factor
    turns = scaling.original_positions * plain / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = min(1.0, max(0.0, (turns - low) / (high - low)))
    return (1 - blend) * plain / scaling.factor + blend * plain


def plain_logprobs(folder: Path, ids: Sequence[int]) -> Wide:
    """[len(ids), vocab]."""
    logits = PlainLlama(folder).logits(ids)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))
