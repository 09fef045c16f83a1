# pyright: basic, reportMissingImports=false
# torch is an extra: the checker may run without it.
"""The processes of one training job and the device of each.

Owns the process group: `torchrun`'s where there is one, none on a single CPU process, one of size 1
on a single GPU (so that sharding and mixed precision have one code path there). Knows no model.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from training.errors import RecipeError

__all__ = ["Processes", "processes"]

_PATIENCE: Final = timedelta(hours=12)
"""The others wait while the first process prepares data or plays an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """This process among all of them."""

    rank: int
    world: int
    device: torch.device
    mesh: DeviceMesh | None = None
    """All processes in one dimension; None without a process group."""

    @property
    def first(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0

    @property
    def grouped(self) -> bool:
        """Whether there is a process group, hence a sharded model."""
        return self.mesh is not None

    def wait(self) -> None:
        """Return when all processes have come here."""
        if self.world > 1:
            dist.barrier()

    def total(self, values: list[float]) -> list[float]:
        """Sums over all processes, the same on each."""
        if self.world == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def agree(self, value: Any) -> Any:
        """The first process's value, a JSON-like one, on every process."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]


@contextmanager
def processes(device: str = "auto") -> Generator[Processes]:
    """Join the job for the length of the block. `device`: auto, cpu or cuda.

    Raises RecipeError where CUDA is asked for and absent.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise RecipeError("there is no CUDA device; set cpu or auto", field="train.device")
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    place = torch.device(device, int(os.environ.get("LOCAL_RANK", "0")) if device == "cuda" else 0)
    if device == "cuda":
        torch.cuda.set_device(place)
        # cuDNN's attention makes a plan for each new shape, and its gradient under a mask was NaN
        # in torch 2.11 (https://github.com/pytorch/pytorch/issues/196678).
        torch.backends.cuda.enable_cudnn_sdp(False)
    else:
        place = torch.device("cpu")
    if world == 1 and device == "cpu":
        yield Processes(rank=rank, world=world, device=place)
        return
    _join(device, rank, world, place)
    mesh = init_device_mesh(device, (world,))
    try:
        yield Processes(rank=rank, world=world, device=place, mesh=mesh)
    finally:
        _leave(device, mesh)


def _join(device: str, rank: int, world: int, place: torch.device) -> None:
    options: dict[str, Any] = {
        "backend": "nccl" if device == "cuda" else "gloo",
        "device_id": place if device == "cuda" else None,
        "timeout": _PATIENCE,
    }
    if world == 1:
        options |= {"store": dist.HashStore(), "rank": rank, "world_size": world}
    dist.init_process_group(**options)


def _leave(device: str, mesh: DeviceMesh) -> None:
    """End the group, its threads and its memory.

    The tensor library's caches hold the mesh for ever and the mesh holds the group, whose threads
    would then outlive the interpreter: one that still has a tensor to release aborts the process.
    """
    dist.destroy_process_group()
    # Older releases of torch hold no groups in a mesh, only their names.
    getattr(mesh, "_pg_registry", {}).clear()
    gc.collect()
    if device == "cuda":
        # What comes next in this process, such as an engine, finds the memory free.
        torch.cuda.empty_cache()
