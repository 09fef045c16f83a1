"""The forward pass of Llama-like models over a cache of slots: `llama` in NumPy, float32 on a CPU.

Owns weights and cache. Tokens of all rows of a step go through the linear layers as one list; only
attention pads, by the rectangles of `layout`. Weights are swapped in place, all or none. Invariant:
the logits are those of `llama` up to rounding. Knows no requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent_runtime.engine.checkpoint import Architecture, fit_weights
from agent_runtime.engine.layout import Layout, Rectangle
from agent_runtime.engine.parameters import lay_out_parameters
from agent_runtime.engine.tensor_file import Array

__all__ = ["NumpyCache", "NumpyLlama"]


class NumpyCache:
    """Keys and values of all slots: per layer [slots, kv_heads, capacity, head_dim]."""

    def __init__(self, architecture: Architecture, slots: int, capacity: int) -> None:
        shape = (slots, architecture.kv_heads, capacity, architecture.head_dim)
        count = architecture.layers
        self.keys: list[Array] = [np.zeros(shape, np.float32) for _ in range(count)]
        self.values: list[Array] = [np.zeros(shape, np.float32) for _ in range(count)]

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        for stored in (*self.keys, *self.values):
            stored[target, :, :count] = stored[source, :, :count]

    def wipe(self, slot: int) -> None:
        """Back to zeros."""
        for stored in (*self.keys, *self.values):
            stored[slot] = 0


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle with its mask [rows, 1, 1, width, length], to be added to the scores."""

    place: Rectangle
    mask: Array


