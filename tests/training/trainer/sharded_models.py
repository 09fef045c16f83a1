"""What several processes see of one sharded model, as JSON of the first: run by torchrun.

    torchrun --nproc-per-node 2 sharded_models.py MODEL_FOLDER

Knows no test: `test_sharding` starts it and reads what it prints.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.trainer.test_batches import SEQUENCES
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, OptimizerConfig
from training.trainer.models import ModelConfig, load_for_training

MICRO_BATCHES = 3


class ReduceScatters(TorchDispatchMode):
    """Counts them; torch's own `CommDebugMode` fails under the hooks of FSDP."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.count += "reduce_scatter" in str(func)
        return func(*args, **(kwargs or {}))


def reductions(folder: str, dist: DistributedContext, *, always: bool) -> dict[str, Any]:
    """Reduce-scatters of one update of three micro-batches, and the gradient's norm."""
    config = ModelConfig(path=folder, precision="float32", reduce_every_micro_batch=always)
    model = load_for_training(folder, config, dist)
    learner = Learner(
        model, OptimizerConfig(), dist, seed=0, total=1, reduce_every_micro_batch=always
    )
    learner.begin_step()
    with ReduceScatters() as reduce_scatters:
        for number in range(1, MICRO_BATCHES + 1):
            batch = collate([SEQUENCES[(number + dist.rank) % len(SEQUENCES)]], dist.device)
            loss = target_logprobs(model, batch).sum()
            learner.backward(loss, last=number == MICRO_BATCHES)
    norm, _ = learner.update()
    return {"norm": norm, "reduce_scatters": reduce_scatters.count}


def main() -> None:
    """Print what the first process sees."""
    folder = sys.argv[1]
    with distributed_context("cpu") as dist:
        seen = {
            "once": reductions(folder, dist, always=False),
            "always": reductions(folder, dist, always=True),
        }
        if dist.is_main:
            print(json.dumps(seen))


if __name__ == "__main__":
    main()
