"""How a run is played on a Ray cluster: its flags. `ray_cluster` alone imports Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

__all__ = ["RayConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConfig:
    """Where a run's workers and servers are, beside the process that drives it."""

    address: Annotated[str, tyro.conf.arg(name="ray")] = ""
    """Play on a Ray cluster: auto (the one that this machine belongs to), local (one of this
    machine alone, for as long as the run lasts) or HOST:PORT of its head. Empty = without Ray."""
    ray_workers: int = 0
    """Rollout workers on each node; 0 = one per two cores. Nodes join and leave a run."""
    ray_servers: int = 0
    """Environment servers on each node; 0 = as many as workers. With --servers, --servers-dns or
    --servers-file none are started."""
    ray_lease: float = 30.0
    """Seconds after which a worker that is not heard of counts as lost; its episodes go to
    others."""

    def __post_init__(self) -> None:
        """Raises ValueError at values that make no sense."""
        if min(self.ray_workers, self.ray_servers) < 0:
            raise ValueError("ray_workers and ray_servers are not negative")
        if not 1.0 <= self.ray_lease <= 3600.0:
            raise ValueError("ray_lease is between 1 and 3600 seconds")
