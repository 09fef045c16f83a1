# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""How fast a training is: tokens per second and the share of the device's peak (MFU).

Owns the clock between two readings. MFU counts what the model needs once (`ModelSize.flops`):
neither padding nor activations that are computed again. Knows no algorithm.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from training.runs.tracking import TrackingConfig, peak_flops
from training.trainer.batches import Batch
from training.trainer.distributed import Processes
from training.trainer.memory import ModelSize

__all__ = ["Speedometer"]


class Speedometer:
    """Counts micro-batches of this process and reads over all processes."""

    def __init__(self, size: ModelSize, config: TrackingConfig, job: Processes) -> None:
        self._size, self._job = size, job
        name = torch.cuda.get_device_name(job.device) if job.device.type == "cuda" else ""
        self._peak = peak_flops(name, config.peak_tflops)
        self._began = time.monotonic()
        self._tokens = self._targets = 0
        self._flops = 0.0

    def count(self, batch: Batch) -> None:
        """Note a micro-batch that went forth and back."""
        targets = len(batch.keep)
        self._tokens += batch.tokens
        self._targets += targets
        self._flops += self._size.flops(batch.tokens, targets, batch.squares)

    def read(self) -> dict[str, Any]:
        """Figures since the last reading, over all processes; begins anew."""
        if self._job.device.type == "cuda":
            torch.cuda.synchronize(self._job.device)
        now = time.monotonic()
        spent = max(now - self._began, 1e-9)
        tokens, targets, flops = self._job.total([self._tokens, self._targets, self._flops])
        self._began, self._tokens, self._targets, self._flops = now, 0, 0, 0.0
        peak = None if self._peak is None else self._peak * self._job.world
        return {
            "tokens": int(tokens),
            "targets": int(targets),
            "seconds": spent,
            "tokens_per_second": tokens / spent,
            "tflops_per_second": flops / spent / 1e12,
            "mfu": None if peak is None else flops / spent / peak,
        }
