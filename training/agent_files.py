"""The files of an agent's folder that do not depend on how it was made: weights, tokenizer, size.

From a checkpoint of a training to weights in fewer bits, in a folder that is small enough to come
with a package.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agent_runtime.agents import AgentMetric
from agent_runtime.engine.checkpoint import INT8, read_architecture, weight_files
from agent_runtime.engine.numpy_backend import import_numpy
from training.errors import TrainingError
from training.rollouts.results import Metric

if TYPE_CHECKING:  # it needs NumPy
    from agent_runtime.engine.tensor_file import StoredAs

__all__ = ["agent_metric", "describe_model", "require_small", "write_model"]

_LARGEST: Final = 20_000_000
"""Bytes of an agent's folder."""
_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)


def write_model(checkpoint: Path, folder: Path, stored_as: StoredAs) -> bool:
    """Write a checkpoint's files to a new folder; False = its numbers do not fit."""
    import_numpy(1)
    from agent_runtime.engine.tensor_file import read_tensors, write_tensors

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    tensors = {
        name: tensor
        for path in weight_files(checkpoint)
        for name, tensor in read_tensors(path).items()
    }
    try:
        write_tensors(folder / "model.safetensors", tensors, stored_as)
    except ValueError:
        return False
    settings = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    settings.pop("torch_dtype", None)
    settings["dtype"] = "float32" if stored_as == "int8" else stored_as
    if stored_as == "int8":
        settings["quantization_config"] = INT8
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    for name in _TOKENIZER_FILES:
        if (checkpoint / name).is_file():
            shutil.copyfile(checkpoint / name, folder / name)
    return True


def require_small(folder: Path) -> None:
    """Raise TrainingError where an agent's folder is too large to come with a package."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > _LARGEST:
        raise TrainingError(
            f"the agent has {size / 1e6:.1f} MB; at most {_LARGEST / 1e6:.0f} can be exported"
        )


def agent_metric(metric: Metric) -> AgentMetric:
    """Return a metric as a manifest has it; raises TrainingError where nothing was played."""
    mean, interval = metric.mean, metric.interval
    if mean is None:
        raise TrainingError(f"no episode of {metric.environment} was finished")
    return AgentMetric(
        metric="mean score" if metric.by_score else "success rate",
        value=round(mean, 4),
        low=round(interval.low if interval else mean, 4),
        high=round(interval.high if interval else mean, 4),
        episodes=len(metric.values),
    )


def describe_model(checkpoint: Path, stored_as: str) -> str:
    """Say in a sentence how large a checkpoint's model is."""
    architecture = read_architecture(checkpoint)
    return (
        f"A Llama of {architecture.parameters / 1e6:.1f} million parameters\n"
        f"({architecture.layers} layers of {architecture.hidden_size}, "
        f"{architecture.vocab_size} tokens, contexts of {architecture.positions}), in {stored_as}."
    )
