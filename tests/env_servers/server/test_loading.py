"""A server that listens before its environments are loaded."""

import asyncio

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from env_servers.sdk import EnvironmentUnavailable
from env_servers.server import EnvironmentServer, ServerConfig, app
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def listening():
    config = ServerConfig(environments=("echo", "maze"), bind=("127.0.0.1:0",))
    server = EnvironmentServer(config, load=False)
    await server.start()
    async with grpc.aio.insecure_channel(server.addresses[0]) as channel:
        yield server, channel
    await server.stop()


async def health_of(channel, name=""):
    stub = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status


async def test_health_is_not_serving_until_all_is_loaded(listening):
    server, channel = listening
    assert await health_of(channel) == NOT_SERVING
    await server.load_later()
    assert [await health_of(channel, name) for name in ("", "echo", "maze")] == [SERVING] * 3


async def test_calls_wait_for_the_environments_and_are_answered_then(listening):
    server, channel = listening
    stub = environment_pb2_grpc.EnvironmentServiceStub(channel)
    described = asyncio.ensure_future(
        stub.GetEnvironment(pb.GetEnvironmentRequest(environment="echo"))
    )
    listed = asyncio.ensure_future(stub.ListEnvironments(pb.ListEnvironmentsRequest()))
    await health_of(channel)  # a round trip later they still wait
    assert not described.done()
    assert not listed.done()
    await server.load_later()
    assert (await described).name == "echo"
    assert list((await listed).environments) == ["echo", "maze"]
    async with harness_for(server.addresses[0], environment="maze") as harness:
        await (await harness.play()).step()
    assert server.table.admission.total == sum(server.table.admission.capacities.values())


async def test_an_environment_that_cannot_be_loaded_is_told_and_nothing_is_served(
    listening, monkeypatch
):
    server, channel = listening

    def refuse(name, config):
        raise EnvironmentUnavailable(f"no engine for {name}")

    monkeypatch.setattr(app, "LoadedEnvironment", refuse)
    with pytest.raises(EnvironmentUnavailable, match="no engine for echo"):
        await server.load_later()
    assert await health_of(channel) == NOT_SERVING


async def test_environments_loaded_before_are_served_as_soon_as_it_listens():
    async with serving() as server, grpc.aio.insecure_channel(server.addresses[0]) as channel:
        assert await health_of(channel) == SERVING
