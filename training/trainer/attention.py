"""Attention within each of several sequences that lie end to end, without a mask and without waste.

`packed` is an attention that `transformers` models can be loaded with. On a GPU in half precision
it is PyTorch's own FlashAttention for variable lengths; elsewhere it computes one causal product
per sequence. Either way no token sees another sequence's, and no T x T mask exists. Where sequences
begin comes with the call (`cu_seq_lens_q`, the name that `transformers` gives it).
"""

# torch leaves `Tensor.split`, `tolist` and `compiler.disable` untyped, transformers its registry.
# pyright: reportUntypedFunctionDecorator=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final, cast

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

from training.errors import ModelUnusable

__all__ = ["PACKED", "register", "require_kernel"]

_OLDEST_TORCH: Final = (2, 11)
"""Its kernel for variable lengths takes a scale and a window; see `varlen_attn`."""


def _installed() -> tuple[int, int]:
    major, minor = version("torch").split(".")[:2]
    return int(major), int(minor)


_SHARES_HEADS: Final = _installed() >= (2, 12)
"""Whether the kernel takes fewer heads of keys and values than of queries."""
PACKED: Final = "packed"
"""The name under which it is registered with `transformers`."""


def register() -> None:
    """Make `packed` known to `transformers`; calling it again changes nothing."""
    from transformers import AttentionInterface

    # No mask is registered with it: the sequences' bounds say everything that one would.
    AttentionInterface.register(PACKED, packed_attention)


def require_kernel(device: torch.device) -> None:
    """Check that `packed` can be computed on a device; raises ModelUnusable."""
    if device.type == "cuda" and _installed() < _OLDEST_TORCH:
        raise ModelUnusable(
            f"packed attention needs torch {'.'.join(map(str, _OLDEST_TORCH))} on a GPU, this is "
            f'{version("torch")}: install a newer one, or set "sdpa"',
            field="model.attention",
        )


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
    """Attend causally within each sequence; the form of arguments is that of `transformers`.

    Args:
        module: The layer; not used.
        query: [1, heads, T, head_dim].
        key: [1, kv_heads, T, head_dim].
        value: [1, kv_heads, T, head_dim].
        attention_mask: None; not used.
        scaling: Of the scores; None = 1 / sqrt(head_dim).
        dropout: Of the attention weights; the GPU's kernel has none.
        cu_seq_lens_q: int32 [sequences + 1]: where each begins, T at last.
        max_length_q: The longest sequence.

    Returns:
        [1, T, heads, head_dim] and, in place of attention weights, None.
    """
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16):
        return _flash(query, key, value, cu_seq_lens_q, max_length_q, scaling), None
    return _by_sequence(query, key, value, cu_seq_lens_q, dropout, scaling), None


@torch.compiler.disable()  # its shapes follow from the data: every batch would be compiled anew
def _by_sequence(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens: torch.Tensor,
    dropout: float,
    scaling: float | None,
) -> torch.Tensor:
    key, value = _one_for_each(query, key, value)
    sizes = cast("list[int]", cu_seqlens.diff().tolist())
    parts = [
        F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, scale=scaling, is_causal=True)
        for q, k, v in zip(
            query.split(sizes, 2), key.split(sizes, 2), value.split(sizes, 2), strict=True
        )
    ]
    mixed = parts[0] if len(parts) == 1 else torch.cat(parts, 2)
    return mixed.transpose(1, 2)


def _one_for_each(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values with a head of their own for each head of the queries."""
    groups = query.shape[1] // key.shape[1]
    if groups == 1:
        return key, value
    return key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)


def _flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int,
    scaling: float | None,
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn

    if not _SHARES_HEADS:
        key, value = _one_for_each(query, key, value)
    # Named only where it is needed: the older kernel does not know it.
    shared: dict[str, Any] = {"enable_gqa": True} if key.shape[1] != query.shape[1] else {}
    q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
    out: Any = varlen_attn(
        q,
        k,
        v,
        cu_seqlens,
        cu_seqlens,
        max_seqlen,
        max_seqlen,
        scale=scaling,
        window_size=(-1, 0),  # no limit to the left, nothing to the right: causal
        **shared,
    )
    return out[None]
