"""What this machine can run a model on. Asks the system once; knows no engine."""

from __future__ import annotations

import shutil
import socket
import subprocess
from dataclasses import dataclass

from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.serving.config import Device

__all__ = ["Machine", "detect", "free_port"]

_PROBE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Machine:
    """The part of a machine that decides an engine's flags."""

    accelerators: int = 0
    """CUDA devices; 0 = models run on the CPU."""

    def device(self, device: Device) -> str:
        """`cpu` or `cuda`; raises PolicyMisconfigured where CUDA is asked for and absent."""
        if device == "cuda" and not self.accelerators:
            raise PolicyMisconfigured("this machine has no CUDA device: use --device cpu")
        if device == "auto":
            return "cuda" if self.accelerators else "cpu"
        return device


def detect() -> Machine:
    """What the driver's own tool says of this machine."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Machine()
    try:
        listed = subprocess.run(
            [tool, "--list-gpus"], capture_output=True, text=True, timeout=_PROBE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return Machine()
    gpus = [line for line in listed.stdout.splitlines() if line.startswith("GPU ")]
    return Machine(len(gpus) if listed.returncode == 0 else 0)


def free_port(host: str) -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
