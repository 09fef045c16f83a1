"""A training step of a large sharded model on shapes alone, as JSON: its peak, and the plan's.

    python planned_models.py '{"hidden_size": 4096, ...}' WORLD_SIZE

No memory is taken: tensors are fake, and so is the process group. Knows no test: `test_planning`
starts it, because a fake group cannot be undone in a process.
"""

from __future__ import annotations

import json
import sys

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from training.trainer import models
from training.trainer.distributed import DistributedContext
from training.trainer.learner import Learner, OptimizerConfig
from training.trainer.memory import measure_model, plan_memory
from training.trainer.models import Architecture, ModelConfig

TOKENS = 4096


def main() -> None:
    """Print both."""
    shape, world_size = Architecture(**json.loads(sys.argv[1])), int(sys.argv[2])
    config = ModelConfig(
        path="planned",
        architecture=shape,
        precision="bf16",
        activation_checkpointing=True,
        reduce_every_micro_batch=True,
        attention="sdpa",
    )
    settings = models.planned_hf_config(config)
    torch.distributed.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    dist = DistributedContext(
        rank=0,
        world_size=world_size,
        device=torch.device("cpu"),
        mesh=init_device_mesh("cpu", (world_size,)),
    )
    with FakeTensorMode():
        model = models._prepare(models._make_empty(config, settings), config, seed=0, frozen=False)
        model = models.shard(model, config, dist).train()
        learner = Learner(model, OptimizerConfig(), dist, seed=0, total=1)
        tracker = FSDPMemTracker(model, learner._optimizer)
        with tracker:
            # One micro-batch: the tracker follows no module twice.
            ids = torch.zeros(1, TOKENS, dtype=torch.long)
            kept = torch.arange(TOKENS)
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits
            learner.backward(logits.sum(), last=True)
            learner._optimizer.step()
    peak = sum(
        usage
        for device in tracker.get_tracker_snapshot("peak").values()
        for kind, usage in device.items()
        if str(kind) == "Total"
    )
    plan = plan_memory(
        measure_model(settings),
        config,
        micro_tokens=TOKENS,
        world_size=world_size,
        sharded=True,
    )
    print(json.dumps({"peak": peak, "plan": plan.total}))


if __name__ == "__main__":
    main()
