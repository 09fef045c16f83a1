# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""The forward pass of Llama-like models over a cache of slots.

Owns weights and cache. Tokens of all rows of a step go through the linear layers as one list
without padding; only attention pads, by the rectangles of `layout`. Weights are swapped in
place, all or none. Knows no requests.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

from agent_runtime.engine.checkpoint import Architecture, fit_weights
from agent_runtime.engine.layout import Layout, Rectangle
from agent_runtime.engine.parameters import lay_out_parameters

__all__ = ["Batch", "KeyValueCache", "Llama", "make_batch"]


class KeyValueCache:
    """Keys and values of all slots: per layer [slots, kv_heads, capacity, head_dim].

    Zeros at first: what was never written is masked, but masked NaNs would still spread.
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
        """Memory of one position of one slot."""
        width = architecture.kv_heads * architecture.head_dim
        return 2 * architecture.layers * width * dtype.itemsize

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        for stored in (*self.keys, *self.values):
            stored[target, :, :count] = stored[source, :, :count]

    def wipe(self, slot: int) -> None:
        """Back to zeros."""
        for stored in (*self.keys, *self.values):
            stored[slot].zero_()

    def free(self) -> None:
        """Let go of the memory; nothing can be computed afterwards."""
        self.keys.clear()
        self.values.clear()


@dataclass(frozen=True, slots=True)
class _Rectangle:
    """A `layout.Rectangle` as tensors."""

    begin: int
    end: int
    shape: tuple[int, int, int]
    """Rows, width, length."""
    slots: tuple[int, int] | torch.Tensor
    spread: torch.Tensor | None
    collect: torch.Tensor | None
    mask: torch.Tensor
    """[rows, 1, width, length], to be added to the scores."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A `layout.Layout` as tensors."""

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    rectangles: list[_Rectangle]
    last: torch.Tensor


def make_batch(layout: Layout, device: torch.device, dtype: torch.dtype) -> Batch:
    """A step's layout as tensors."""

    def tensor(values: list[int]) -> torch.Tensor:
        # A step of nothing but parts of long prompts has no last tokens: no float, for all that.
        return torch.tensor(values, device=device, dtype=torch.long)

    return Batch(
        tensor(layout.ids),
        tensor(layout.positions),
        tensor(layout.slots),
        [_rectangle(each, device, dtype) for each in layout.rectangles],
        tensor(layout.last),
    )


