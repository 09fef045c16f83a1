"""The command lines of engines and routers: pure functions of a configuration and a machine.

Which flags SGLang 0.5.x and its router need, on CUDA and on a machine without it.
Their commands go through `engine_main.py`, which makes SGLang importable on a CPU-only
machine and ends the server with the process that started it. The embedded engine's is
`agent_runtime.serve` by this interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.serving.config import ServeConfig
from agent_runtime.serving.engine_main import PARENT_VARIABLE

__all__ = [
    "Checkpoint",
    "Command",
    "embedded_command",
    "embedded_words",
    "engine_command",
    "router_command",
]

_MAIN = Path(__file__).with_name("engine_main.py")
_CPU_CACHE_TOKENS = 65_536
_CPU_FLAGS = (
    *("--device", "cpu", "--attention-backend", "torch_native"),
    *("--sampling-backend", "pytorch", "--sleep-on-idle"),
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights in a folder, and the name under which engines report them."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Command:
    """Arguments and environment of a process."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def engine_command(
    python: Path, config: ServeConfig, weights: Checkpoint, *, device: str, port: int, index: int
) -> Command:
    """One SGLang engine; `index` is its place among the engines of this machine.

    With several engines on CUDA each takes its own device.
    """
    arguments = [
        *(str(python), str(_MAIN), "engine", "--model-path", weights.path),
        *("--weight-version", weights.version, "--host", config.host, "--port", str(port)),
        *("--skip-server-warmup", "--log-level-http", "warning"),
    ]
    cache = config.max_total_tokens
    dtype = config.dtype
    environment: dict[str, str] = {}
    if device == "cpu":
        arguments += _CPU_FLAGS
        cache = cache or _CPU_CACHE_TOKENS
        dtype = "float32" if dtype == "auto" else dtype
        # More OpenMP threads spin against each other, and against everything else on the machine.
        environment = {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1"}
    elif config.router > 1:
        arguments += ["--base-gpu-id", str(index)]
    arguments += ["--dtype", dtype]
    if cache is not None:
        arguments += ["--max-total-tokens", str(cache)]
    if config.context_length is not None:
        arguments += ["--context-length", str(config.context_length)]
    if config.deterministic:
        arguments += ["--enable-deterministic-inference"]
    return _command([*arguments, *config.engine_arguments()], environment)


def embedded_command(
    config: ServeConfig,
    weights: Checkpoint,
    options: EmbeddedOptions,
    *,
    port: int,
    chat_template: Path | None = None,
) -> Command:
    """One embedded engine, with these options in place of those in the configuration."""
    arguments = [
        *(sys.executable, "-m", "agent_runtime.serve", "--engine", "embedded"),
        # With "=": a name that begins with a dash is no flag.
        *(f"--model={weights.path}", f"--weight-version={weights.version}"),
        *(f"--host={config.host}", f"--port={port}"),
    ]
    if chat_template is not None:
        arguments.append(f"--chat-template={chat_template}")
    words = embedded_words(options)
    return _command([*arguments, *(["--engine-options", *words] if words else [])], {})


def embedded_words(options: EmbeddedOptions) -> tuple[str, ...]:
    """Return the options that are not the defaults as `ServeConfig.engine_options` takes them.

    Without the weights' name, which the server's own configuration gives.
    """
    plain = EmbeddedOptions()
    values = ((each.name, getattr(options, each.name)) for each in fields(options))
    return tuple(
        f"{name}={value}"
        for name, value in values
        if value != getattr(plain, name) and name not in ("process", "version")
    )


def router_command(
    python: Path, config: ServeConfig, engines: Sequence[str], *, port: int, metrics_port: int
) -> Command:
    """The router in front of engines with these addresses."""
    arguments = [
        *(str(python), str(_MAIN), "router", "--host", config.host, "--port", str(port)),
        *("--worker-urls", *engines, "--policy", config.router_policy),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics_port)),
        # An engine's own /health generates a token, which a paused engine cannot.
        *("--health-check-endpoint", "/model_info", "--health-check-interval-secs", "2"),
        *("--health-failure-threshold", "2", "--health-success-threshold", "1"),
        *("--worker-startup-check-interval", "1", "--shutdown-grace-period-secs", "1"),
        *("--log-level", "warn"),
    ]
    return _command(arguments, {})


def _command(arguments: Sequence[str], environment: Mapping[str, str]) -> Command:
    extra = {
        **environment,
        PARENT_VARIABLE: str(os.getpid()),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return Command(tuple(arguments), extra)
