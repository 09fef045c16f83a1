"""The engine's arithmetic in torch, on a CPU or a GPU.

Chooses device and precision and reads weights as torch tensors; the forward pass is `llama`'s,
sampling `sampler`'s.
"""

# `safetensors.torch.load_file` is typed with an `os.PathLike` of unknown content.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from agent_runtime.engine.checkpoint import (
    Architecture,
    read_architecture,
    scale_name,
    weight_files,
)
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import SampledTokens
from agent_runtime.engine.layout import Layout
from agent_runtime.engine.linear import has_fast_bfloat16
from agent_runtime.engine.llama import KeyValueCache, Llama, make_batch
from agent_runtime.engine.sampler import sample, score
from agent_runtime.errors import MemoryTooSmall, PolicyMisconfigured
from agent_runtime.memory import available_memory
from agent_runtime.sampling import Sampling

__all__ = ["MEMORY_SHARE", "TorchBackend", "engine_bytes", "read_weights"]

MEMORY_SHARE: Final = {"cpu": 0.5, "cuda": 0.8}
"""Of what is free, for the cache; a CPU's memory is shared with the servers of environments."""


class TorchBackend:
    """A `backend.Backend`."""

    def __init__(
        self, options: EmbeddedOptions, architecture: Architecture, capacity: int, *, threads: int
    ) -> None:
        """Allocate the weights, and set torch's number of CPU threads for the calling thread.

        Raises:
            PolicyMisconfigured: There is no such device here.
            MemoryTooSmall: It does not hold the weights.
        """
        self.architecture = architecture
        self.device = _device(options)
        self.dtype = _dtype(options, architecture, self.device)
        if self.device.type == "cpu":
            torch.set_num_threads(threads)
        if self.device.type == "cuda":
            # cuDNN's attention compiles a plan for each new shape, and nearly every step has one.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self._check_memory()
        self._model = Llama(architecture, capacity=capacity, device=self.device, dtype=self.dtype)

    @property
    def name(self) -> Literal["torch"]:
        return "torch"

    @property
    def shares_prefixes(self) -> bool:
        return self.device.type == "cpu"

    @property
    def bytes_per_token(self) -> int:
        return KeyValueCache.bytes_per_token(self.architecture, self.dtype)

    def free_memory(self) -> float:
        return self._free_bytes() * MEMORY_SHARE[self.device.type]

    def _free_bytes(self) -> int:
        if self.device.type == "cuda":
            # torch keeps freed memory for later allocations; return it so that it counts as free.
            torch.cuda.empty_cache()
            return torch.cuda.mem_get_info(self.device)[0]
        return available_memory()

    def _check_memory(self) -> None:
        """Raise MemoryTooSmall where the weights alone do not fit, before anything is read."""
        needed, free = self.architecture.parameters * self.dtype.itemsize, self._free_bytes()
        if needed > free:
            raise MemoryTooSmall(
                f"the weights take {needed / 2**30:.2f} GiB in {str(self.dtype)[6:]}, there are "
                f"{free / 2**30:.2f}: choose a smaller model, or fewer bytes for each number with "
                "--embedded.dtype"
            )

    def make_cache(self, slots: int, capacity: int) -> KeyValueCache:
        return KeyValueCache(self.architecture, slots, capacity, self.device, self.dtype)

    def free(self, cache: KeyValueCache) -> None:
        cache.free()
        self._model.free()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def read_weights(self, folder: Path) -> dict[str, torch.Tensor]:
        return read_weights(folder)

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._model.load_weights(weights)

    def forward(self, layout: Layout, cache: KeyValueCache) -> torch.Tensor:
        return self._model.forward(make_batch(layout, self.device, self.dtype), cache)

    def sample(
        self, logits: torch.Tensor, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        return sample(logits, settings, uniforms)

    def score(self, logits: torch.Tensor, ids: Sequence[int]) -> list[float]:
        return score(logits, ids)


def engine_bytes(folder: Path, options: EmbeddedOptions, device: torch.device) -> tuple[int, int]:
    """Return what a checkpoint's weights, and a token of one slot, take on a device.

    Raises:
        PolicyMisconfigured: There is no such checkpoint.
    """
    architecture = read_architecture(folder)
    dtype = _dtype(options, architecture, device)
    weights = architecture.parameters * dtype.itemsize
    return weights, KeyValueCache.bytes_per_token(architecture, dtype)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Read all tensors of a folder, by name, onto the CPU.

    Raises:
        PolicyMisconfigured: Files are missing or cannot be read.
    """
    weights: dict[str, torch.Tensor] = {}
    for path in weight_files(folder):
        try:
            weights |= _dequantised(load_file(path))
        except (OSError, ValueError, SafetensorError) as error:
            raise PolicyMisconfigured(f"cannot read {path}: {error}") from error
    return weights


def _dequantised(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a file's tensors with those of int8 in float32; raises ValueError.

    The layout is that of `tensor_file`.
    """
    for name in [name for name, tensor in tensors.items() if tensor.dtype == torch.int8]:
        matrix, scale = tensors[name], tensors.pop(scale_name(name), None)
        if matrix.dim() != 2 or scale is None or scale.shape != (len(matrix), 1):
            raise ValueError(f"{name} is of type I8 without {scale_name(name)} [{len(matrix)}, 1]")
        tensors[name] = matrix.float() * scale
    return tensors


def _device(options: EmbeddedOptions) -> torch.device:
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise PolicyMisconfigured(f"no device {name!r} here: {error}") from error
    return device


def _dtype(
    options: EmbeddedOptions, architecture: Architecture, device: torch.device
) -> torch.dtype:
    name = options.dtype
    if name == "auto":
        # bfloat16 on a CPU only where it computes in it, and the weights lose nothing by it.
        half = architecture.dtype == "bfloat16" and has_fast_bfloat16(device)
        name = "float32" if device.type == "cpu" and not half else architecture.dtype
    return getattr(torch, name)
