"""One process of a training that `training.on_ray` starts: what torchrun's processes are told.

`run` waits in a worker of Ray Train while the process does the work: in a thread of that worker, as
Ray would call it, a training could neither set signals nor be killed alone. The process ends with
its worker, however that ends.

    python -m training.ray_process PARENT_PID MODULE ARGUMENTS...
"""

from __future__ import annotations

import os
import platform
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

from agent_runtime.serving.machine import free_port

__all__ = ["Order", "installed_versions", "run"]

_WATCH_SECONDS: Final = 1.0
_PACKAGES: Final = ("agentgym-grpc", "torch", "transformers")
"""Of which all processes of a training have to have the same versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What each process is to do."""

    module: str
    arguments: Sequence[str]
    folder: str
    """To which relative paths belong, on every node."""
    versions: Mapping[str, str]
    """Of `installed_versions` where the command runs."""


def installed_versions() -> dict[str, str]:
    """Return what has to be the same on every node, by name."""
    return {"Python": platform.python_version()} | {it: metadata.version(it) for it in _PACKAGES}


def run(order: Order) -> None:
    """Run a process in a worker of Ray Train, told of the others as by torchrun.

    Raises RuntimeError, in words for the driver, where it cannot begin or ends with a failure.
    """
    train: Any = import_module("ray.train")
    context = train.get_context()
    name = f"process {context.get_world_rank()} of {context.get_world_size()} on {platform.node()}"
    if problem := _problem(order):
        raise RuntimeError(f"{name}: {problem}")
    collective: Any = import_module("ray.train.collective")
    address, port = collective.broadcast_from_rank_zero(_meeting_point())
    environment = os.environ | {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": str(context.get_world_rank()),
        "WORLD_SIZE": str(context.get_world_size()),
        "LOCAL_RANK": str(context.get_local_rank()),
        "LOCAL_WORLD_SIZE": str(context.get_local_world_size()),
        "GROUP_RANK": str(context.get_node_rank()),
    }
    command = [sys.executable, "-m", __spec__.name, str(os.getpid()), order.module]
    status = subprocess.run(
        [*command, *order.arguments], env=environment, cwd=order.folder, check=False
    ).returncode
    if status:
        raise RuntimeError(f"{name} ended with {status}")


def _problem(order: Order) -> str:
    """Return why no process of a training can be run here; empty = it can."""
    here = installed_versions()
    other = [f"{it} {here[it]}, not {at}" for it, at in order.versions.items() if here[it] != at]
    if other:
        return f"has {' and '.join(other)}: install the same on every node"
    if not Path(order.folder).is_dir():
        return (
            f"does not see {order.folder}: recipe, data and output have to be on a file system "
            "that every node has under the same path"
        )
    return ""


def _meeting_point() -> tuple[str, int]:
    """Return an address of this node at which the processes can meet."""
    util: Any = import_module("ray.util")
    address = util.get_node_ip_address()
    return address, free_port(address)


def _end_with(parent: int) -> None:
    """Kill this process once `parent` is no longer the parent."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _main() -> None:
    parent, module, *arguments = sys.argv[1:]
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
