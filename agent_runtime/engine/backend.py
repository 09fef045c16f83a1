"""The interface between the engine's bookkeeping and a model's arithmetic, and who implements it.

torch (extra `torch`) serves every size and device, NumPy (extra `agent`) small models on a CPU.
Importing this module imports neither. A backend owns the weights and their memory; the logits that
it returns are opaque to the engine, which only passes them back to it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from agent_runtime.engine.checkpoint import Architecture
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.generation import SampledTokens
from agent_runtime.engine.layout import Layout
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.extras import install_command
from agent_runtime.sampling import Sampling

__all__ = ["Backend", "Cache", "choose_backend", "is_installed", "make_backend"]

BackendName = Literal["torch", "numpy"]
_EXTRAS: Final = {"torch": "torch", "numpy": "agent"}
"""Which extra brings a backend."""
_LARGEST_FOR_NUMPY: Final = 50_000_000
"""Parameters up to which NumPy is chosen where torch is missing: beyond that it is too slow."""


class Cache(Protocol):
    """Keys and values of all cache slots."""

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        ...

    def wipe(self, slot: int) -> None:
        """Set a slot back to zeros."""
        ...


class Backend(Protocol):
    """The arithmetic of one model. Not thread-safe, but for `read_weights`."""

    architecture: Architecture

    @property
    def name(self) -> BackendName:
        """The backend's name, for records."""
        ...

    @property
    def shares_prefixes(self) -> bool:
        """Whether a step gains by groups of contexts that begin alike."""
        ...

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one position of one slot takes."""
        ...

    def free_memory(self) -> float:
        """Return how many bytes a cache may take on the device."""
        ...

    def make_cache(self, slots: int, capacity: int) -> Cache:
        """Allocate a cache of zeros: `slots` contexts of `capacity` tokens."""
        ...

    def free(self, cache: Any) -> None:
        """Free the memory of weights and cache; nothing can be computed afterwards."""
        ...

    def read_weights(self, folder: Path) -> Mapping[str, Any]:
        """Read all tensors of a folder, by name, for `load_weights`; callable from any thread.

        Raises:
            PolicyMisconfigured: Files are missing or cannot be read.
        """
        ...

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Copy weights over the present ones.

        Raises:
            PolicyMisconfigured: A tensor is missing, unknown or of another shape; nothing has
                changed then.
        """
        ...

    def forward(self, layout: Layout, cache: Any) -> Any:
        """Compute a step and return float32 logits [len(layout.logit_indices), vocab_size].

        Keys and values of all the step's tokens are in the cache afterwards.
        """
        ...

    def sample(
        self, logits: Any, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> SampledTokens:
        """Sample one token for each row; see `sampler.sample`."""
        ...

    def score(self, logits: Any, ids: Sequence[int]) -> list[float]:
        """Return the logprob at temperature 1 of one id for each row."""
        ...


def choose_backend(options: EmbeddedOptions, architecture: Architecture) -> BackendName:
    """Return the backend that the options name; `auto` = torch where installed, else NumPy.

    Raises:
        PolicyMisconfigured: `auto` leaves only NumPy, for a model that it is too slow for.
    """
    if options.backend != "auto":
        return options.backend
    if is_installed("torch"):
        return "torch"
    if architecture.parameters > _LARGEST_FOR_NUMPY:
        raise PolicyMisconfigured(
            f"a model of {architecture.parameters / 1e6:,.0f} million parameters needs torch: "
            f"{install_command(_EXTRAS['torch'])} (NumPy computes it, slowly, with "
            "--embedded.backend numpy)"
        )
    return "numpy"


def make_backend(options: EmbeddedOptions, architecture: Architecture, capacity: int) -> Backend:
    """Make a backend without weights for contexts of `capacity` tokens.

    Call it in the thread that will step: the number of CPU threads is set for the calling thread.

    Raises:
        PolicyMisconfigured: The backend's extra is not installed, or it lacks the device.
    """
    name = choose_backend(options, architecture)
    threads = options.threads or default_threads()
    try:
        if name == "torch":
            from agent_runtime.engine.torch_backend import TorchBackend

            return TorchBackend(options, architecture, capacity, threads=threads)
        from agent_runtime.engine.numpy_backend import make_numpy_backend

        return make_numpy_backend(options, architecture, capacity, threads=threads)
    except ImportError as error:
        raise PolicyMisconfigured(
            f"the embedded engine needs an extra: {install_command(_EXTRAS[name])} ({error})"
        ) from None


def default_threads() -> int:
    """Return the cores that this process may use, less one for the orchestrator and its servers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) - 1)


def is_installed(module: str) -> bool:
    """Return whether a module can be found, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
