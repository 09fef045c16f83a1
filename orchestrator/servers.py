"""Where a run's environment servers are: addresses, or what is spawned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FleetConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """Where a run's environments are served."""

    servers: tuple[str, ...] = ()
    """Addresses of running servers; empty = spawn some here."""
    spawn: int = 0
    """Server processes to spawn; 0 = one per two cores."""
    data: Path | None = None
    """Folder of official data files for spawned servers; default: AGENTGYM_DATA."""
    server_options: tuple[str, ...] = ()
    """Further arguments for spawned servers."""
    wait_for_servers: float = 300.0
    """Seconds to wait where no server of an environment is left; then the run stops and can be
    resumed."""
