"""How fast a training is: tokens per second, and the share of the device's peak (MFU).

MFU counts what the model needs once (`ModelSize.flops`): neither padding nor activations that are
computed again.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from training.runs.tracking import TrackingConfig, peak_flops
from training.trainer.batches import Batch
from training.trainer.distributed import DistributedContext
from training.trainer.memory import ModelSize

__all__ = ["ThroughputMeter"]


class ThroughputMeter:
    """Counts the micro-batches of this process; readings are sums over all processes."""

    def __init__(self, size: ModelSize, config: TrackingConfig, dist: DistributedContext) -> None:
        self._size, self._dist = size, dist
        name = torch.cuda.get_device_name(dist.device) if dist.device.type == "cuda" else ""
        self._peak = peak_flops(name, config.peak_tflops)
        self._started = time.monotonic()
        self._tokens = self._targets = 0
        self._flops = 0.0

    def record_batch(self, batch: Batch) -> None:
        """Count a micro-batch whose forward and backward pass were computed."""
        targets = len(batch.logit_indices)
        self._tokens += batch.tokens
        self._targets += targets
        self._flops += self._size.flops(batch.tokens, targets, batch.squared_lengths)

    def read(self) -> dict[str, Any]:
        """Return the metrics since the last reading, over all processes, and start anew."""
        if self._dist.device.type == "cuda":
            # Kernels run behind Python: without waiting for them the clock would be read too early.
            torch.cuda.synchronize(self._dist.device)
        now = time.monotonic()
        seconds = max(now - self._started, 1e-9)
        counts = [float(self._tokens), float(self._targets), self._flops]
        tokens, targets, flops = self._dist.all_reduce_sum(counts)
        self._started, self._tokens, self._targets, self._flops = now, 0, 0, 0.0
        peak = None if self._peak is None else self._peak * self._dist.world_size
        return {
            "tokens": int(tokens),
            "targets": int(targets),
            "seconds": seconds,
            "tokens_per_second": tokens / seconds,
            "tflops_per_second": flops / seconds / 1e12,
            "mfu": None if peak is None else flops / seconds / peak,
        }
