"""The forward pass of Llama-like models over a cache of slots, in NumPy: float32 on a CPU.

The same computation as `llama`, whose logits it gives up to rounding.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent_runtime.engine.checkpoint import Architecture, match_weights
from agent_runtime.engine.layout import Layout, Rectangle
from agent_runtime.engine.parameters import allocate_parameters
from agent_runtime.engine.tensor_file import Array

__all__ = ["NumpyCache", "NumpyLlama"]


class NumpyCache:
    """Keys and values of all slots: per layer [slots, kv_heads, capacity, head_dim].

    Takes memory for positions that were used, not for the others.
    """

    def __init__(self, architecture: Architecture, slots: int, capacity: int) -> None:
        shape = (slots, architecture.kv_heads, capacity, architecture.head_dim)
        count = architecture.layers
        self.keys = [_zeros(shape) for _ in range(count)]
        self.values = [_zeros(shape) for _ in range(count)]

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        for array in (*self.keys, *self.values):
            array[target, :, :count] = array[source, :, :count]

    def wipe(self, slot: int) -> None:
        """Set a slot back to zeros."""
        for array in (*self.keys, *self.values):
            array[slot] = 0


def _zeros(shape: tuple[int, ...]) -> Array:
    # NumPy asks for pages of 2 MiB, which is more than a head's keys in a whole context.
    memory = mmap.mmap(-1, 4 * math.prod(shape))
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # where the system takes such pages unasked
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, np.float32).reshape(shape)


@dataclass(frozen=True, slots=True)
class _MaskedRectangle:
    """A rectangle with its attention mask."""

    rectangle: Rectangle
    mask: Array
    """[rows, 1, 1, width, length], 0 or -inf, to be added to the attention scores."""
    rows: list[tuple[int, int]]
    """Of each row its slot, and how many of its positions are visible to any of its tokens."""


class NumpyLlama:
    """Weights and forward pass of one model."""

    def __init__(self, architecture: Architecture, *, capacity: int) -> None:
        """Allocate the weights, which `load_weights` fills; `capacity` = longest context."""
        self.architecture = architecture
        self._destinations: dict[str, Array] = {}
        """By a checkpoint's name: the rows of a matrix that the tensor is copied into."""
        parameters = allocate_parameters(architecture, self._allocate)
        self._embedding, self._layers = parameters.embedding, parameters.layers
        self._norm, self._head = parameters.norm, parameters.head
        angles = np.outer(np.arange(capacity, dtype=np.float32), _frequencies(architecture))
        cos, sin = np.cos(angles), np.sin(angles)
        self._cos: Array = np.concatenate([cos, cos], -1)[:, None]
        # Rotation adds the rolled halves times sin; the first half takes the second negated, so
        # the sign is put into the table.
        self._sin: Array = np.concatenate([-sin, sin], -1)[:, None]

    def load_weights(self, weights: Mapping[str, Array]) -> None:
        """Copy weights over the present ones; see `backend.Backend.load_weights`."""
        tied = self.architecture.tied_embeddings
        expected = {name: array.shape for name, array in self._destinations.items()}
        named = match_weights(weights, lambda array: array.shape, expected, tied_embeddings=tied)
        for name, destination in self._destinations.items():
            destination[...] = named[name]

    def forward(self, layout: Layout, cache: NumpyCache) -> Array:
        """Compute a step and return logits [len(layout.logit_indices), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        # exp(-gate) may overflow to inf, which gives the right 0; the engine checks for NaN.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._forward(layout, cache)

    def _forward(self, layout: Layout, cache: NumpyCache) -> Array:
        a = self.architecture
        qk_heads, count = a.heads + a.kv_heads, len(layout.ids)
        positions, slots = np.array(layout.positions), np.array(layout.slots)
        masked = [_MaskedRectangle(each, _mask(each), _rows(each)) for each in layout.rectangles]
        hidden = self._embedding[np.array(layout.ids)]  # [tokens, hidden_size]
        cos, sin = self._cos[positions], self._sin[positions]
        for index, layer in enumerate(self._layers):
            x = _rms_norm(hidden, a.norm_eps) * layer.input_norm
            qkv = _linear(x, layer.qkv, layer.qkv_bias).reshape(count, -1, a.head_dim)
            qk, v = qkv[:, :qk_heads], qkv[:, qk_heads:]  # [tokens, heads, head_dim]
            if layer.head_norms is not None:
                scales = np.repeat(layer.head_norms.reshape(2, -1), [a.heads, a.kv_heads], 0)
                qk = _rms_norm(qk, a.norm_eps) * scales
            qk = _rotate(qk, cos, sin)
            cache.keys[index][slots, :, positions] = qk[:, a.heads :]
            cache.values[index][slots, :, positions] = v
            queries = qk[:, : a.heads]
            parts = [self._attend(queries, each, cache, index) for each in masked]
            mixed = parts[0] if len(parts) == 1 else np.concatenate(parts)
            hidden = hidden + _linear(mixed, layer.output, layer.output_bias)
            x = _rms_norm(hidden, a.norm_eps) * layer.post_norm
            gate, up = np.split(_linear(x, layer.gate_up, layer.gate_up_bias), 2, -1)
            inner: Array = gate / (np.float32(1) + np.exp(-gate)) * up
            hidden = hidden + _linear(inner, layer.down, layer.down_bias)
        last = hidden[np.array(layout.logit_indices, np.intp)]
        return _linear(_rms_norm(last, a.norm_eps) * self._norm, self._head, None)

    def _attend(
        self, queries: Array, masked: _MaskedRectangle, cache: NumpyCache, layer: int
    ) -> Array:
        """Attend from a rectangle's tokens, out of the queries [tokens, heads, head_dim] of all.

        Returns:
            [tokens of the rectangle, hidden].
        """
        a, rectangle = self.architecture, masked.rectangle
        rows, width, length = rectangle.shape
        keys, values = cache.keys[layer][:, :, None], cache.values[layer][:, :, None]
        queries = queries[rectangle.begin : rectangle.end]
        if rectangle.pad_indices is not None:
            queries = queries[np.array(rectangle.pad_indices)]
        # Heads that share keys stand beside each other: [rows, kv_heads, group, width, head_dim].
        wide = queries.reshape(rows, width, a.kv_heads, -1, a.head_dim).transpose(0, 2, 3, 1, 4)
        # Row by row: one product of all would read each slot as far as the longest of them, and
        # slots that are not neighbours would be copied first.
        scores = np.zeros((*wide.shape[:-1], length), np.float32)
        for row, (slot, end) in enumerate(masked.rows):
            visible = keys[slot, :, :, :end].swapaxes(-1, -2)
            np.matmul(wide[row], visible, out=scores[row, ..., :end])
        scores *= np.float32(1 / math.sqrt(a.head_dim))
        scores += masked.mask
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.empty(wide.shape, np.float32)
        for row, (slot, end) in enumerate(masked.rows):
            np.matmul(scores[row, ..., :end], values[slot, :, :, :end], out=mixed[row])
        mixed = mixed.transpose(0, 3, 1, 2, 4)
        flat = mixed.reshape(rows * width, a.heads * a.head_dim)
        unpad = rectangle.unpad_indices
        return flat if unpad is None else flat[np.array(unpad)]

    def _allocate(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> Array:
        """Implement `parameters.AllocateParameter`."""
        array: Array = np.zeros(shape, np.float32)
        begin = 0
        for name, count in zip(names, rows or shape[:1], strict=True):
            self._destinations[f"{name}.{kind}"] = array[begin : begin + count]
            begin += count
        return array


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
    rolled = np.concatenate([x[..., half:], x[..., :half]], -1)
    return np.add(x * cos, rolled * sin, dtype=np.float32)


def _rows(rectangle: Rectangle) -> list[tuple[int, int]]:
    rows, width, _ = rectangle.shape
    slots = rectangle.slots
    last = np.array(rectangle.last_visible).reshape(rows, width).max(-1)
    return list(zip(range(*slots) if isinstance(slots, tuple) else slots, last + 1, strict=True))


def _mask(rectangle: Rectangle) -> Array:
    rows, width, length = rectangle.shape
    last_visible = np.array(rectangle.last_visible).reshape(rows, 1, 1, width, 1)
    hidden = np.arange(length) > last_visible
    return np.where(hidden, np.float32(-np.inf), np.float32(0))


def _frequencies(architecture: Architecture) -> Array:
    """Return rotary frequencies [head_dim / 2], in radians per position."""
    a, scaling = architecture, architecture.rope_scaling
    powers = np.arange(0, a.head_dim, 2).astype(np.float32) / np.float32(a.head_dim)
    frequencies: Array = np.power(np.float32(a.rope_theta), -powers, dtype=np.float32)
    if scaling is None:
        return frequencies
    if not scaling.original_positions:
        return frequencies / np.float32(scaling.factor)
    # Llama-3: short wavelengths stay, long ones are scaled, those between are blended.
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = (scaling.original_positions / wavelengths - low) / (high - low)
    blend = np.clip(blend, 0, 1).astype(np.float32)
    scaled = (1 - blend) * frequencies / np.float32(scaling.factor)
    return (scaled + blend * frequencies).astype(np.float32)
