"""The embedded model server: requests of bounded size, and none of web pages."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from agent_runtime.agents import LEARNER_AGENT
from agent_runtime.serving import ServeConfig, serving

MIB = 1024 * 1024
_BOUND_SECONDS = 60.0
POSTS = (
    "/generate",
    "/v1/tokenize",
    "/abort_request",
    "/pause_generation",
    "/continue_generation",
    "/update_weights_from_disk",
)


def resident() -> int:
    """Bytes of memory of this process, which the engine runs in."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


@pytest.fixture
async def served():
    """A client of the bundled agent's model, served by NumPy on loopback."""
    options = ("backend=numpy", "threads=1", "max-slots=2", "cache-gib=0.1")
    config = ServeConfig(engine="embedded", device="cpu", engine_options=options)
    async with (
        asyncio.timeout(_BOUND_SECONDS),
        serving(str(LEARNER_AGENT), config, in_process=True) as server,
        aiohttp.ClientSession(server.address) as session,
    ):
        yield session


async def post(session, path, body, **headers):
    """Status and error message of an answer."""
    async with session.post(path, json=body, headers=headers) as response:
        answer = await response.json() if response.content_type == "application/json" else {}
        return response.status, answer.get("error", {}).get("message", "")


async def test_a_text_of_fifty_megabytes_is_not_tokenized(served):
    """It once took more than a minute and 11.6 GB."""
    before = resident()
    status, message = await post(served, "/v1/tokenize", {"prompt": "word " * 2 * MIB})
    assert (status, "1,048,576" in message) == (413, True)
    status, message = await post(served, "/v1/tokenize", {"prompt": "word " * 10 * MIB})
    assert (status, "the request" in message) == (413, True)
    assert resident() - before < 500 * MIB
    assert await post(served, "/v1/tokenize", {"prompt": "word " * 1000}) == (200, "")


@pytest.mark.parametrize("path", POSTS)
async def test_every_route_refuses_a_body_without_end(served, path):
    async def endless():
        for _ in range(100):
            yield b" " * MIB

    async with served.post(path, data=endless()) as response:
        assert response.status == 413


@pytest.mark.parametrize("path", POSTS)
async def test_a_web_page_reaches_no_route(served, path):
    """Any page could pause or abort: a browser sends it to loopback without asking."""
    for origin in ("https://evil.example", "null", str(served._base_url.origin())):
        status, message = await post(served, path, {}, Origin=origin)
        assert (status, "Origin" in message) == (403, True)


async def test_a_name_that_points_at_loopback_is_refused(served):
    """A page whose name resolves to 127.0.0.1 is of one origin with the server."""
    port = served._base_url.port
    for host, expected in (
        (f"evil.example:{port}", 403),
        (f"127.0.0.1.evil.example:{port}", 403),
        (f"localhost:{port}", 200),
        (f"127.0.0.1:{port}", 200),
    ):
        async with served.get("/model_info", headers={"Host": host}) as response:
            assert response.status == expected, host
