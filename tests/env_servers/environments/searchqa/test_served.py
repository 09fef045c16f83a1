"""Over gRPC: concurrent searches are asked together, and a lost retriever ends no run with a 0."""

from __future__ import annotations

import asyncio
import socket

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import EnvironmentFailure
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.server import EnvironmentServer, ServerConfig


def reset(number: int) -> pb.Reset:
    return pb.Reset(environment="searchqa", item_id=f"searchqa_{1_000_000 + number}")


def served(**settings: object) -> EnvironmentServer:
    named = {f"searchqa.{name}": value for name, value in settings.items()}
    return EnvironmentServer(
        ServerConfig(environments=("searchqa",), bind=("127.0.0.1:0",), settings=named)
    )


async def play(episode: RemoteEpisode) -> float | None:
    """The expert's reward."""
    await episode.reset()
    while True:
        advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
        seen = await episode.step(advice.action)
        if seen.ended:
            return seen.reward


async def test_a_hundred_episodes_at_once_are_all_won() -> None:
    server = served()
    await server.start()
    try:
        async with Connection(server.addresses[0]) as connection:
            live = [RemoteEpisode(connection, f"e{n}", reset(n % 50)) for n in range(100)]
            assert await asyncio.gather(*map(play, live)) == [1.0] * 100
    finally:
        await server.stop()


async def test_without_its_retriever_an_episode_fails_as_infrastructure_not_with_a_reward() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/retrieve"
        server = served(embedded_retriever=url)
        await server.start()
        try:
            async with Connection(server.addresses[0]) as connection:
                episode = RemoteEpisode(connection, "lost", reset(0))
                await episode.reset()
                with pytest.raises(EnvironmentFailure) as raised:
                    await episode.step("<search> anything </search>")
                assert raised.value.fault == types_pb2.FAULT_INFRASTRUCTURE
        finally:
            await server.stop()