def _rectangle(box: Rectangle, device: torch.device, dtype: torch.dtype) -> _Rectangle:
    rows, width, length = box.shape
    limits = torch.tensor(box.seen, device=device).view(rows, 1, width, 1)
    hidden = torch.arange(length, device=device) > limits
    mask = torch.zeros(hidden.shape, device=device, dtype=dtype).masked_fill_(hidden, -math.inf)

    def tensor(values: list[int] | None) -> torch.Tensor | None:
        return None if values is None else torch.tensor(values, device=device)

    return _Rectangle(
        begin=box.begin,
        end=box.end,
        shape=box.shape,
        slots=box.slots if isinstance(box.slots, tuple) else torch.tensor(box.slots, device=device),
        spread=tensor(box.spread),
        collect=tensor(box.collect),
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
        """Weights are not there before `load`; `capacity` = longest context."""
        self.architecture = architecture
        self.device, self.dtype = device, dtype
        self._destinations: dict[str, torch.Tensor] = {}
        made = lay_out_parameters(architecture, self._parameter)
        self._embedding, self._layers = made.embedding, made.layers
        self._norm, self._head = made.norm, made.head
        angles = torch.outer(torch.arange(capacity).float(), _frequencies(architecture))
        cos, sin = angles.cos(), angles.sin()
        self._cos = torch.cat([cos, cos], -1)[:, None].to(device, dtype)
        # Signed for `x.roll(half)`: the first half takes the second with a minus.
        self._sin = torch.cat([-sin, sin], -1)[:, None].to(device, dtype)

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Copy weights into place. Raises PolicyMisconfigured, having changed nothing, where a
        tensor is missing, unknown or of another shape.
        """
        expected = {name: tuple(it.shape) for name, it in self._destinations.items()}
        given = fit_weights(
            weights, lambda it: it.shape, expected, tied=self.architecture.tied_embeddings
        )
        with torch.inference_mode():
            for name, place in self._destinations.items():
                place.copy_(given[name])

    def free(self) -> None:
        """Let go of the weights; nothing can be computed afterwards."""
        self._destinations.clear()
        self._layers.clear()
        self._embedding = self._head = self._norm = torch.empty(0)

    @torch.inference_mode()
    def forward(self, batch: Batch, cache: KeyValueCache) -> torch.Tensor:
        """Compute a step; returns float32 logits [len(batch.last), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        a = self.architecture
        both = a.heads + a.kv_heads
        count = len(batch.ids)
        hidden = F.embedding(batch.ids, self._embedding)
        cos, sin = self._cos[batch.positions], self._sin[batch.positions]
        for index, layer in enumerate(self._layers):
            x = F.rms_norm(hidden, (a.hidden_size,), layer.input_norm, a.norm_eps)
            qkv = F.linear(x, layer.qkv, layer.qkv_bias).view(count, -1, a.head_dim)
            qk, v = qkv[:, :both], qkv[:, both:]
            if layer.head_norms is not None:
                qk = self._normalise_heads(qk, layer.head_norms)
            qk = torch.addcmul(qk * cos, qk.roll(a.head_dim // 2, -1), sin)
            cache.keys[index][batch.slots, :, batch.positions] = qk[:, a.heads :]
            cache.values[index][batch.slots, :, batch.positions] = v
            parts = [
                self._attend(qk[box.begin : box.end, : a.heads], box, cache, index)
                for box in batch.rectangles
            ]
            mixed = parts[0] if len(parts) == 1 else torch.cat(parts)
            hidden = hidden + F.linear(mixed, layer.output, layer.output_bias)
            x = F.rms_norm(hidden, (a.hidden_size,), layer.post_norm, a.norm_eps)
            gate, up = F.linear(x, layer.gate_up, layer.gate_up_bias).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down, layer.down_bias)
        hidden = F.rms_norm(hidden[batch.last], (a.hidden_size,), self._norm, a.norm_eps)
        return F.linear(hidden, self._head).float()

    def _attend(
        self, queries: torch.Tensor, box: _Rectangle, cache: KeyValueCache, index: int
    ) -> torch.Tensor:
        """[tokens, heads, head_dim] of a rectangle's tokens to [tokens, heads * head_dim]."""
        a = self.architecture
        rows, width, length = box.shape
        keys, values = cache.keys[index], cache.values[index]
        if isinstance(box.slots, tuple):
            low, high = box.slots
            keys, values = keys[low:high, :, :length], values[low:high, :, :length]
        else:
            keys = keys[:, :, :length].index_select(0, box.slots)
            values = values[:, :, :length].index_select(0, box.slots)
        if box.spread is not None:
            queries = queries[box.spread]
        if width == 1:
            # Heads that share keys become rows of one query matrix: the keys are read once.
            folded = queries.reshape(rows, a.kv_heads, -1, a.head_dim)
            mixed = F.scaled_dot_product_attention(folded, keys, values, attn_mask=box.mask)
        else:
            wide = queries.reshape(rows, width, a.heads, a.head_dim).transpose(1, 2)
            if self.device.type != "cpu":
                # CUDA's memory-saving kernel takes a mask or shared heads, not both.
                keys, values = (
                    it.repeat_interleave(a.heads // a.kv_heads, 1) for it in (keys, values)
                )
            mixed = F.scaled_dot_product_attention(
                wide, keys, values, attn_mask=box.mask, enable_gqa=keys.shape[1] != a.heads
            ).transpose(1, 2)
        flat = mixed.reshape(rows * width, a.heads * a.head_dim)
        return flat if box.collect is None else flat[box.collect]

    def _normalise_heads(self, qk: torch.Tensor, norms: torch.Tensor) -> torch.Tensor:
        a = self.architecture
        scaled = F.rms_norm(qk, (a.head_dim,), None, a.norm_eps)
        queries, keys = norms.split(a.head_dim)
        return scaled * torch.cat([queries.expand(a.heads, -1), keys.expand(a.kv_heads, -1)])

    def _parameter(
        self, shape: tuple[int, ...], *names: str, rows: Sequence[int] = (), kind: str = "weight"
    ) -> torch.Tensor:
        """A `parameters.MakeRoom`."""
        tensor = torch.empty(shape, device=self.device, dtype=self.dtype)
        parts = tensor.split(list(rows)) if rows else [tensor]
        for name, part in zip(names, parts, strict=True):
            self._destinations[f"{name}.{kind}"] = part
        return tensor


def _frequencies(architecture: Architecture) -> torch.Tensor:
    """Rotary frequencies [head_dim / 2], in radians a position."""
    a, scaling = architecture, architecture.rope_scaling
    powers = torch.arange(0, a.head_dim, 2, dtype=torch.int64).float() / a.head_dim
    frequencies = 1.0 / (a.rope_theta**powers)
    if scaling is None:
        return frequencies
    if not scaling.original_positions:
        return frequencies / scaling.factor
    # Llama-3: short wavelengths stay, long ones are stretched, those between are blended.
    wavelengths = 2 * math.pi / frequencies
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    blend = (scaling.original_positions / wavelengths - low) / (high - low)
    blend = blend.clamp(0, 1)
    return (1 - blend) * frequencies / scaling.factor + blend * frequencies
