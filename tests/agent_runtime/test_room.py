"""Episodes wait for room on a server, and keep what they have while their agent thinks."""

import asyncio

from agent_runtime.channel import ConnectionOptions
from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from tests.kit.servers import serving


def episode(connection, name):
    reset = pb.Reset(environment="echo", item_id="echo_1000000")
    reset.options.update({"length": 0})
    return RemoteEpisode(connection, name, reset, deterministic=True)


async def test_an_episode_waits_until_another_has_ended():
    async with (
        asyncio.timeout(30),
        serving(limits={"max_episodes": 1}) as server,
        Connection(server.addresses[0]) as connection,
    ):
        first, second = episode(connection, "first"), episode(connection, "second")
        await first.reset()
        waiting = asyncio.ensure_future(second.reset())
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await first.step("still here")
        first.close()
        await waiting


async def test_an_episode_that_ended_for_anothers_share_is_rebuilt_when_there_is_room():
    async with (
        asyncio.timeout(30),
        serving(limits={"max_episodes": 2, "pressure_idle": 0.1}) as server,
        Connection(server.addresses[0]) as greedy,
        Connection(server.addresses[0]) as modest,
    ):
        hoard = [episode(greedy, "one"), episode(greedy, "two")]
        for each in hoard:
            await each.reset()
            await each.step("a")
        other = episode(modest, "other")
        await asyncio.sleep(0.2)
        await other.reset()
        evicted = hoard[0]
        stepping = asyncio.ensure_future(evicted.step("b"))
        await asyncio.sleep(0.3)
        assert not stepping.done()
        await other.step("mine")
        other.close()
        hoard[1].close()
        assert (await stepping).seq == 2
        assert evicted.rebuilds == 1
        assert server.table.evicted == 1


async def test_an_episode_whose_agent_thinks_for_long_is_kept_and_a_dropped_one_is_not():
    async with (
        asyncio.timeout(30),
        serving(limits={"idle_limit": 1.5}) as server,
        Connection(server.addresses[0], ConnectionOptions(heartbeat=0.3)) as connection,
    ):
        thinking, dropped = episode(connection, "thinking"), episode(connection, "dropped")
        await thinking.reset()
        await dropped.reset()
        del dropped
        while "dropped" in server.table.episodes:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        await thinking.step("at last")
        assert thinking.rebuilds == 0
