# pyright: basic, reportMissingImports=false
# torch and transformers are extras: the checker may run without them.
"""Attention within each of several sequences that lie end to end, without a mask and without waste.

Owns `packed`, an attention that `transformers` models can be loaded with: on a GPU in half
precision it is PyTorch's own FlashAttention for variable lengths; elsewhere it computes one causal
product per sequence. Either way no token sees another sequence's, and no T x T mask exists.

Knows no model. Everything about where sequences begin comes with the call (`cu_seq_lens_q`).
"""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

__all__ = ["PACKED", "register"]

PACKED: Final = "packed"
"""The name under which `transformers` knows it."""


def register() -> None:
    """Make `packed` known to `transformers`; calling it again changes nothing."""
    from transformers import AttentionInterface

    # No mask is registered: the bounds of sequences say all that one would.
    AttentionInterface.register(PACKED, packed_attention)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Query [1, heads, T, size], key and value [1, kv_heads, T, size] -> [1, T, heads, size].

    `cu_seq_lens_q` int32 [sequences + 1]: where each begins, T at last; `max_length_q`: the
    longest.
    """
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return _flash(query, key, value, cu_seq_lens_q, max_length_q, scaling), None
    return _by_sequence(query, key, value, cu_seq_lens_q, dropout, scaling), None


@torch.compiler.disable  # its shapes follow from the data
def _by_sequence(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: torch.Tensor,
    dropout: float,
    scaling: float | None,
) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (it.repeat_interleave(groups, 1) for it in (key, value))
    sizes = bounds.diff().tolist()
    parts = [
        F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling, is_causal=True)
        for q, k, v in zip(
            query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True
        )
    ]
    mixed = parts[0] if len(parts) == 1 else torch.cat(parts, 2)
    return mixed.transpose(1, 2)


def _flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bounds: torch.Tensor,
    longest: int,
    scaling: float | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (it[0].transpose(0, 1).contiguous() for it in (query, key, value))
    if k.shape[1] != q.shape[1]:
        # The kernel's backward pass for shared heads is not in every release; copies always work.
        k, v = (it.repeat_interleave(q.shape[1] // k.shape[1], 1) for it in (k, v))
    out = varlen_attn(q, k, v, bounds, bounds, longest, longest, scale=scaling, window_size=(-1, 0))
    return out[None]