class NumpyLlama:
    """Weights and forward pass of one model."""

    def __init__(self, architecture: Architecture, *, capacity: int) -> None:
        """Weights are not there before `load`; `capacity` = longest context."""
        self.architecture = architecture
        self._destinations: dict[str, Array] = {}
        made = lay_out_parameters(architecture, self._parameter)
        self._embedding, self._layers = made.embedding, made.layers
        self._norm, self._head = made.norm, made.head
        angles = np.outer(np.arange(capacity, dtype=np.float32), _frequencies(architecture))
        cos, sin = np.cos(angles), np.sin(angles)
        self._cos: Array = np.concatenate([cos, cos], -1)[:, None]
        # Signed for `roll(half)`: the first half takes the second with a minus.
        self._sin: Array = np.concatenate([-sin, sin], -1)[:, None]

    def load(self, weights: Mapping[str, Array]) -> None:
        """Copy weights into place; see `backend.Backend.load`."""
        expected = {name: it.shape for name, it in self._destinations.items()}
        given = fit_weights(
            weights, lambda it: it.shape, expected, tied=self.architecture.tied_embeddings
        )
        for name, place in self._destinations.items():
            place[...] = given[name]

    def forward(self, layout: Layout, cache: NumpyCache) -> Array:
        """Compute a step; returns logits [len(layout.last), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        # exp(-gate) overflows to inf, which gives the right 0; NaN is the caller's to find.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._forward(layout, cache)

    def _forward(self, layout: Layout, cache: NumpyCache) -> Array:
        a = self.architecture
        both, count = a.heads + a.kv_heads, len(layout.ids)
        positions, slots = np.array(layout.positions), np.array(layout.slots)
        boxes = [_Box(it, _mask(it)) for it in layout.rectangles]
        hidden = self._embedding[np.array(layout.ids)]
        cos, sin = self._cos[positions], self._sin[positions]
        for index, layer in enumerate(self._layers):
            x = _rms_norm(hidden, a.norm_eps) * layer.input_norm
            qkv = _linear(x, layer.qkv, layer.qkv_bias).reshape(count, -1, a.head_dim)
            qk, v = qkv[:, :both], qkv[:, both:]
            if layer.head_norms is not None:
                scales = np.repeat(layer.head_norms.reshape(2, -1), [a.heads, a.kv_heads], 0)
                qk = _rms_norm(qk, a.norm_eps) * scales
            qk = _rotate(qk, cos, sin)
            cache.keys[index][slots, :, positions] = qk[:, a.heads :]
            cache.values[index][slots, :, positions] = v
            parts = [
                self._attend(qk[it.place.begin : it.place.end, : a.heads], it, cache, index)
                for it in boxes
            ]
            mixed = parts[0] if len(parts) == 1 else np.concatenate(parts)
            hidden = hidden + _linear(mixed, layer.output, layer.output_bias)
            x = _rms_norm(hidden, a.norm_eps) * layer.post_norm
            gate, up = np.split(_linear(x, layer.gate_up, layer.gate_up_bias), 2, -1)
            inner: Array = gate / (np.float32(1) + np.exp(-gate)) * up
            hidden = hidden + _linear(inner, layer.down, layer.down_bias)
        last = hidden[np.array(layout.last, np.intp)]
        return _linear(_rms_norm(last, a.norm_eps) * self._norm, self._head, None)

    def _attend(self, queries: Array, box: _Box, cache: NumpyCache, index: int) -> Array:
        """[tokens, heads, head_dim] of a rectangle's tokens to [tokens, heads * head_dim]."""
        a = self.architecture
        rows, width, length = box.place.shape
        place = box.place.slots
        chosen = slice(*place) if isinstance(place, tuple) else np.array(place)
        keys, values = cache.keys[index][chosen], cache.values[index][chosen]
        keys, values = keys[:, :, None, :length], values[:, :, None, :length]
        if box.place.spread is not None:
            queries = queries[np.array(box.place.spread)]
        # Heads that share keys stand beside each other: [rows, kv_heads, group, width, head_dim].
        wide = queries.reshape(rows, width, a.kv_heads, -1, a.head_dim).transpose(0, 2, 3, 1, 4)
        scores = wide @ keys.swapaxes(-1, -2)
        scores *= np.float32(1 / math.sqrt(a.head_dim))
        scores += box.mask
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        mixed = (scores @ values).transpose(0, 3, 1, 2, 4)
        flat = mixed.reshape(rows * width, a.heads * a.head_dim)
        return flat if box.place.collect is None else flat[np.array(box.place.collect)]

    def _parameter(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> Array:
        """A `parameters.MakeRoom`."""
        whole: Array = np.zeros(shape, np.float32)
        begin = 0
        for name, count in zip(names, rows or shape[:1], strict=True):
            self._destinations[f"{name}.{kind}"] = whole[begin : begin + count]
            begin += count
        return whole


def _linear(x: Array, weight: Array, bias: Array | None) -> Array:
    y = x @ weight.T
    return y if bias is None else y + bias


def _rms_norm(x: Array, epsilon: float) -> Array:
    size: Array = np.sqrt(
        np.square(x).mean(-1, keepdims=True) + np.float32(epsilon), dtype=np.float32
    )
    return np.divide(x, size, dtype=np.float32)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    turned = np.concatenate([x[..., half:], x[..., :half]], -1)
    return np.add(x * cos, turned * sin, dtype=np.float32)


def _mask(box: Rectangle) -> Array:
    rows, width, length = box.shape
    limits = np.array(box.seen).reshape(rows, 1, 1, width, 1)
    hidden = np.arange(length) > limits
    return np.where(hidden, np.float32(-np.inf), np.float32(0))


def _frequencies(architecture: Architecture) -> Array:
    """Rotary frequencies [head_dim / 2], in radians a position."""
    a, scaling = architecture, architecture.rope_scaling
    powers = np.arange(0, a.head_dim, 2).astype(np.float32) / np.float32(a.head_dim)
    frequencies: Array = np.power(np.float32(a.rope_theta), -powers, dtype=np.float32)
    if scaling is None:
        return frequencies
    if not scaling.original_positions:
        return frequencies / np.float32(scaling.factor)
    # Llama-3: short wavelengths stay, long ones are stretched, those between are blended.
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = (scaling.original_positions / wavelengths - low) / (high - low)
    blend = np.clip(blend, 0, 1).astype(np.float32)
    stretched = (1 - blend) * frequencies / np.float32(scaling.factor)
    return (stretched + blend * frequencies).astype(np.float32)
