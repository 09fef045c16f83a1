"""`python -m env_servers gateway`: other protocols in front of a fleet of servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from env_servers.gateways.options import GatewayOptions

if TYPE_CHECKING:
    from env_servers.gateways.backend import Backend
    from env_servers.gateways.serving import Gateway as Served

__all__ = ["Gateway"]


@dataclass(frozen=True, kw_only=True)
class Gateway(GatewayOptions):
    """Let clients of other protocols play: `gateway agentgym textcraft`."""

    def run(self) -> int:
        """Serve until a signal; returns the exit status."""
        from env_servers.gateways.serving import run_gateway

        return run_gateway(self, self._make)

    def _make(self, backend: Backend) -> Served:
        from env_servers.gateways.agentgym.application import AgentGymGateway
        from env_servers.gateways.openenv.application import OpenEnvGateway
        from env_servers.gateways.rest.application import RestGateway

        idle_limit = 60 * self.idle_minutes
        if self.kind == "rest":
            return RestGateway(backend, idle_limit=idle_limit)
        if self.kind == "mcp":
            from env_servers.gateways.mcp.application import McpGateway

            return McpGateway(backend, split=self.split, idle_limit=idle_limit, stdio=self.stdio)
        if self.kind == "openenv":
            return OpenEnvGateway(
                backend,
                split=self.split,
                idle_limit=idle_limit,
                answer_seconds=self.answer_seconds,
            )
        return AgentGymGateway(backend, split=self.split, idle_limit=idle_limit)
