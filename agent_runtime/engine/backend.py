"""What the engine needs computed, and which of the backends computes it.

Owns the interface between the engine's bookkeeping and a model's arithmetic, and the choice: torch
(extra `torch`) for every size and device, NumPy (extra `agent`) for small models on a CPU. A
backend owns weights and their memory; its logits only itself can read. Imports neither.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from agent_runtime.engine.checkpoint import Architecture
from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.engine.layout import Layout
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.sampling import Sampling

__all__ = ["Backend", "Cache", "choose_backend", "installed", "make_backend"]

BackendName = Literal["torch", "numpy"]
_INSTALL: Final = {
    "torch": 'pip install "agentgym-grpc[torch]"',
    "numpy": 'pip install "agentgym-grpc[agent]"',
}
_LARGEST_UNASKED: Final = 50_000_000
"""Parameters up to which NumPy is taken where torch is missing: beyond it crawls."""


class Cache(Protocol):
    """Keys and values of all slots."""

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy the first `count` positions of one slot to another."""
        ...

    def wipe(self, slot: int) -> None:
        """Back to zeros."""
        ...


class Backend(Protocol):
    """The arithmetic of one model. Used by one thread."""

    architecture: Architecture

    @property
    def name(self) -> BackendName:
        """What computes, for records."""
        ...

    @property
    def bytes_per_token(self) -> int:
        """Memory that one position of one slot takes."""
        ...

    def free_memory(self) -> float:
        """Bytes that a cache may take on the device."""
        ...

    def make_cache(self, slots: int, capacity: int) -> Cache:
        """A cache of zeros."""
        ...

    def free(self, cache: Any) -> None:
        """Give the memory of weights and cache back; nothing can be computed afterwards."""
        ...

    def read(self, folder: Path) -> Mapping[str, Any]:
        """All tensors of a folder, by name, for `load`; may be called from another thread.

        Raises PolicyMisconfigured.
        """
        ...

    def load(self, weights: Mapping[str, Any]) -> None:
        """Copy weights into place. Raises PolicyMisconfigured, having changed nothing, where a
        tensor is missing, unknown or of another shape.
        """
        ...

    def forward(self, layout: Layout, cache: Any) -> Any:
        """Compute a step: logits [len(layout.last), vocab_size].

        Keys and values of all its tokens are in the cache afterwards.
        """
        ...

    def sample(
        self, logits: Any, settings: Sequence[Sampling], uniforms: Sequence[float]
    ) -> tuple[list[int], list[float]]:
        """One token and its logprob for each row; see `sampler.sample`."""
        ...

    def score(self, logits: Any, ids: Sequence[int]) -> list[float]:
        """Logprob at temperature 1 of one given token for each row."""
        ...


def choose_backend(options: EmbeddedOptions, architecture: Architecture) -> BackendName:
    """The backend that the options name; `auto` = torch where it is installed, else NumPy.

    Raises PolicyMisconfigured where NumPy would be taken unasked for what it is too slow for.
    """
    if options.backend != "auto":
        return options.backend
    if installed("torch"):
        return "torch"
    if architecture.parameters > _LARGEST_UNASKED:
        raise PolicyMisconfigured(
            f"a model of {architecture.parameters / 1e6:,.0f} million parameters needs torch: "
            f"{_INSTALL['torch']} (NumPy computes it, slowly, with --embedded.backend numpy)"
        )
    return "numpy"


def make_backend(options: EmbeddedOptions, architecture: Architecture, capacity: int) -> Backend:
    """A backend without weights for contexts of `capacity` tokens. Call it in the thread that will
    step: the number of threads is the calling thread's.

    Raises PolicyMisconfigured where its extra is missing, or for a device that it does not have.
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
            f"the embedded engine needs an extra: {_INSTALL[name]} ({error})"
        ) from None


def default_threads() -> int:
    """Cores that this process may use, one of them left to the orchestrator and its servers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (cores or 1) - 1)


def free_memory() -> int:
    """Bytes of this machine's memory that nothing uses."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30


def installed(module: str) -> bool:
    """Whether a module can be found; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
