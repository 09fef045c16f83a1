"""Small trainings of sharded and compiled models, beside the same ones by one process, uncompiled.

Knows no test: `sharded_models` runs it in each process and prints what it returns.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its common name)
from torch._dynamo import config as dynamo_config
from torch._dynamo.utils import counters

from tests.training.trainer.test_batches import sequence
from training.trainer import attention
from training.trainer.batches import collate, target_logprobs
from training.trainer.distributed import DistributedContext
from training.trainer.learner import Learner, OptimizerConfig
from training.trainer.models import LoraSettings, ModelConfig, gather_weights, load_for_training

UPDATES, MICRO_BATCHES, WIDTH = 2, 2, 128
VARIANTS = {
    "checkpointed": {"activation_checkpointing": True},
    "lora": {"lora": LoraSettings(rank=2)},
}


def trainings(folder: str, dist: DistributedContext) -> dict[str, Any]:
    """Train each variant; returns how far it is from the plain one, and what was compiled."""
    alone = DistributedContext(rank=0, world_size=1, device=dist.device)
    seen: dict[str, Any] = {}
    # One that has everything is enough of the larger job: tracing is what takes the time.
    names = list(VARIANTS) if dist.world_size < 4 else ["checkpointed"]
    for name, options in [(name, VARIANTS[name]) for name in names]:
        config = ModelConfig(path=folder, precision="float32", compile=True, **options)
        with _traceable(dist):
            found, losses = _train(folder, config, dist)
        compiled = dict(counters["stats"])
        plain = replace(config, compile=False, activation_checkpointing=False)
        expected, expected_losses = _train(folder, plain, alone, shares=dist.world_size)
        seen[name] = {
            "graphs": compiled.get("unique_graphs", 0),
            "breaks": sum(counters["graph_break"].values()),
            "losses": max(
                abs(one - other) for one, other in zip(losses, expected_losses, strict=True)
            ),
            "weights": max(
                (float((it - expected[key]).abs().max()) for key, it in found.items()), default=0.0
            ),
        }
    return seen


@contextmanager
def _traceable(dist: DistributedContext) -> Generator[None]:
    """Compile without a C++ compiler, and attend by one product, as a GPU's kernel can be traced.

    A graph that is compiled anew too often is an error; what is compiled counts from here on.
    """
    compile_, by_sequence = torch.compile, attention._by_sequence
    torch.compile = partial(compile_, backend="aot_eager")  # type: ignore[assignment]
    attention._by_sequence = _by_mask  # type: ignore[assignment]
    try:
        with dynamo_config.patch(fail_on_recompile_limit_hit=True):
            yield
    finally:
        torch.compile, attention._by_sequence = compile_, by_sequence


def _by_mask(query: Any, key: Any, value: Any, bounds: Any, dropout: float, scale: Any) -> Any:
    places = torch.arange(query.shape[2], device=query.device)
    owners = torch.searchsorted(bounds, places.to(bounds.dtype), right=True)
    mask = (owners[:, None] == owners[None]) & (places[:, None] >= places[None])
    out = F.scaled_dot_product_attention(
        query, key, value, mask, dropout, scale=scale, enable_gqa=key.shape[1] != query.shape[1]
    )
    return out.transpose(1, 2)


def _train(
    folder: str, config: ModelConfig, dist: DistributedContext, *, shares: int = 1
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Return the weights after some updates, and their losses; `shares` = of so many processes."""
    model = load_for_training(folder, config, dist, seed=3)
    learner = Learner(model, OptimizerConfig(lr=1e-3), dist, seed=0, total=UPDATES)
    losses: list[float] = []
    for update in range(UPDATES):
        learner.begin_step()
        loss = 0.0
        micros = [
            # Other sequences, of other lengths, in each micro-batch of each process.
            [sequence(length, 100 * update + 10 * number + share) for length in (9 + share, 30, 7)]
            for share in ([dist.rank] if shares == 1 else range(shares))
            for number in range(MICRO_BATCHES)
        ]
        for number, micro in enumerate(micros, 1):
            batch = collate(micro[: 2 + number % 2], dist.device, pad_to=WIDTH)
            part = -target_logprobs(model, batch).sum() / 100
            learner.backward(part, last=number == len(micros))
            loss += float(part.detach())
        learner.update()
        losses += dist.all_reduce_sum([loss])
    return gather_weights(model, dist, dtype=torch.float32), losses
