"""The forward pass of Llama-like models over a cache of slots, in torch.

Tokens of all rows of a step go through the linear layers as one list without padding; only
attention pads, by the rectangles of `layout`. Weights are replaced in place, all or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

from agent_runtime.engine.checkpoint import Architecture, match_weights
from agent_runtime.engine.layout import Layout, Rectangle
from agent_runtime.engine.parameters import allocate_parameters

__all__ = ["Batch", "KeyValueCache", "Llama", "make_batch"]


class KeyValueCache:
    """Keys and values of all slots: per layer [slots, kv_heads, capacity, head_dim].

    Zeros at first: what was never written is masked, but masked NaNs would still pad_indices.
    """

    def __init__(
        self,
        architecture: Architecture,
        slots: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (slots, architecture.kv_heads, capacity, architecture.head_dim)
        count = architecture.layers
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(count)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(count)]

    @staticmethod
    def bytes_per_token(architecture: Architecture, dtype: torch.dtype) -> int:
        """Return the bytes of one position of one slot."""
        width = architecture.kv_heads * architecture.head_dim
        return 2 * architecture.layers * width * dtype.itemsize

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        for tensor in (*self.keys, *self.values):
            tensor[target, :, :count] = tensor[source, :, :count]

    def wipe(self, slot: int) -> None:
        """Set a slot back to zeros."""
        for tensor in (*self.keys, *self.values):
            tensor[slot].zero_()

    def free(self) -> None:
        """Free the memory; nothing can be computed afterwards."""
        self.keys.clear()
        self.values.clear()


@dataclass(frozen=True, slots=True)
class _RectangleTensors:
    """A `layout.Rectangle` as tensors."""

    begin: int
    end: int
    shape: tuple[int, int, int]
    """Rows, width, length."""
    slots: tuple[int, int] | torch.Tensor
    pad_indices: torch.Tensor | None
    unpad_indices: torch.Tensor | None
    mask: torch.Tensor
    """[rows, 1, width, length], 0 or -inf, to be added to the attention scores."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A `layout.Layout` as tensors."""

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    rectangles: list[_RectangleTensors]
    logit_indices: torch.Tensor


def make_batch(layout: Layout, device: torch.device, dtype: torch.dtype) -> Batch:
    """Return a step's layout as tensors; `dtype` is the attention masks'."""

    def tensor(values: list[int]) -> torch.Tensor:
        # A step of nothing but parts of long prompts needs no logits, and of an empty list torch
        # would make a float tensor, which cannot index.
        return torch.tensor(values, device=device, dtype=torch.long)

    return Batch(
        tensor(layout.ids),
        tensor(layout.positions),
        tensor(layout.slots),
        [_to_tensors(rectangle, device, dtype) for rectangle in layout.rectangles],
        tensor(layout.logit_indices),
    )


def _to_tensors(
    rectangle: Rectangle, device: torch.device, dtype: torch.dtype
) -> _RectangleTensors:
    rows, width, length = rectangle.shape
    slots = rectangle.slots
    last_visible = torch.tensor(rectangle.last_visible, device=device).view(rows, 1, width, 1)
    hidden = torch.arange(length, device=device) > last_visible
    mask = torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, -math.inf)

    def tensor(values: list[int] | None) -> torch.Tensor | None:
        return None if values is None else torch.tensor(values, device=device)

    return _RectangleTensors(
        begin=rectangle.begin,
        end=rectangle.end,
        shape=rectangle.shape,
        slots=slots if isinstance(slots, tuple) else torch.tensor(slots, device=device),
        pad_indices=tensor(rectangle.pad_indices),
        unpad_indices=tensor(rectangle.unpad_indices),
        mask=mask,
    )


