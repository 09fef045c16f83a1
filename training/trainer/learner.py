"""The part of training that does not depend on the algorithm: optimizer, schedule, saved state.

Invariants: an update is a function of the gradients, the state and the step's number; a saved state
is complete or absent; a run that continues from a state computes what the uninterrupted one would
have computed.
"""

# torch and safetensors leave `manual_seed`, `backward`, `load_file` and others untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from orchestrator.atomic_file import sync_folder
from training.errors import CheckpointDamaged, RecipeError, TrainingDiverged
from training.trainer.distributed import DistributedContext

__all__ = ["Learner", "OptimizerConfig", "latest_state", "learning_rate", "prune_states"]

_STATE_FILE: Final = "state.json"
"""Written last into a state's folder: one without it is incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """AdamW and its learning rate."""

    lr: float = 1e-5
    """The highest learning rate."""
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    """How the learning rate falls after the warm-up."""
    warmup: float = 0.1
    """Below 1: share of all steps; from 1: number of steps."""
    min_lr_ratio: float = 0.0
    """Where cosine and linear end, as a share of lr."""
    weight_decay: float = 0.0
    """Of matrices; norms and biases have none."""
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 1.0
    """Longest gradient (2-norm over all weights); 0 = no clipping."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or self.warmup < 0 or self.clip < 0:
            raise ValueError("lr is above 0; warmup and clip are at least 0")


def learning_rate(config: OptimizerConfig, step: int, total: int) -> float:
    """Return the learning rate of update `step`, counted from 0, of `total`."""
    warmup = round(config.warmup * total) if config.warmup < 1 else round(config.warmup)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / max(1, total - warmup)
    if config.schedule == "constant":
        return config.lr
    shape = 1 - done if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))
    return config.lr * (config.min_lr_ratio + (1 - config.min_lr_ratio) * shape)


