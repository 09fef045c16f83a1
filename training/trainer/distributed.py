"""The processes of one training job, and the device of each.

The process group is `torchrun`'s where there is one. A single CPU process has none; a single GPU
gets one of size 1, so that sharding and mixed precision have one code path there.
"""

# torch leaves the arguments of these functions untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

import torch
import torch.distributed
from torch._C._distributed_c10d import HashStore  # torch.distributed re-exports it undeclared
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from training.errors import RecipeError

__all__ = ["DistributedContext", "distributed_context"]

_TIMEOUT: Final = timedelta(minutes=30)
"""Of collective operations of learning: a process that hangs ends the job after it."""
_LONG_TIMEOUT: Final = timedelta(hours=12)
"""Of waiting for the main process, which prepares data or plays meanwhile."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedContext:
    """The current process among all of its job; the words are those of `torch.distributed`."""

    rank: int
    world_size: int
    device: torch.device
    mesh: DeviceMesh | None = None
    """All processes in one dimension; None without a process group."""
    waiting: torch.distributed.ProcessGroup | None = None
    """All processes over gloo, which waits without using the device; None where there is one."""

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes what is written once."""
        return self.rank == 0

    @property
    def has_group(self) -> bool:
        """Whether there is a process group, hence a sharded model."""
        return self.mesh is not None

    def barrier(self) -> None:
        """Wait until every process has called this, while all do the same."""
        if self.world_size > 1:
            torch.distributed.barrier()

    def wait_for_main(self) -> None:
        """Wait until every process has called this, for hours where the main one works alone."""
        if self.world_size > 1:
            torch.distributed.barrier(group=self.waiting)

    def all_reduce_sum(self, values: list[float]) -> list[float]:
        """Return the sums of values over all processes, the same on each."""
        if self.world_size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(tensor)
        return cast("list[float]", tensor.tolist())

    def broadcast(self, value: T) -> T:
        """Return the main process's value on every process, for which it may work for hours.

        Args:
            value: A JSON-like value; the other processes' values are ignored.
        """
        if self.world_size == 1:
            return value
        objects = [value]
        # torch pickles it; it comes from the main process of this very job.
        torch.distributed.broadcast_object_list(objects, src=0, group=self.waiting)
        return objects[0]


@contextmanager
def distributed_context(device: str = "auto") -> Generator[DistributedContext]:
    """Join the training job for the length of the block.

    Args:
        device: auto, cpu or cuda.

    Raises:
        RecipeError: CUDA is asked for and absent.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise RecipeError("there is no CUDA device; set cpu or auto", field="train.device")
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    own_device = torch.device("cpu")
    if device == "cuda":
        own_device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(own_device)
        # cuDNN's attention makes a plan for each new shape, and its gradient under a mask was NaN
        # in torch 2.11 (https://github.com/pytorch/pytorch/issues/196678).
        torch.backends.cuda.enable_cudnn_sdp(False)
    elif world_size == 1:
        yield DistributedContext(rank=rank, world_size=1, device=own_device)
        return
    _init_process_group(device, rank, world_size, own_device)
    mesh = init_device_mesh(device, (world_size,))
    waiting = None
    if world_size > 1:
        # An int stands for "not a member", which no process is.
        waiting = cast(
            "torch.distributed.ProcessGroup",
            torch.distributed.new_group(backend="gloo", timeout=_LONG_TIMEOUT),
        )
    try:
        yield DistributedContext(
            rank=rank, world_size=world_size, device=own_device, mesh=mesh, waiting=waiting
        )
    finally:
        _destroy_process_group(device, mesh)


def _init_process_group(device: str, rank: int, world_size: int, own_device: torch.device) -> None:
    options: dict[str, Any] = {
        "backend": "nccl" if device == "cuda" else "gloo",
        "device_id": own_device if device == "cuda" else None,
        "timeout": _TIMEOUT,
    }
    if world_size == 1:
        # Without torchrun there is no address to meet at.
        options |= {"store": HashStore(), "rank": rank, "world_size": world_size}
    torch.distributed.init_process_group(**options)


def _destroy_process_group(device: str, mesh: DeviceMesh) -> None:
    """End the group, its threads and its memory.

    torch's caches keep the mesh for ever and the mesh keeps the group, whose threads would then
    outlive the interpreter: one that still has a tensor to release aborts the process.
    """
    torch.distributed.destroy_process_group()
    # Older releases of torch keep no groups in a mesh, only their names.
    cast("dict[Any, Any]", getattr(mesh, "_pg_registry", {})).clear()
    gc.collect()
    if device == "cuda":
        # What comes next in this process, such as an engine, finds the memory free.
        torch.cuda.empty_cache()
