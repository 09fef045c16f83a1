"""What several processes see of one sharded model, as JSON of the first: run by torchrun.

    torchrun --nproc-per-node 2 sharded_models.py MODEL_FOLDER

Knows no test: `test_sharding` starts it and reads what it prints.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.trainer.compiled_models import trainings
from tests.training.trainer.test_batches import SEQUENCES
from training.trainer import models
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import DistributedContext, distributed_context
from training.trainer.learner import Learner, OptimizerConfig
from training.trainer.models import LoraSettings, ModelConfig, load_for_training

MICRO_BATCHES = 3


class ReduceScatters(TorchDispatchMode):
    """Counts them; torch's own `CommDebugMode` fails under the hooks of FSDP."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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


def loading(folder: str, dist: DistributedContext, *, lora: bool) -> dict[str, Any]:
    """How a model is loaded in bf16: who reads it, what is kept, and whether it is the same."""
    readers = 0
    original = models._load_pretrained

    def count(*arguments: Any) -> Any:
        nonlocal readers
        readers += 1
        return original(*arguments)

    models._load_pretrained = count
    settings = LoraSettings(rank=2) if lora else None
    config = ModelConfig(path=folder, precision="bf16", lora=settings)
    model = load_for_training(folder, config, dist, seed=3)
    models._load_pretrained = original
    by_rank = [0.0] * dist.world_size
    by_rank[dist.rank] = readers
    parameters = dict(model.named_parameters())
    alone = DistributedContext(rank=0, world_size=1, device=dist.device)
    expected = dict(load_for_training(folder, config, alone, seed=3).named_parameters())
    batch = collate([SEQUENCES[1]], dist.device)
    target_logprobs(model, batch).sum().backward()
    return {
        "readers": dist.all_reduce_sum(by_rank),
        "dtypes": sorted({f"{it.dtype} {it.requires_grad}" for it in parameters.values()}),
        "names": list(parameters) == list(expected),
        "difference": max(
            float((it.full_tensor().float() - expected[name].to(it.dtype).float()).abs().max())
            for name, it in parameters.items()
        ),
        "gradients": all((it.grad is not None) == it.requires_grad for it in parameters.values()),
    }


def waiting(dist: DistributedContext) -> dict[str, Any]:
    """What becomes of processes that wait for the main one longer than a collective may take."""
    group = torch.distributed.distributed_c10d._get_default_group()
    torch.distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=2), group)
    if dist.is_main:
        time.sleep(4)
    value = dist.broadcast(f"of {dist.rank}")
    if dist.is_main:
        time.sleep(4)
    dist.wait_for_main()
    hung = False
    if dist.is_main:
        time.sleep(4)
    else:
        try:
            dist.barrier()
        except RuntimeError:
            hung = True
    # Over gloo's long group: the other one is broken now.
    noticed: list[Any] = [None] * dist.world_size
    torch.distributed.all_gather_object(noticed, hung, group=dist.waiting)
    return {"value": value, "noticed": noticed}


def main() -> None:
    """Print what the first process sees."""
    folder = sys.argv[1]
    with distributed_context("cpu") as dist:
        seen = {
            "once": reductions(folder, dist, always=False),
            "always": reductions(folder, dist, always=True),
            "full": loading(folder, dist, lora=False),
            "lora": loading(folder, dist, lora=True),
            "compiled": trainings(folder, dist),
            "waiting": waiting(dist),
        }
        if dist.is_main:
            print(json.dumps(seen))


if __name__ == "__main__":
    main()
