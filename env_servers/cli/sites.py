"""`python -m env_servers sites`: WebArena's embedded sites on a port, for a person's browser."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from env_servers.sdk import EnvironmentUnavailable
from env_servers.sdk.extras import install_command

__all__ = ["Sites"]


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Serve WebArena's embedded sites on a port; what is changed is forgotten at the end."""

    host: str = "127.0.0.1"
    """Address to listen at."""
    port: int = 8123
    """Port to listen at."""

    def run(self) -> int:
        """Serve until interrupted; returns the exit status.

        Raises:
            EnvironmentUnavailable: The extra `webarena` is not installed.
        """
        try:
            from env_servers.environments.webarena.sites.embedded import (
                embedded_network,
                new_world,
            )
            from env_servers.environments.webarena.sites.serving import addresses, serve
        except ModuleNotFoundError as error:
            raise EnvironmentUnavailable(
                f"the sites need {error.name!r}: {install_command('webarena')}"
            ) from error
        network = embedded_network()
        for name, address in addresses(network, self.port).items():
            sys.stdout.write(f"{name:6} {address}\n")
        sys.stdout.flush()
        serve(network, new_world(), self.host, self.port)
        return 0
