"""Weather in a real server: played by a client, and a dead service is nobody's reward."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import EnvironmentFailure
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.server import EnvironmentServer, ServerConfig

ITEM = "weather_1000003"
DEAD = "http://127.0.0.1:9"


@asynccontextmanager
async def connected(**settings: str) -> AsyncIterator[Connection]:
    config = ServerConfig(
        environments=("weather",),
        bind=("127.0.0.1:0",),
        settings={f"weather.{key}": value for key, value in settings.items()},
    )
    server = EnvironmentServer(config)
    await server.start()
    try:
        async with Connection(server.addresses[0]) as connection:
            yield connection
    finally:
        await server.stop()


async def test_the_expert_solves_a_task_over_the_wire() -> None:
    async with connected() as connection:
        episode = RemoteEpisode(connection, "e", pb.Reset(environment="weather", item_id=ITEM))
        seen = await episode.reset()
        while not seen.ended:
            advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
            seen = await episode.step_reply(advice.reply)
        assert (seen.reward, dict(seen.info or {})) == (1.0, {"progress": 1.0})
        episode.close()


async def test_a_dead_service_is_an_infrastructure_fault_and_the_run_may_try_again() -> None:
    async with connected(backend="live", base_url=DEAD, timeout="5") as connection:
        episode = RemoteEpisode(connection, "e", pb.Reset(environment="weather", item_id=ITEM))
        await episode.reset()
        seen = await episode.step("Action: get_user_current_date with Action Input: {}")
        assert seen.reward == 0.0
        with pytest.raises(EnvironmentFailure, match="Open-Meteo cannot be reached") as caught:
            await episode.step('Action: get_latitude_longitude with Action Input: {"name": "Rome"}')
        assert caught.value.fault == types_pb2.FAULT_INFRASTRUCTURE
        assert caught.value.reason == "ENVIRONMENT_UNAVAILABLE"
        episode.close()
