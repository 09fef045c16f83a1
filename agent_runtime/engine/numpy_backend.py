"""The engine's arithmetic in NumPy: small models on a CPU, in float32, without torch.

Imports NumPy itself, on first use, because NumPy's matrix library reads its number of threads from
the environment once, when it is loaded. Its default is all cores, whose threads spin while they
wait and take the cores from the environment servers. Where NumPy was imported before, its threads
stay as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from agent_runtime.engine.checkpoint import Architecture, weight_files
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import SampledTokens
from agent_runtime.engine.layout import Layout
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.memory import available_memory
from agent_runtime.sampling import Sampling

if TYPE_CHECKING:
    from agent_runtime.engine.llama_numpy import NumpyCache, NumpyLlama
    from agent_runtime.engine.tensor_file import Array

__all__ = ["NumpyBackend", "import_numpy", "make_numpy_backend"]

_THREAD_VARIABLES: Final = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_MEMORY_SHARE: Final = 0.5
"""Of what is free, for the cache; the rest is for the servers of environments."""


class NumpyBackend:
    """A `backend.Backend`."""

    def __init__(self, architecture: Architecture, capacity: int) -> None:
        """Use `make_numpy_backend`."""
        from agent_runtime.engine.llama_numpy import NumpyLlama

        self.architecture = architecture
        self._model: NumpyLlama = NumpyLlama(architecture, capacity=capacity)

    @property
    def name(self) -> Literal["numpy"]:
        return "numpy"

    @property
    def shares_prefixes(self) -> bool:
        return False

    @property
    def bytes_per_token(self) -> int:
        a = self.architecture
        return 2 * a.layers * a.kv_heads * a.head_dim * 4

    def free_memory(self) -> float:
        return available_memory() * _MEMORY_SHARE

    def make_cache(self, slots: int, capacity: int) -> NumpyCache:
        from agent_runtime.engine.llama_numpy import NumpyCache

        return NumpyCache(self.architecture, slots, capacity)

    def free(self, cache: NumpyCache) -> None:
        # The weights of a small model are freed with the backend itself.
        cache.keys.clear()
        cache.values.clear()

    def read_weights(self, folder: Path) -> dict[str, Array]:
        from agent_runtime.engine.tensor_file import read_tensors

        weights: dict[str, Array] = {}
        for path in weight_files(folder):
            weights |= read_tensors(path)
        return weights

    def load_weights(self, weights: Mapping[str, Array]) -> None:
        self._model.load_weights(weights)

    def forward(self, layout: Layout, cache: NumpyCache) -> Array:
        return self._model.forward(layout, cache)

    def sample(
        self, logits: Array, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        from agent_runtime.engine.sampler_numpy import sample

        return sample(logits, settings, uniforms)

    def score(self, logits: Array, ids: Sequence[int]) -> list[float]:
        from agent_runtime.engine.sampler_numpy import log_softmax

        logprobs = log_softmax(logits)
        return [float(row[token]) for row, token in zip(logprobs, ids, strict=True)]


def make_numpy_backend(
    options: EmbeddedOptions, architecture: Architecture, capacity: int, *, threads: int
) -> NumpyBackend:
    """Make a backend without weights for contexts of `capacity` tokens.

    Raises:
        ImportError: NumPy is not installed.
        PolicyMisconfigured: A device or precision that NumPy does not have.
    """
    if options.device not in ("auto", "cpu") or options.dtype not in ("auto", "float32"):
        raise PolicyMisconfigured(
            f"the NumPy backend computes float32 on the CPU, not {options.dtype} on "
            f"{options.device}: that needs torch, {install_command('torch')}"
        )
    import_numpy(threads)
    return NumpyBackend(architecture, capacity)


def import_numpy(threads: int) -> None:
    """Import NumPy with `threads` threads for its matrix products.

    Variables that the user has set win; the environment is left as it was.

    Raises:
        ImportError: NumPy is not installed.
    """
    if "numpy" in sys.modules:
        return
    missing = [name for name in _THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, str(threads)))
    try:
        import numpy  # noqa: F401  # pyright: ignore[reportUnusedImport]
    finally:
        for name in missing:
            os.environ.pop(name, None)