class Learner:
    """A model under training, with its optimizer."""

    def __init__(
        self,
        model: torch.nn.Module,
        config: OptimizerConfig,
        dist: DistributedContext,
        *,
        seed: int,
        total: int,
        reduce_every_micro_batch: bool = False,
    ) -> None:
        """Make the optimizer.

        Args:
            model: Its parameters that require gradients are trained.
            config: Optimizer and schedule.
            dist: The processes that share the model.
            seed: Of dropout.
            total: Updates that the schedule spans.
            reduce_every_micro_batch: See `ModelConfig`.
        """
        self.model = model
        self.config = config
        self.step = 0
        """Updates made so far."""
        self.total = total
        self._dist = dist
        self._seed = seed
        self._reduce_always = reduce_every_micro_batch
        self._parameters = [
            (name, parameter)
            for name, parameter in model.named_parameters()
            if parameter.requires_grad
        ]
        matrices = [parameter for _, parameter in self._parameters if parameter.ndim >= 2]
        vectors = [parameter for _, parameter in self._parameters if parameter.ndim < 2]
        self._optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            fused=dist.device.type == "cuda" or None,
        )

    def begin_step(self) -> None:
        """Seed the random numbers (dropout) of this step, so that a resumed run has the same."""
        torch.manual_seed((self._seed * 1_000_003 + self.step) * 64 + self._dist.rank)

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Add the gradient of one micro-batch's part of the step's loss.

        The step's loss is the sum of the parts of all micro-batches of all processes.

        Args:
            loss: Scalar.
            last: Whether this is the step's last micro-batch: the processes' gradients are summed
                up then, once for all micro-batches.
        """
        if isinstance(self.model, FSDPModule):
            self.model.set_requires_gradient_sync(last or self._reduce_always)
        # FSDP averages gradients over processes, but the parts have to be added.
        (loss * self._dist.world_size).backward()

    def update(self) -> tuple[float, float]:
        """Change the weights by the gradients; returns the gradient's norm and the learning rate.

        Raises:
            TrainingDiverged: The norm is not finite; nothing was changed then.
        """
        max_norm = self.config.clip or math.inf
        parameters = [parameter for _, parameter in self._parameters]
        norm: Any = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        grad_norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if not math.isfinite(grad_norm):
            raise TrainingDiverged(
                f"the gradient of step {self.step} is {grad_norm}: lower optimizer.lr, or look at "
                "the data of that step in log.jsonl",
                field="optimizer.lr",
            )
        lr = learning_rate(self.config, self.step, self.total)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return grad_norm, lr

    def save_state(
        self,
        folder: Path,
        extra: dict[str, Any] | None = None,
        *,
        also: Callable[[Path], None] | None = None,
    ) -> Path:
        """Write weights, moments and step to `folder/step-N`; every process has to call this.

        Each process writes its own shard. The folder appears under its name when it is complete
        and on disk, so one that a kill left behind is never taken for a state.

        Args:
            folder: Of all states.
            extra: JSON-like values that `load_state` returns.
            also: Called on the main process with the state's folder, to write more files to it.
        """
        target = folder / f"step-{self.step:08d}"
        partial = folder / f".{target.name}.partial"
        if self._dist.is_main:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        self._dist.barrier()
        save_file(dict(self._tensors()), partial / _shard_name(self._dist.rank))
        self._dist.barrier()
        if self._dist.is_main:
            state = {"step": self.step, "world": self._dist.world_size, "extra": extra or {}}
            if also is not None:
                also(partial)
            (partial / _STATE_FILE).write_text(json.dumps(state))
            for path in partial.iterdir():
                with path.open("rb+") as stream:
                    os.fsync(stream.fileno())
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
            sync_folder(folder)
        self._dist.barrier()
        return target

    def load_state(self, folder: Path) -> dict[str, Any]:
        """Continue from the state in `folder`; returns its `extra`.

        Raises:
            CheckpointDamaged: Files are missing or damaged, or of another model.
            RecipeError: It was saved by another number of processes.
        """
        try:
            state = json.loads((folder / _STATE_FILE).read_text())
            if state["world"] != self._dist.world_size:
                raise RecipeError(
                    f"{folder} was saved by {state['world']} processes, this job has "
                    f"{self._dist.world_size}: resume with as many (torchrun --nproc-per-node)",
                    field="train",
                )
            self._restore(load_file(folder / _shard_name(self._dist.rank)))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise CheckpointDamaged(f"{folder} cannot be used: {error}", field="out") from error
        self.step = int(state["step"])
        return state["extra"]

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield this process's shard of everything that changes."""
        states = cast("dict[torch.Tensor, dict[str, Any]]", self._optimizer.state)
        for name, parameter in self._parameters:
            yield f"weight/{name}", _local(parameter.detach()).cpu().contiguous()
            for key, value in states.get(parameter, {}).items():
                yield f"{key}/{name}", _local(torch.as_tensor(value)).cpu().contiguous()

    def _restore(self, tensors: dict[str, torch.Tensor]) -> None:
        expected = {f"weight/{name}" for name, _ in self._parameters}
        if {name for name in tensors if name.startswith("weight/")} != expected:
            raise ValueError("it holds other weights than the model has")
        states = cast("dict[torch.Tensor, dict[str, Any]]", self._optimizer.state)
        with torch.no_grad():
            for name, parameter in self._parameters:
                _local(parameter).copy_(tensors[f"weight/{name}"])
                state = states[parameter]
                for key in ("exp_avg", "exp_avg_sq"):
                    if f"{key}/{name}" in tensors:
                        state[key] = torch.zeros_like(parameter)
                        _local(state[key]).copy_(tensors[f"{key}/{name}"])
                if f"step/{name}" in tensors:
                    step = tensors[f"step/{name}"]
                    # The fused AdamW wants its counters on the device, the other one on the CPU.
                    fused = self._dist.device.type == "cuda"
                    state["step"] = step.to(self._dist.device) if fused else step


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this process's shard of a sharded tensor; another one is returned itself."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _shard_name(rank: int) -> str:
    return f"shard-{rank:05d}.safetensors"


def latest_state(folder: Path) -> Path | None:
    """Return the newest complete state in a folder of states."""
    if not folder.is_dir():
        return None
    complete = [path for path in folder.glob("step-*") if (path / _STATE_FILE).is_file()]
    return max(complete, default=None, key=lambda path: path.name)


def prune_states(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep` states."""
    for path in sorted(folder.glob("step-*"))[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