class Llama:
    """Weights and forward pass of one model."""

    def __init__(
        self,
        architecture: Architecture,
        *,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Allocate the weights, which `load_weights` fills; `capacity` = longest context."""
        self.architecture = architecture
        self.device, self.dtype = device, dtype
        self._destinations: dict[str, torch.Tensor] = {}
        """By a checkpoint's name: the rows of a matrix that the tensor is copied into."""
        parameters = allocate_parameters(architecture, self._allocate)
        self._embedding, self._layers = parameters.embedding, parameters.layers
        self._norm, self._head = parameters.norm, parameters.head
        angles = torch.outer(torch.arange(capacity).float(), _frequencies(architecture))
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat([cos, cos], -1)[:, None].to(device, dtype)
        # Rotation is `x * cos + x.roll(half) * sin`; the first half takes the second negated, so
        # the sign is put into the table.
        self._sin = torch.cat([-sin, sin], -1)[:, None].to(device, dtype)

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copy weights over the present ones; see `backend.Backend.load_weights`."""
        tied = self.architecture.tied_embeddings
        expected = {name: tuple(tensor.shape) for name, tensor in self._destinations.items()}
        named = match_weights(weights, lambda tensor: tensor.shape, expected, tied_embeddings=tied)
        with torch.inference_mode():
            for name, destination in self._destinations.items():
                destination.copy_(named[name])

    def free(self) -> None:
        """Free the weights; nothing can be computed afterwards."""
        self._destinations.clear()
        self._layers.clear()
        self._embedding = self._head = self._norm = torch.empty(0)

    @torch.inference_mode()
    def forward(self, batch: Batch, cache: KeyValueCache) -> torch.Tensor:
        """Compute a step and return float32 logits [len(batch.logit_indices), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        a = self.architecture
        qk_heads = a.heads + a.kv_heads
        count = len(batch.ids)
        hidden = F.embedding(batch.ids, self._embedding)  # [tokens, hidden_size]
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        for index, layer in enumerate(self._layers):
            x = F.rms_norm(hidden, (a.hidden_size,), layer.input_norm, a.norm_eps)
            qkv = F.linear(x, layer.qkv, layer.qkv_bias).view(count, -1, a.head_dim)
            qk, v = qkv[:, :qk_heads], qkv[:, qk_heads:]  # [tokens, heads, head_dim]
            if layer.head_norms is not None:
                qk = self._normalise_heads(qk, layer.head_norms)
            qk = torch.addcmul(qk * cos, qk.roll(a.head_dim // 2, -1), sin)
            cache.keys[index][batch.slots, :, batch.positions] = qk[:, a.heads :]
            cache.values[index][batch.slots, :, batch.positions] = v
            parts = [
                self._attend(qk[each.begin : each.end, : a.heads], each, cache, index)
                for each in batch.rectangles
            ]
            mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
            hidden = hidden + F.linear(mixed, layer.output, layer.output_bias)
            x = F.rms_norm(hidden, (a.hidden_size,), layer.post_norm, a.norm_eps)
            gate, up = F.linear(x, layer.gate_up, layer.gate_up_bias).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down, layer.down_bias)
        hidden = F.rms_norm(hidden[batch.logit_indices], (a.hidden_size,), self._norm, a.norm_eps)
        return F.linear(hidden, self._head).float()

    def _attend(
        self, queries: torch.Tensor, rectangle: _RectangleTensors, cache: KeyValueCache, layer: int
    ) -> torch.Tensor:
        """Attend from a rectangle's tokens: [tokens, heads, head_dim] to [tokens, hidden]."""
        a, mask = self.architecture, rectangle.mask
        rows, width, length = rectangle.shape
        keys, values = cache.keys[layer], cache.values[layer]
        if isinstance(rectangle.slots, tuple):
            low, high = rectangle.slots
            keys, values = keys[low:high, :, :length], values[low:high, :, :length]
        else:
            keys = keys[:, :, :length].index_select(0, rectangle.slots)
            values = values[:, :, :length].index_select(0, rectangle.slots)
        if rectangle.pad_indices is not None:
            queries = queries[rectangle.pad_indices]
        if width == 1:
            # Heads that share keys become rows of one query matrix: the keys are read once.
            folded = queries.reshape(rows, a.kv_heads, -1, a.head_dim)
            mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=mask)
        else:
            wide = queries.reshape(rows, width, a.heads, a.head_dim).transpose(1, 2)
            if self.device.type != "cpu":
                # CUDA's memory-saving kernel takes a mask or shared heads, not both.
                keys = keys.repeat_interleave(a.heads // a.kv_heads, 1)
                values = values.repeat_interleave(a.heads // a.kv_heads, 1)
            mixed = F.scaled_dot_product_attention(
                wide, keys, values, attn_mask=mask, enable_gqa=keys.shape[1] != a.heads
            ).transpose(1, 2)
        flat = mixed.reshape(rows * width, a.heads * a.head_dim)
        return flat if rectangle.unpad_indices is None else flat[rectangle.unpad_indices]

    def _normalise_heads(self, qk: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        a = self.architecture
        scaled = F.rms_norm(qk, (a.head_dim,), None, a.norm_eps)
        queries, keys = norms[: a.head_dim], norms[a.head_dim :]
        return scaled * torch.cat([queries.expand(a.heads, -1), keys.expand(a.kv_heads, -1)])

    def _allocate(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> torch.Tensor:
        """Implement `parameters.AllocateParameter`."""
        tensor = torch.empty(shape, device=self.device, dtype=self.dtype)
        begin = 0
        for name, count in zip(names, rows or shape[:1], strict=True):
            self._destinations[f"{name}.{kind}"] = tensor[begin : begin + count]
            begin += count
        return tensor


def _frequencies(architecture: Architecture) -> torch.Tensor:
    """Return rotary frequencies [head_dim / 2], in radians per position."""
    a, scaling = architecture, architecture.rope_scaling
    powers = torch.arange(0, a.head_dim, 2, dtype=torch.int64).float() / a.head_dim
    frequencies = 1.0 / torch.pow(a.rope_theta, powers)
    if scaling is None:
        return frequencies
    if not scaling.original_positions:
        return frequencies / scaling.factor
    # Llama-3: short wavelengths stay, long ones are scaled, those between are blended.
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = (scaling.original_positions / wavelengths - low) / (high - low)
    blend = blend.clamp(0, 1)
    return (1 - blend) * frequencies / scaling.factor + blend * frequencies
