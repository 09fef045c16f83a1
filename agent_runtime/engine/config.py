"""What a user may set about the embedded engine; command line flags are generated from it.

Plain data with no heavy imports, so that `--help` is quick; impossible values raise ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from agent_runtime.sampling import Precision

__all__ = ["EmbeddedOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedOptions:
    """Settings of `embedded:PATH`."""

    process: bool = False
    """Run the engine in a process of its own while a run is played: worth it on a GPU with cores to
    spare, where the conversations of a large batch would take the interpreter from the engine.
    GRPO, the viewer and programs that hold an agent themselves keep it in theirs."""
    backend: Literal["auto", "torch", "numpy"] = "auto"
    """What computes: torch, or NumPy for small models on a CPU; auto = torch where it is
    installed, else NumPy."""
    device: str = "auto"
    """cpu, cuda or cuda:N; auto = CUDA where there is one."""
    dtype: Precision = "auto"
    """Of weights and cache; auto = as the weights are stored, on a CPU bfloat16 where it computes
    in it (AVX512-BF16, AMX), else float32."""
    threads: int | None = None
    """CPU threads of the engine; default: all cores but one."""
    context_length: int | None = None
    """Longest prompt plus reply, in tokens; default: the model's, at most 8192."""
    max_slots: int = 256
    """Contexts held in the key-value cache at once, at most."""
    cache_gib: float | None = None
    """Memory for the key-value cache; default: half of what is free, on a GPU four fifths."""
    prefill_tokens: int = 2048
    """Prompt tokens computed in one step, at most."""
    version: str = ""
    """Name of the weights in records; default: a digest of their files."""
    chat_template: Path | None = None
    """A jinja chat template instead of the model's own."""
    template_date: str | None = None
    """Date (YYYY-MM-DD) for templates that print one; default: the day of the start."""

    def __post_init__(self) -> None:
        if self.dtype not in get_args(Precision):
            raise ValueError(f"dtype is one of {', '.join(get_args(Precision))}")
        if self.backend not in ("auto", "torch", "numpy"):
            raise ValueError("backend is one of auto, torch, numpy")
        counts = (self.threads, self.max_slots, self.prefill_tokens)
        if any(count is not None and count < 1 for count in counts):
            raise ValueError("threads, max_slots and prefill_tokens are at least 1")
        if self.context_length is not None and self.context_length < 2:
            raise ValueError("context_length is at least 2")
        if self.cache_gib is not None and not self.cache_gib > 0:
            raise ValueError("cache_gib is above 0")
