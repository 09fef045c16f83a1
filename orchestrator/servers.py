"""Where a run's environment servers are: addresses, a list of them, or what is spawned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["FleetConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """Where a run's environments are served."""

    servers: tuple[str, ...] = ()
    """Addresses of running servers; empty = spawn some here."""
    servers_dns: str = ""
    """NAME:PORT. Every address of the name is a server; it is looked up again all the time, so that
    servers join and leave a run."""
    servers_file: Path | None = None
    """File of addresses, one a line, or a JSON list of {"address": ..., "capacity": ...}. It is
    read again when it changes, so that servers join and leave a run."""
    spawn: int = 0
    """Server processes to spawn; 0 = one per two cores."""
    data: Path | None = None
    """Folder of official data files for spawned servers; default: AGENTGYM_DATA."""
    server_options: tuple[str, ...] = ()
    """Further arguments for spawned servers."""
    wait_for_servers: float = 300.0
    """Seconds to wait where no server of an environment is left; then the run stops and can be
    resumed."""

    @property
    def running(self) -> tuple[str, ...]:
        """What names running servers, for people; empty = they are spawned here."""
        names = (self.servers_dns, self.servers_file and str(self.servers_file))
        return (*self.servers, *filter(None, names))
