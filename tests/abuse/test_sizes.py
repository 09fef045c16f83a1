"""What does not fit into a message fails its own command, and nobody else's."""

import asyncio
import contextlib

import pytest

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import CommandGivenUp, CommandTooLong
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error
from tests.env_servers.server.conftest import harness_for

MIB = 1024 * 1024
_BOUND_SECONDS = 60.0


async def opened(connection, name, environment="echo", **options):
    """An episode of echo, or of one that is made of it, that does not end by itself."""
    reset = pb.Reset(environment=environment, item_id="echo_1000000")
    reset.options.update({"length": 0, **options})
    episode = RemoteEpisode(connection, name, reset, deterministic=True)
    await episode.reset()
    return episode


@contextlib.asynccontextmanager
async def client(server, **options):
    """A bounded connection to a server."""
    async with (
        asyncio.timeout(_BOUND_SECONDS),
        Connection(server.address, ConnectionOptions(**options)) as connection,
    ):
        yield connection


@pytest.mark.parametrize("how", ["inline", "process"])
async def test_an_observation_that_no_message_carries_ends_its_episode_alone(server_process, how):
    """One of 70 MB once stopped every episode of its connection, for ever and without a word."""
    server = server_process(environments=["tests.abuse.wide"], execution={"wide": how}, workers=1)
    async with harness_for(server.address, environment="wide") as harness:
        stream = await harness.open_stream()
        wide, neighbour = await harness.play(stream), await harness.play(stream)
        await neighbour.step()
        refused = await wide.ask(1, action="70000000")
        expect_error(refused, "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
        assert "70,000,000 bytes" in refused.error.message
        await neighbour.steps(3)


@pytest.mark.parametrize("how", ["inline", "process"])
async def test_an_info_that_no_message_carries_fails_its_command_alone(server_process, how):
    server = server_process(environments=["tests.abuse.wide"], execution={"wide": how}, workers=1)
    async with harness_for(server.address, environment="wide") as harness:
        stream = await harness.open_stream()
        wide, neighbour = await harness.play(stream), await harness.play(stream)
        refused = await wide.ask(1, action="-70000000")
        expect_error(refused, "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
        assert "an info of 70,000," in refused.error.message
        expect_error(await wide.ask(1, action="-70000000"), "ENVIRONMENT_CRASHED")
        await neighbour.steps(3)


async def test_a_reply_that_no_message_carries_is_not_sent(server_process):
    """One of 70 MB was once sent for ever, and the other episodes of its connection stood still."""
    async with client(server_process()) as connection:
        long, neighbour = await opened(connection, "long"), await opened(connection, "neighbour")
        with pytest.raises(CommandTooLong, match="a reply of 70,000,000 bytes"):
            await long.step_reply("x" * 70_000_000)
        assert "Step 1, " in (await neighbour.step("on")).text
        assert "Step 1, " in (await long.step("short")).text
        assert connection.reconnects == 0


async def test_a_journal_that_no_message_carries_is_rebuilt_in_parts(server_process):
    """One could once not be rebuilt, nor could anything else of its connection."""
    server = server_process()
    async with client(server, max_message_bytes=20 * MIB) as connection:
        long, neighbour = await opened(connection, "long"), await opened(connection, "neighbour")
        for _ in range(8):
            await long.step("x" * 4 * MIB)
        server.kill()
        server.start()
        assert "Step 1, " in (await neighbour.step("on")).text
        assert "Step 9, " in (await long.step("on")).text
        assert long.rebuilds == 1


async def test_an_answer_that_breaks_its_stream_is_given_up_alone(server_process, caplog):
    """A client that takes less than a server sends once reconnected for ever, without a word."""
    server = server_process(environments=["tests.abuse.wide"])
    async with client(server, max_message_bytes=MIB) as connection:
        names = ["wide", "neighbour", "another"]
        wide, *neighbours = [await opened(connection, name, environment="wide") for name in names]

        async def play(episode):
            for seq in range(1, 101):
                assert f"Step {seq}, " in (await episode.step("on")).text

        playing = [asyncio.create_task(play(neighbour)) for neighbour in neighbours]
        with pytest.raises(CommandGivenUp, match=r"seq 1 of episode wide .*'2000000'") as caught:
            await wide.step("2000000")
        wide.close()
        assert caught.value.reason == "BREAKS_STREAM"
        await asyncio.gather(*playing)
    assert [record.event for record in caplog.records].count("command given up") == 1
