# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""The part of training that does not depend on the algorithm: weights, moments, schedule, state.

Owns the update (clipping, AdamW, learning rate) and the saved state. Invariants: an update is a
function of the gradients, the state and the step's number; a saved state is complete or absent; a
run that goes on from a state computes what the uninterrupted one would have computed. Knows no loss
and no data.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from orchestrator.atomic_file import sync_folder
from training.errors import CheckpointDamaged, RecipeError, TrainingDiverged
from training.trainer.distributed import Processes

__all__ = ["Learner", "OptimizerConfig", "latest_state", "learning_rate", "prune_states"]

_NOTE: Final = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """AdamW and its learning rate."""

    lr: float = 1e-5
    """The highest learning rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How it falls after the warm-up."""
    warmup: float = 0.1
    """Below 1: share of all steps; from 1: steps."""
    min_lr_ratio: float = 0.0
    """Where cosine and linear end, as a share of lr."""
    weight_decay: float = 0.0
    """On matrices; norms and biases have none."""
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 1.0
    """Longest gradient (2-norm over all weights); 0 = no clipping."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.warmup < 0 or self.clip < 0:
            raise ValueError("lr is above 0; warmup and clip are at least 0")


def learning_rate(config: OptimizerConfig, step: int, total: int) -> float:
    """The learning rate of update `step`, counted from 0, of `total`."""
    warmup = round(config.warmup * total) if config.warmup < 1 else round(config.warmup)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)
    if config.schedule == "constant":
        return config.lr
    shape = 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * shape)


class Learner:
    """A model under training."""

    def __init__(
        self,
        model: torch.nn.Module,
        config: OptimizerConfig,
        processes: Processes,
        *,
        seed: int,
        total: int,
    ) -> None:
        """`total` = updates that the schedule spans."""
        self.model = model
        self.config = config
        self.step = 0
        """Updates made so far."""
        self.total = total
        self._processes = processes
        self._seed = seed
        named = [(name, it) for name, it in model.named_parameters() if it.requires_grad]
        matrices = [it for _, it in named if it.ndim >= 2]
        vectors = [it for _, it in named if it.ndim < 2]
        self._named = named
        self._optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            fused=processes.device.type == "cuda" or None,
        )

    def begin_step(self) -> None:
        """Fix the random numbers (dropout) of this step, so that a resumed one has the same."""
        torch.manual_seed((self._seed * 1_000_003 + self.step) * 64 + self._processes.rank)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradient of this process's part of the step's loss.

        The step's loss is the sum of the parts of all micro-batches of all processes.
        """
        # Sharding averages gradients over processes; parts are to be added.
        (loss * self._processes.world).backward()

    def update(self) -> tuple[float, float]:
        """Change the weights by the gradients; returns the gradient's norm and the learning rate.

        Raises TrainingDiverged where the norm is not finite; then nothing was changed.
        """
        bound = self.config.clip or math.inf
        norm: Any = torch.nn.utils.clip_grad_norm_([it for _, it in self._named], bound)
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if not math.isfinite(norm):
            raise TrainingDiverged(
                f"the gradient of step {self.step} is {norm}: lower optimizer.lr, or look at the "
                "data of that step in log.jsonl",
                field="optimizer.lr",
            )
        rate = learning_rate(self.config, self.step, self.total)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return norm, rate

    def save_state(self, folder: Path, extra: dict[str, Any] | None = None) -> Path:
        """Write weights, moments and step to `folder/step-N`, which appears complete.

        Every process writes its own shard and has to call this. `extra` is stored along.
        """
        target = folder / f"step-{self.step:08d}"
        partial = folder / f".{target.name}.partial"
        if self._processes.first:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        self._processes.wait()
        save_file(dict(self._tensors()), partial / _shard_name(self._processes.rank))
        self._processes.wait()
        if self._processes.first:
            note = {"step": self.step, "world": self._processes.world, "extra": extra or {}}
            (partial / _NOTE).write_text(json.dumps(note))
            for path in partial.iterdir():
                with path.open("rb+") as stream:
                    os.fsync(stream.fileno())
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            sync_folder(folder)
        self._processes.wait()
        return target

    def load_state(self, folder: Path) -> dict[str, Any]:
        """Go on from `folder`; returns what was stored as `extra`. Raises CheckpointDamaged."""
        try:
            note = json.loads((folder / _NOTE).read_text())
            if note["world"] != self._processes.world:
                raise RecipeError(
                    f"{folder} was saved by {note['world']} processes, this job has "
                    f"{self._processes.world}: resume with as many (torchrun --nproc-per-node)",
                    field="train",
                )
            stored = load_file(folder / _shard_name(self._processes.rank))
            self._restore(stored)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise CheckpointDamaged(f"{folder} cannot be used: {error}", field="out") from error
        self.step = int(note["step"])
        return note["extra"]

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This process's part of everything that changes."""
        for name, it in self._named:
            yield f"weight/{name}", _local(it.detach()).cpu().contiguous()
            for key, value in self._optimizer.state.get(it, {}).items():
                yield f"{key}/{name}", _local(torch.as_tensor(value)).cpu().contiguous()

    def _restore(self, stored: dict[str, torch.Tensor]) -> None:
        expected = {f"weight/{name}" for name, _ in self._named}
        if {name for name in stored if name.startswith("weight/")} != expected:
            raise ValueError("it holds other weights than the model has")
        with torch.no_grad():
            for name, it in self._named:
                _local(it).copy_(stored[f"weight/{name}"])
                state = self._optimizer.state[it]
                for key in ("exp_avg", "exp_avg_sq"):
                    if f"{key}/{name}" in stored:
                        state[key] = torch.zeros_like(it)
                        _local(state[key]).copy_(stored[f"{key}/{name}"])
                if f"step/{name}" in stored:
                    kept = stored[f"step/{name}"]
                    fused = self._processes.device.type == "cuda"
                    state["step"] = kept.to(self._processes.device) if fused else kept


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's shard of a sharded tensor."""
    found: Any = tensor
    return found.to_local() if hasattr(found, "to_local") else tensor


def _shard_name(rank: int) -> str:
    return f"shard-{rank:05d}.safetensors"


def latest_state(folder: Path) -> Path | None:
    """The newest complete state in a folder of states."""
    if not folder.is_dir():
        return None
    complete = [it for it in folder.glob("step-*") if (it / _NOTE).is_file()]
    return max(complete, default=None, key=lambda it: it.name)


def prune_states(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` states."""
    for path in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
