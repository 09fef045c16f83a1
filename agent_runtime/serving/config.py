"""What a user may set about model servers; command line flags are generated from it.

Plain data with no heavy imports, so that `--help` is quick; impossible values raise ValueError.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Device", "EngineKind", "RouterPolicy", "ServeConfig"]

EngineKind = Literal["sglang", "embedded"]
Device = Literal["auto", "cpu", "cuda"]
RouterPolicy = Literal["cache_aware", "consistent_hashing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """How to serve a model on this machine."""

    engine: EngineKind = "sglang"
    """What runs the model."""
    router: int = 0
    """Engines behind a router; 0 = one engine without a router."""
    router_policy: RouterPolicy = "cache_aware"
    """How the router chooses an engine: by the longest cached prefix, or by the episode's key."""
    device: Device = "auto"
    """Where the model runs; auto = CUDA where this machine has it."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port of the address that clients use; 0 = a free one."""
    dtype: str = "auto"
    """Precision of weights and computation; auto = float32 on CPU, the model's own on CUDA."""
    max_total_tokens: int | None = None
    """Tokens that an engine's cache holds; default: 65536 on CPU, what fits on CUDA."""
    context_length: int | None = None
    """Longest prompt plus reply, in tokens; default: the model's."""
    weight_version: str = "default"
    """Name that the engines report for the weights that they start with."""
    deterministic: bool = False
    """Let sampling seeds decide what is sampled, whatever else is in the batch (CUDA only)."""
    python: Path | None = None
    """Interpreter that has SGLang; default: $AGENTGYM_SGLANG_PYTHON, then the isolated
    installation, then this interpreter."""
    ready_seconds: float = 600.0
    """Longest wait until an engine serves."""
    max_restarts: int = 20
    """Restarts of one engine that died before it counts as broken."""
    log_dir: Path | None = None
    """Folder for the servers' logs; default: a temporary one, kept only when a start fails."""
    engine_options: tuple[str, ...] = ()
    """Further arguments for each engine, of its own command line (for the embedded one those of
    --embedded.*): `name=value`, or as it takes them where they need not pass by this one."""

    def __post_init__(self) -> None:
        if self.router < 0 or not 0 <= self.port < 65536 or self.ready_seconds <= 0:
            raise ValueError("router is at least 0, port below 65536, ready_seconds above 0")

    def engine_arguments(self) -> list[str]:
        """Return the engine options as its command line takes them."""
        # A command line would take a word with dashes for a flag of its own.
        return [
            f"--{word}" if "=" in word and not word.startswith("-") else word
            for word in self.engine_options
        ]
