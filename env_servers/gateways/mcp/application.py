"""MCP servers over streamable HTTP, one for each environment, or one of them over stdio."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence

import orjson
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route

from env_servers.gateways.access import BODY_LIMIT
from env_servers.gateways.backend import Backend
from env_servers.gateways.errors import UnknownId
from env_servers.gateways.leases import Leases
from env_servers.gateways.mcp.environment_server import EnvironmentServer
from env_servers.gateways.sessions import Environment, Session
from orchestrator.errors import UsageError

__all__ = ["McpGateway"]


class McpGateway:
    """MCP in front of a backend."""

    def __init__(
        self,
        backend: Backend,
        *,
        split: str = "",
        idle_limit: float = 3600.0,
        stdio: bool = False,
    ) -> None:
        """Serve all environments of a backend.

        Args:
            backend: Where they are played.
            split: Tasks of resets that name none; empty = the first that has some.
            idle_limit: Seconds without a request after which an episode is closed.
            stdio: There is one client, on standard input and output, and one environment.

        Raises:
            UsageError: An environment cannot be served so.
        """
        if stdio and len(backend.environments) != 1:
            raise UsageError(
                f"--stdio serves one environment: {', '.join(backend.environments)} are "
                f"{len(backend.environments)}"
            )
        try:
            environments = [Environment(backend, it, split) for it in backend.environments]
        except UnknownId as unknown:
            raise UsageError(str(unknown)) from None
        self._served = [EnvironmentServer(it, idle_limit, alone=stdio) for it in environments]
        # `Access` has looked at hosts and origins; what is held is held by name, not by session.
        trusted = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._managers = [
            StreamableHTTPSessionManager(
                it.server,
                json_response=True,
                stateless=True,
                security_settings=trusted,
                max_request_body_size=BODY_LIMIT,
            )
            for it in self._served
        ]
        routes = [
            Route(f"{path}/mcp", StreamableHTTPASGIApp(manager))
            for it, manager in zip(self._served, self._managers, strict=True)
            for path in (f"/{it.environment.name}", "")[: 2 if len(self._served) == 1 else 1]
        ]
        self.application = Starlette(routes=routes, lifespan=self._run)

    @property
    def leases(self) -> Collection[Leases[Session]]:
        """The episodes of all clients."""
        return [it.sessions.leases for it in self._served]

    def refusal(self, status: int, sentence: str) -> tuple[bytes, bytes]:
        """Say no in JSON-RPC."""
        error = {"code": -32600, "message": sentence}
        return b"application/json", orjson.dumps({"jsonrpc": "2.0", "id": None, "error": error})

    def describe(self, base: str) -> Sequence[str]:
        """Return what is where."""
        alone = len(self._served) == 1
        return [
            f"{base}{'' if alone else '/' + it.environment.name}/mcp  {it.environment.name}"
            for it in self._served
        ]

    async def serve_stdio(self) -> None:
        """Answer on standard input and output until the client goes."""
        server = self._served[0].server
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    @contextlib.asynccontextmanager
    async def _run(self, application: Starlette) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for manager in self._managers:
                await stack.enter_async_context(manager.run())
            yield
