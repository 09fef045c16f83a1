"""Gateways for tests: in this process, in front of a server in this process."""

from __future__ import annotations

import contextlib
from typing import Any

import httpx

from env_servers.gateways.access import Access
from env_servers.gateways.agentgym.application import AgentGymGateway
from env_servers.gateways.backend import Backend
from env_servers.gateways.openenv.application import OpenEnvGateway
from env_servers.gateways.rest.application import RestGateway
from env_servers.gateways.serving import serving as answering
from orchestrator.client import ClientConfig, connection_options
from orchestrator.fleet import Fleet, FleetConfig
from orchestrator.listening import listen
from tests.kit.servers import serving

__all__ = [
    "gateway_client",
    "on_a_port",
    "open_agentgym",
    "open_backend",
    "open_openenv",
    "open_rest",
]


@contextlib.asynccontextmanager
async def open_backend(*environments: str, addresses: tuple[str, ...] = (), patience=5, **options):
    """A backend in front of servers, or of one in this process that `options` describe."""
    async with contextlib.AsyncExitStack() as stack:
        if not addresses:
            options = {"environments": environments, "execution": {}, **options}
            server = await stack.enter_async_context(serving(**options))
            addresses = tuple(server.addresses)
        config = FleetConfig(servers=addresses, wait_for_servers=patience)
        connection = connection_options(ClientConfig(connect_deadline=patience))
        fleet = await stack.enter_async_context(Fleet(environments, config, connection))
        yield Backend(fleet)


@contextlib.asynccontextmanager
async def open_agentgym(*environments: str, split="", idle_limit=3600.0, **options):
    """AgentGym's routes."""
    async with open_backend(*environments, **options) as backend:
        gateway = AgentGymGateway(backend, split=split, idle_limit=idle_limit)
        with _closing(gateway):
            yield gateway


@contextlib.asynccontextmanager
async def open_rest(*environments: str, idle_limit=3600.0, **options):
    """The contract as JSON."""
    async with open_backend(*environments, **options) as backend:
        gateway = RestGateway(backend, idle_limit=idle_limit)
        with _closing(gateway):
            yield gateway


@contextlib.asynccontextmanager
async def open_openenv(
    *environments: str, token="", idle_limit=3600.0, answer_seconds=50.0, **options
):
    """OpenEnv's protocol on a port: the gateway and its address."""
    async with open_backend(*environments, **options) as backend:
        gateway = OpenEnvGateway(backend, idle_limit=idle_limit, answer_seconds=answer_seconds)
        async with on_a_port(gateway, token=token) as address:
            yield gateway, address


@contextlib.asynccontextmanager
async def on_a_port(gateway: Any, token=""):
    """A gateway that answers on a port: its address."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listening:
        async with answering(gateway, listening, token=token):
            yield f"127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def _closing(gateway):
    try:
        yield
    finally:
        for leases in gateway.leases:
            leases.close()


def gateway_client(gateway: Any, **access: Any) -> httpx.AsyncClient:
    """A client of a gateway in this process."""
    application = Access(gateway.application, refusal=gateway.refusal, **access)
    transport = httpx.ASGITransport(application)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")
