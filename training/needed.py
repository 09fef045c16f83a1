"""What a training says where torch is not installed: a sentence, from a command no traceback."""

from __future__ import annotations

import sys

from orchestrator.errors import ExtraMissing

__all__ = ["without_torch"]


def without_torch(error: ModuleNotFoundError) -> BaseException:
    """Return what to raise in place of an import error: it ends a command of this package."""
    missing = ExtraMissing(f"{error.name} is not installed: training", extra="train")
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name.startswith("training."):
        return SystemExit(f"error: {missing}")
    return missing
