"""The baselines as contenders of `benchmark.load`.

Knows the baselines and their settings; measures nothing.
"""

from __future__ import annotations

from typing import Final

from benchmark.load import Contender, python_server

__all__ = ["BASELINES", "baseline"]

_HERE: Final = "benchmark.baselines"
_ORIGINAL_HTTP: Final = "one worker, asyncio loop, h11, def handlers in the thread pool, no log"

BASELINES: Final[tuple[Contender, ...]] = (
    Contender(
        name="AgentGym HTTP, requests",
        client=f"{_HERE}.agentgym_http:RequestsClient",
        server=python_server(f"{_HERE}.agentgym_http"),
        max_episodes=2_048,
        note=f"{_ORIGINAL_HTTP}; a thread per episode, a connection per call",
    ),
    Contender(
        name="AgentGym HTTP, aiohttp",
        client=f"{_HERE}.agentgym_http:AiohttpClient",
        server=python_server(f"{_HERE}.agentgym_http"),
        note=f"{_ORIGINAL_HTTP}; kept connections",
    ),
    Contender(
        name="best FastAPI, aiohttp",
        client=f"{_HERE}.agentgym_http:AiohttpClient",
        server=python_server(f"{_HERE}.agentgym_http", "--tuned"),
        loop="uvloop",
        note="one worker, uvloop on both sides, httptools, async handlers; kept connections",
    ),
    Contender(
        name="OpenEnv WebSocket",
        client=f"{_HERE}.openenv_ws:WebSocketClient",
        server=python_server(f"{_HERE}.openenv_ws"),
        note="one worker, uvloop server, deflate, pydantic, a thread and a connection per episode",
    ),
    Contender(
        name="best WebSocket",
        client=f"{_HERE}.openenv_ws:WebSocketClient",
        server=python_server(f"{_HERE}.openenv_ws", "--tuned"),
        loop="uvloop",
        options={"tuned": True},
        note="one worker, uvloop on both sides, orjson, no compression, a connection per episode",
    ),
    Contender(
        name="bare gRPC, stream per episode",
        client=f"{_HERE}.grpc_stream:StreamClient",
        server=python_server(f"{_HERE}.grpc_stream"),
        loop="uvloop",
        note="grpc.aio, uvloop on both sides, one channel",
    ),
    Contender(
        name="bare gRPC, coalesced",
        client=f"{_HERE}.grpc_multiplexed:MultiplexedClient",
        server=python_server(f"{_HERE}.grpc_multiplexed"),
        loop="uvloop",
        note="grpc.aio, uvloop on both sides, one stream, at most 128 items a message, no runtime",
    ),
    Contender(
        name="ceiling: TCP msgpack, coalesced",
        client=f"{_HERE}.tcp_msgpack:MsgpackClient",
        server=python_server(f"{_HERE}.tcp_msgpack"),
        loop="uvloop",
        note="uvloop on both sides, one connection",
    ),
    Contender(
        name="in process",
        client=f"{_HERE}.inprocess:InProcessClient",
        note="no server: the environment's step is called directly",
    ),
)
"""From the slowest shape to the ceiling."""


def baseline(name: str) -> Contender:
    """The contender of that name; raises KeyError."""
    return {contender.name: contender for contender in BASELINES}[name]
