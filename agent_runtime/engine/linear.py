"""Weights in torch in the order in which they are multiplied, and the product itself.

torch hands products of plain matrices to MKL, which uses half of a CPU's vector width where the CPU
is not Intel's, and reorders a bfloat16 matrix in every call. oneDNN's own order, made once when
weights are loaded, avoids both (SmolLM2 on an EPYC of 2024, one core, a batch of 32: float32 2.4
times as fast, bfloat16 4.6 times as fast as plain float32).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)

__all__ = ["Parameter", "has_fast_bfloat16", "linear", "pack"]

_LEAST_PACKED: Final = 1 << 16
"""Numbers of a matrix below which oneDNN's call costs more than it saves."""
_X86: Final = ("x86_64", "AMD64")


class Parameter:
    """A matrix or vector of a model, joined from a checkpoint's tensors."""

    def __init__(
        self,
        shape: tuple[int, ...],
        parts: Mapping[str, int],
        *,
        multiplied: bool,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        """Make room for it.

        Args:
            shape: Of the whole.
            parts: Rows that each of the checkpoint's tensors gives, top to bottom.
            multiplied: Whether it is only ever multiplied by, so that its order is free.
            device: Where it lies.
            dtype: Its precision.
        """
        self.expected = {name: (rows, *shape[1:]) for name, rows in parts.items()}
        """Shapes of the checkpoint's tensors by name."""
        self._parts = parts
        self._packed = multiplied
        self.tensor = torch.empty(shape, device=device, dtype=dtype)
        """Means nothing before `load`."""
        self._shape = shape

    def load(self, named: Mapping[str, torch.Tensor]) -> None:
        """Copy a checkpoint's tensors, of the expected shapes, over the present numbers."""
        plain = self.tensor
        if plain.is_mkldnn:
            plain = torch.empty(self._shape, device=plain.device, dtype=plain.dtype)
        begin = 0
        for name, rows in self._parts.items():
            plain[begin : begin + rows].copy_(named[name])
            begin += rows
        self.tensor = pack(plain) if self._packed else plain

    def multiply(self, x: torch.Tensor, bias: Parameter | None) -> torch.Tensor:
        """Return x W^T + b of x [rows, columns of W]."""
        return linear(x, self.tensor, None if bias is None else bias.tensor)

    def free(self) -> None:
        """Free the memory; nothing can be computed afterwards."""
        self.tensor = torch.empty(0)


def pack(matrix: torch.Tensor) -> torch.Tensor:
    """Return a weight matrix in the order in which this machine multiplies by it fastest."""
    large = matrix.dim() == 2 and matrix.numel() >= _LEAST_PACKED
    packs = matrix.dtype == torch.float32 or (
        matrix.dtype == torch.bfloat16 and has_fast_bfloat16(matrix.device)
    )
    if not (large and packs and _has_onednn(matrix.device)):
        return matrix
    return torch.ops.mkldnn._reorder_linear_weight(matrix)


def linear(x: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return x W^T + b; `matrix` is W as `pack` gave it."""
    if matrix.is_mkldnn:
        return torch.ops.mkldnn._linear_pointwise(x, matrix, bias, "none", [], "")
    return F.linear(x, matrix, bias)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Return whether a device multiplies bfloat16 faster than float32."""
    if device.type != "cpu":
        return True
    if not _has_onednn(device):
        return False
    # The only names that torch has for it.
    avx512 = torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]
    return avx512 or torch.cpu._is_amx_tile_supported()  # pyright: ignore[reportPrivateUsage]


def _has_onednn(device: torch.device) -> bool:
    on_x86 = device.type == "cpu" and platform.machine() in _X86
    return on_x86 and torch.backends.mkldnn.is_available()
