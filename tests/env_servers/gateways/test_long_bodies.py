"""A body that is too long is answered on a real socket, to a client that first says all of it."""

import asyncio

import pytest

from env_servers.gateways.access import BODY_LIMIT
from env_servers.gateways.agentgym.application import AgentGymGateway
from env_servers.gateways.openenv.application import OpenEnvGateway
from env_servers.gateways.rest.application import RestGateway
from tests.kit.gateways import on_a_port, open_backend

LONG = b"x" * (BODY_LIMIT + (1 << 20))
CHUNKED = b"".join(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n" for _ in range(9)) + b"0\r\n\r\n"
HEAD = "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n"


def make_mcp(backend):
    pytest.importorskip("mcp", reason="needs the extra `mcp`")
    from env_servers.gateways.mcp.application import McpGateway

    return McpGateway(backend)


GATEWAYS = {
    "agentgym": (AgentGymGateway, "/maze/step"),
    "mcp": (make_mcp, "/mcp"),
    "openenv": (OpenEnvGateway, "/step"),
    "rest": (RestGateway, "/v1/episodes"),
}


async def ask(address, path, header, body):
    """Say a whole request, and only then look for an answer: its first line and the rest."""
    reading, writing = await asyncio.open_connection(*address.split(":"), limit=1 << 20)
    try:
        accept = "accept: application/json, text/event-stream\r\n"
        writing.write((HEAD.format(path=path, address=address) + accept + header).encode())
        writing.write(b"\r\n\r\n" + body)
        await writing.drain()
        return (await reading.read()).decode()
    finally:
        writing.close()


@pytest.mark.parametrize("kind", GATEWAYS)
async def test_whoever_says_too_much_hears_so(kind):
    make, path = GATEWAYS[kind]
    async with open_backend("maze") as backend, on_a_port(make(backend)) as address:
        for header, body in (
            (f"content-length: {len(LONG)}", LONG),
            ("transfer-encoding: chunked", CHUNKED),
        ):
            answer = await ask(address, path, header, body)
            assert answer.startswith("HTTP/1.1 413 "), (header, answer[:300])
            assert f"the body is longer than {BODY_LIMIT:,} bytes" in answer
