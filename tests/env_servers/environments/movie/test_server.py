"""Movie in a real server: played by a client, and a dead service is nobody's reward."""

from __future__ import annotations

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import EnvironmentFailure
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.environments.movie.backends import KEY_VARIABLE
from env_servers.sdk import ActionFormat
from env_servers.server import EnvironmentServer, ServerConfig

ITEM = "movie_1500030"
DEAD = {"movie.backend": "live", "movie.base_url": "http://127.0.0.1:9/3"}


def server(**settings: str) -> EnvironmentServer:
    return EnvironmentServer(
        ServerConfig(environments=("movie",), bind=("127.0.0.1:0",), settings=settings)
    )


@pytest.mark.parametrize("action_format", list(ActionFormat))
async def test_the_expert_solves_a_task_in_every_action_format(
    action_format: ActionFormat,
) -> None:
    running = server()
    await running.start()
    try:
        async with Connection(running.addresses[0]) as connection:
            reset = pb.Reset(
                environment="movie",
                item_id=ITEM,
                action_format=f"ACTION_FORMAT_{action_format.name}",
            )
            episode = RemoteEpisode(connection, "e", reset)
            seen = await episode.reset()
            while not seen.ended:
                advice = await episode.consult(pb.ADVISOR_EXPERT, episode.seq)
                seen = await episode.step_reply(advice.reply)
            assert (seen.reward, dict(seen.info or {})) == (1.0, {"progress": 1.0})
            episode.close()
    finally:
        await running.stop()


async def test_a_dead_service_is_an_infrastructure_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "token")
    running = server(**DEAD)
    await running.start()
    try:
        async with Connection(running.addresses[0]) as connection:
            reset = pb.Reset(environment="movie", item_id=ITEM)
            episode = RemoteEpisode(connection, "e", reset)
            await episode.reset()
            advice = await episode.consult(pb.ADVISOR_EXPERT, 0)
            with pytest.raises(EnvironmentFailure, match="Movie Database cannot be") as caught:
                await episode.step_reply(advice.reply)
            assert caught.value.fault == types_pb2.FAULT_INFRASTRUCTURE
            episode.close()
    finally:
        await running.stop()
