"""Trainings on a Ray cluster: what `torchrun` starts on one machine, started by Ray Train on many.

    python -m training.on_ray --ray auto --workers 8 --gpus 1 -- training.bc RECIPE.toml [--resume]

Each worker of Ray Train runs the training's own command in a process (`training.ray_process`) with
the environment that torchrun would give it; a training knows nothing of Ray. A process that fails
ends all of them. What is saved is in the training's folder: `--resume` goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import tyro

from orchestrator.command_line import run_command
from orchestrator.errors import ClusterError, ExtraMissing, UsageError
from orchestrator.ray_cluster.cluster import check_address, import_ray, joined_cluster
from training.errors import TrainingError
from training.ray_process import Order, installed_versions, run

__all__ = ["OnRay", "check_room", "main", "start"]

TRAININGS: Final = ("training.bc", "training.dpo", "training.grpo")
"""Commands that several processes make together."""
_OTHERWISE: Final = {
    "training.agentevol": (
        ": start it by itself, with --ray for what it plays; its cloning is learned where it runs, "
        "by as many processes as cloning.processes says"
    )
}
"""What else has to do with clusters, and how it is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnRay:
    """Start a training on a Ray cluster. After `--` comes its command, without `python -m`."""

    address: Annotated[str, tyro.conf.arg(name="ray")] = "auto"
    """The cluster: auto (the one that this machine belongs to), local (one of this machine alone,
    for as long as the training lasts) or HOST:PORT of its head."""
    workers: int = 1
    """Processes that learn together."""
    cpus: float = 1.0
    """CPUs that Ray reserves for each."""
    gpus: int = 0
    """GPUs of each: 1, or 0 to learn on CPUs."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        if self.workers < 1 or self.cpus <= 0 or self.gpus not in (0, 1):
            raise ValueError("workers is at least 1, cpus above 0, gpus 0 or 1")


def start(config: OnRay, module: str, arguments: Sequence[str]) -> None:
    """Run a training on a cluster, to its end.

    Args:
        config: Where, and by how many processes.
        module: One of `TRAININGS`.
        arguments: Of its command.

    Raises:
        UsageError: It is no such training, no cluster answers, or it has too few resources.
        ExtraMissing: Ray Train is not installed.
        TrainingError: A process failed, or was lost.
        ClusterError: The cluster was lost.
    """
    if module not in TRAININGS:
        raise UsageError(
            f"{module!r} is not one training of several processes{_OTHERWISE.get(module, '')}",
            valid=TRAININGS,
        )
    ray = import_ray()
    train = _import_train()
    asyncio.run(check_address(config.address))
    with joined_cluster(ray, config.address):
        check_room(config, [it["Resources"] for it in ray.nodes() if it["Alive"]])
        order = Order(
            module=module,
            arguments=tuple(arguments),
            folder=str(Path.cwd()),
            versions=installed_versions(),
        )
        _fit(ray, train, config, order)


def check_room(config: OnRay, nodes: Sequence[Mapping[str, float]]) -> None:
    """Raise UsageError where nodes with these resources have no room for all processes."""
    wanted = {"CPU": config.cpus, "GPU": float(config.gpus)}
    room = sum(
        min(int(node.get(name, 0.0) / count) for name, count in wanted.items() if count)
        for node in nodes
    )
    if room < config.workers:
        has = "; ".join(f"{it.get('CPU', 0):g} CPUs, {it.get('GPU', 0):g} GPUs" for it in nodes)
        raise UsageError(
            f"{config.workers} processes with {config.cpus:g} CPUs and {config.gpus} GPUs each are "
            f"wanted, and there is room for {room}: the cluster's nodes have {has}"
        )


def _import_train() -> Any:
    # Otherwise each worker would go to a folder of its own: what is relative belongs to ours.
    os.environ.setdefault("RAY_CHDIR_TO_TRIAL_DIR", "0")
    try:
        import_module("ray.train.torch")
        return import_module("ray.train")
    except ImportError as error:
        raise ExtraMissing("python -m training.on_ray", extra="ray-train") from error


def _fit(ray: Any, train: Any, config: OnRay, order: Order) -> None:
    # Its own folder would be in the home directory; nothing of ours is in there.
    with tempfile.TemporaryDirectory(prefix="agentgym-ray-") as folder:
        trainer: Any = import_module("ray.train.torch").TorchTrainer(
            lambda: run(order),
            torch_config=_torch_config(),
            scaling_config=train.ScalingConfig(
                num_workers=config.workers,
                use_gpu=config.gpus > 0,
                resources_per_worker={"CPU": config.cpus, "GPU": config.gpus},
            ),
            run_config=train.RunConfig(
                storage_path=folder, logging_config=train.LoggingConfig(log_level="ERROR")
            ),
        )
        try:
            trainer.fit()
        except train.TrainingFailedError as error:
            raise TrainingError(_explain(error, order)) from error
        except ray.exceptions.RayError as error:
            raise ClusterError(
                f"the Ray cluster was lost ({error}): what the training saved is kept; --resume it"
            ) from error


def _torch_config() -> Any:
    """Return a configuration by which workers join no process group: the processes will.

    What is left is that each sees all GPUs of its node, as `LOCAL_RANK` wants it.
    """
    backends: Any = import_module("ray.train.backend")
    torches: Any = import_module("ray.train.torch")

    class Backend(backends.Backend):
        share_cuda_visible_devices = True

    class Config(torches.TorchConfig):
        @property
        def backend_cls(self) -> type[Any]:
            return Backend

        @property
        def train_func_context(self) -> type[Any]:
            return nullcontext  # torch's would take memory of a GPU

    return Config()


def _explain(error: Any, order: Order) -> str:
    failures: Mapping[int, Exception] = getattr(error, "worker_failures", {})
    reasons = [str(it) for it in failures.values()] or [str(error)]
    return (
        f"{order.module} ended on the cluster: {'; '.join(reasons)}. Its output is above; what it "
        "saved is kept: mend it and --resume"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    split = words.index("--") if "--" in words else len(words)
    command = words[split + 1 :]

    def act(config: OnRay) -> int:
        if not command:
            raise UsageError("say what to start: -- training.bc RECIPE.toml", valid=TRAININGS)
        start(config, command[0], command[1:])
        return 0

    return run_command(OnRay, act, words[:split], program="python -m training.on_ray")


if __name__ == "__main__":
    sys.exit(main())
