"""`python -m env_servers gateway`: other protocols in front of a fleet of servers.

Each kind is a subcommand, whose flags are those that all gateways have and its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from env_servers.gateways.options import GatewayOptions

if TYPE_CHECKING:
    from env_servers.gateways.agentgym.application import AgentGymGateway
    from env_servers.gateways.backend import Backend

__all__ = ["Gateway"]


@dataclass(frozen=True, kw_only=True)
class AgentGym(GatewayOptions):
    """AgentGym's HTTP routes: its clients and what trains with them play unchanged."""

    split: str = ""
    """Split whose tasks the clients' numbers count; default: the original's numbers where its tasks
    are there (--data), else the first split."""

    def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        from env_servers.gateways.serving import run_gateway

        def make(backend: Backend) -> AgentGymGateway:
            from env_servers.gateways.agentgym.application import AgentGymGateway

            return AgentGymGateway(backend, split=self.split, idle_limit=60 * self.idle_minutes)

        return run_gateway(self, make)


Kind: TypeAlias = Annotated[AgentGym, tyro.conf.subcommand("agentgym")]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """Let clients of other protocols play: `gateway agentgym textcraft`."""

    kind: Kind

    def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        return self.kind.run()
