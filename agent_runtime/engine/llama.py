"""The forward pass of Llama-like models over a cache of slots, in torch.

Tokens of all rows of a step go through the linear layers as one list without padding; only
attention pads, by the rectangles of `layout`. Weights are replaced in place, all or none.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

from agent_runtime.engine.attention import attend_by_products
from agent_runtime.engine.checkpoint import Architecture, match_weights
from agent_runtime.engine.grouping import SharedPrefix
from agent_runtime.engine.layout import Layout, Rectangle
from agent_runtime.engine.linear import Parameter, has_fast_bfloat16, linear, pack
from agent_runtime.engine.parameters import EMBEDDING, allocate_parameters

__all__ = ["Batch", "KeyValueCache", "Llama", "make_batch"]

_MOST_SCORES: Final = 1 << 26
"""Attention scores that are in memory at once; beyond that the kernel that keeps none is used."""


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
    prefix: SharedPrefix | None


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
    lists = [layout.ids, layout.positions, layout.slots, layout.logit_indices]
    for each in layout.rectangles:
        slots = [] if isinstance(each.slots, tuple) else each.slots
        lists += [each.last_visible, slots, each.pad_indices or [], each.unpad_indices or []]
    ids, positions, slots, logit_indices, *parts = _transfer(lists, device)
    rectangles = [
        _to_tensors(rectangle, parts[4 * index : 4 * index + 4], dtype)
        for index, rectangle in enumerate(layout.rectangles)
    ]
    return Batch(ids, positions, slots, rectangles, logit_indices)


def _transfer(lists: Sequence[Sequence[int]], device: torch.device) -> Sequence[torch.Tensor]:
    """Return lists as tensors on the device, brought there as one: each transfer has its price.

    By way of an array, which takes over a list eight times as fast as a tensor does.
    """
    packed = array("q", list(chain.from_iterable(lists)))
    whole = torch.frombuffer(packed, dtype=torch.long).to(device)
    return torch.split(whole, [len(each) for each in lists])


def _to_tensors(
    rectangle: Rectangle, parts: Sequence[torch.Tensor], dtype: torch.dtype
) -> _RectangleTensors:
    """Return a rectangle with its lists as tensors, in the order of `make_batch`."""
    last_visible, slots, pad_indices, unpad_indices = parts
    rows, width, length = rectangle.shape
    hidden = torch.arange(length, device=slots.device) > last_visible.view(rows, 1, width, 1)
    mask = torch.zeros(hidden.shape, device=slots.device, dtype=dtype)
    return _RectangleTensors(
        begin=rectangle.begin,
        end=rectangle.end,
        shape=rectangle.shape,
        slots=rectangle.slots if isinstance(rectangle.slots, tuple) else slots,
        pad_indices=None if rectangle.pad_indices is None else pad_indices,
        unpad_indices=None if rectangle.unpad_indices is None else unpad_indices,
        mask=mask.masked_fill_(hidden, -math.inf),
        prefix=rectangle.prefix,
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
        self._parameters: list[Parameter] = []
        parameters = allocate_parameters(architecture, self._allocate)
        self._embedding, self._layers = parameters.embedding, parameters.layers
        self._norm, self._own_head = parameters.norm, parameters.head
        self._head = torch.empty(0)
        angles = torch.outer(torch.arange(capacity).float(), _frequencies(architecture))
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat([cos, cos], -1)[:, None].to(device, dtype)
        # Rotation is `x * cos + x.roll(half) * sin`; the first half takes the second negated, so
        # the sign is put into the table.
        self._sin = torch.cat([-sin, sin], -1)[:, None].to(device, dtype)

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copy weights over the present ones; see `backend.Backend.load_weights`."""
        tied = self.architecture.tied_embeddings
        expected = {
            name: shape
            for parameter in self._parameters
            for name, shape in parameter.expected.items()
        }
        named = match_weights(weights, lambda tensor: tensor.shape, expected, tied_embeddings=tied)
        with torch.inference_mode():
            for parameter in self._parameters:
                parameter.load(named)
            self._head = self._own_head.tensor
            if self._own_head is self._embedding:  # which is looked up, so it keeps its own order
                self._head = pack(self._head)

    def free(self) -> None:
        """Free the weights; nothing can be computed afterwards."""
        for parameter in self._parameters:
            parameter.free()
        self._head = torch.empty(0)

    @torch.inference_mode()
    def forward(self, batch: Batch, cache: KeyValueCache) -> torch.Tensor:
        """Compute a step and return float32 logits [len(batch.logit_indices), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        a = self.architecture
        qk_heads = a.heads + a.kv_heads
        count = len(batch.ids)
        hidden = F.embedding(batch.ids, self._embedding.tensor)  # [tokens, hidden_size]
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        for index, layer in enumerate(self._layers):
            x = F.rms_norm(hidden, (a.hidden_size,), layer.input_norm.tensor, a.norm_eps)
            qkv = layer.qkv.multiply(x, layer.qkv_bias).view(count, -1, a.head_dim)
            qk, v = qkv[:, :qk_heads], qkv[:, qk_heads:]  # [tokens, heads, head_dim]
            if layer.head_norms is not None:
                qk = self._normalise_heads(qk, layer.head_norms.tensor)
            qk = torch.addcmul(qk * cos, qk.roll(a.head_dim // 2, -1), sin)
            cache.keys[index][batch.slots, :, batch.positions] = qk[:, a.heads :]
            cache.values[index][batch.slots, :, batch.positions] = v
            parts = [
                self._attend(qk[each.begin : each.end, : a.heads], each, cache, index)
                for each in batch.rectangles
            ]
            mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
            hidden = hidden + layer.output.multiply(mixed, layer.output_bias)
            x = F.rms_norm(hidden, (a.hidden_size,), layer.post_norm.tensor, a.norm_eps)
            gate, up = layer.gate_up.multiply(x, layer.gate_up_bias).chunk(2, -1)
            hidden = hidden + layer.down.multiply(F.silu(gate) * up, layer.down_bias)
        hidden = hidden[batch.logit_indices]
        hidden = F.rms_norm(hidden, (a.hidden_size,), self._norm.tensor, a.norm_eps)
        return linear(hidden, self._head).float()

    def _attend(
        self, queries: torch.Tensor, rectangle: _RectangleTensors, cache: KeyValueCache, layer: int
    ) -> torch.Tensor:
        """Attend from a rectangle's tokens: [tokens, heads, head_dim] to [tokens, hidden]."""
        a, prefix = self.architecture, rectangle.prefix
        rows, width, length = rectangle.shape
        if rectangle.pad_indices is not None:
            queries = queries[rectangle.pad_indices]
        multiplied = self.device.type == "cpu" and (
            width == 1 or (self.dtype == torch.bfloat16 and has_fast_bfloat16(self.device))
        )
        multiplied &= rows * width * a.heads * length <= _MOST_SCORES
        begin = prefix.count if prefix is not None and multiplied else 0
        keys, values = (
            _of_slots(each[layer], rectangle.slots, begin, length)
            for each in (cache.keys, cache.values)
        )
        if multiplied:
            shared = None
            if prefix is not None:
                shared = tuple(
                    each[layer][prefix.slot, :, :begin] for each in (cache.keys, cache.values)
                )
            flat = attend_by_products(
                queries.view(rows, width, a.heads, a.head_dim),
                keys,
                values,
                rectangle.mask[..., begin:],
                shared,
            )
        elif width == 1:
            # Heads that share keys become rows of one query matrix: the keys are read once.
            folded = queries.reshape(rows, a.kv_heads, -1, a.head_dim)
            mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=rectangle.mask)
            flat = mixed.reshape(rows, a.heads * a.head_dim)
        else:
            wide = queries.reshape(rows, width, a.heads, a.head_dim).transpose(1, 2)
            if self.device.type != "cpu":
                # CUDA's memory-saving kernel takes a mask or shared heads, not both.
                keys = keys.repeat_interleave(a.heads // a.kv_heads, 1)
                values = values.repeat_interleave(a.heads // a.kv_heads, 1)
            mixed = F.scaled_dot_product_attention(
                wide, keys, values, attn_mask=rectangle.mask, enable_gqa=keys.shape[1] != a.heads
            )
            flat = mixed.transpose(1, 2).reshape(rows * width, a.heads * a.head_dim)
        return flat if rectangle.unpad_indices is None else flat[rectangle.unpad_indices]

    def _normalise_heads(self, qk: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        a = self.architecture
        scaled = F.rms_norm(qk, (a.head_dim,), None, a.norm_eps)
        queries, keys = norms[: a.head_dim], norms[a.head_dim :]
        return scaled * torch.cat([queries.expand(a.heads, -1), keys.expand(a.kv_heads, -1)])

    def _allocate(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> Parameter:
        """Implement `parameters.AllocateParameter`."""
        parts = {
            f"{name}.{kind}": count for name, count in zip(names, rows or shape[:1], strict=True)
        }
        looked_up = names == (EMBEDDING,)
        parameter = Parameter(
            shape, parts, multiplied=not looked_up, device=self.device, dtype=self.dtype
        )
        self._parameters.append(parameter)
        return parameter


def _of_slots(
    cached: torch.Tensor, slots: tuple[int, int] | torch.Tensor, begin: int, end: int
) -> torch.Tensor:
    """Return positions of some slots [rows, kv_heads, end - begin, head_dim]."""
    if isinstance(slots, tuple):
        return cached[slots[0] : slots[1], :, begin:end]
    return cached[:, :, begin:end].index_select(0, slots)


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
