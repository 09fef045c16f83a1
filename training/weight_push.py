"""A learner's weights for the engine that plays: in memory, on a disk, or through a process group.

Which way is `rollout.push`. Owns the folders that servers read. Invariant: whichever way, an
engine gets the weights in the precision in which the learner computes them.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agent_runtime.weights import AdapterWeights, Weights
from training.rollouts.jobs import RolloutConfig, pushed_weights
from training.rollouts.on_policy import Rollouts
from training.trainer.distributed import DistributedContext
from training.trainer.models import (
    ModelConfig,
    adapter_scale,
    gather_adapter,
    gather_weights,
    save_adapter,
    save_checkpoint,
    uses_bf16,
)

__all__ = ["WeightPush", "prune_weights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPush:
    """Gives the policy of a training the weights of its learner, again and again."""

    model: ModelConfig
    rollout: RolloutConfig
    folder: Path
    """Where weights that are pushed by a disk are written, and removed when others are served."""
    dist: DistributedContext

    async def push(self, module: Any, rollouts: Rollouts | None, version: str) -> None:
        """Replace the policy's weights by a module's; every process has to call this.

        Args:
            module: Loaded by `load_for_training`.
            rollouts: The policy's, in the main process; None in the others.
            version: Name of these weights, which nothing was called before.

        Raises:
            PolicyError: An engine did not take them.
        """
        if rollouts is None:
            self._weights(module, version)
            return
        # In a thread, so that episodes go on meanwhile.
        weights = await asyncio.to_thread(self._weights, module, version)
        await rollouts.update_weights(weights, version)
        prune_weights(self.folder, keep=version)

    def _weights(self, module: Any, version: str) -> Weights:
        half = uses_bf16(self.model, self.dist.device)
        if self.rollout.push_adapter:
            return self._adapter(module, version, half=half)
        if self.rollout.engine == "sglang" and self.rollout.push == "disk":
            folder = self.folder / version
            folder.parent.mkdir(parents=True, exist_ok=True)
            source = self.model.source
            save_checkpoint(module, folder, tokenizer=source, dist=self.dist, half=half)
            return folder
        dtype = torch.bfloat16 if half else torch.float32
        return pushed_weights(self.rollout, gather_weights(module, self.dist, dtype=dtype))

    def _adapter(self, module: Any, version: str, *, half: bool) -> Weights:
        if self.rollout.engine == "sglang":
            folder = self.folder / version
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_adapter(module, folder, self.dist)
            return AdapterWeights(adapter=folder)
        return AdapterWeights(
            adapter=gather_adapter(module, self.dist),
            scale=adapter_scale(module),
            dtype=torch.bfloat16 if half else torch.float32,
        )


def prune_weights(folder: Path, *, keep: str) -> None:
    """Remove the weights that no engine serves any more: a step of 7B parameters has 13 GB."""
    if folder.is_dir():
        for old in folder.iterdir():
            if old.name != keep and _is_weights(old):
                shutil.rmtree(old)


def _is_weights(folder: Path) -> bool:
    return folder.is_dir() and "step-" in folder.name
