"""What task sets leave out when they are loaded is made before it is first needed, off the loop."""

import asyncio
import subprocess
import sys
import threading

import grpc.aio
import pytest

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import environment_pb2_grpc
from env_servers.sdk import Execution
from tests.env_servers.server import preparing
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

MODULE = "tests.env_servers.server.preparing"
ITEM = "echo_1000000"


@pytest.fixture(params=["inline", "thread"])
async def server(request):
    for event in (preparing.asked, preparing.allowed):
        event.clear()
    preparing.threads.clear()
    how = {"preparing": Execution(request.param)}
    async with serving(environments=("echo", MODULE), execution=how) as server:
        yield server
        preparing.allowed.set()


@pytest.fixture
async def stub(server):
    async with grpc.aio.insecure_channel(server.addresses[0]) as channel:
        yield environment_pb2_grpc.EnvironmentServiceStub(channel)


def reset(episode_id):
    opening = pb.Reset(environment="preparing", item_id=ITEM)
    return pb.ResetRequest(command=pb.Command(episode_id=episode_id, reset=opening))


async def test_whoever_needs_the_tasks_waits_and_the_others_play(server, stub):
    waiting = [
        asyncio.ensure_future(stub.GetEnvironment(pb.GetEnvironmentRequest(environment=it)))
        for it in ("preparing", "preparing")
    ]
    listing = pb.ListTasksRequest(environment="preparing", split="eval", page_size=3)
    waiting.append(asyncio.ensure_future(stub.ListTasks(listing)))
    waiting += [asyncio.ensure_future(stub.Reset(reset(f"e{number}"))) for number in range(3)]
    assert await asyncio.to_thread(preparing.asked.wait, 60)
    async with harness_for(server.addresses[0], environment="echo") as harness:
        await (await harness.play()).step()
    assert not any(call.done() for call in waiting)
    preparing.allowed.set()
    described, _, listed, *opened = await asyncio.gather(*waiting)
    assert [split.size for split in described.splits] == [10_000, 1_000]
    assert len(listed.tasks) == 3
    assert all(it.event.HasField("observation") for it in opened)
    assert len(preparing.threads) == 1
    assert preparing.threads[0] != threading.main_thread().name


async def test_a_preparation_that_fails_is_an_error_of_the_call_and_is_tried_again(server, stub):
    preparing.faults.append(RuntimeError("no memory for the index"))
    preparing.allowed.set()
    with pytest.raises(grpc.aio.AioRpcError, match="no memory for the index"):
        await stub.Reset(reset("first"))
    answered = await stub.Reset(reset("second"))
    assert answered.event.HasField("observation")


LOADED = """
import sys
from env_servers.environments.searchqa import embedded as encyclopedia
from env_servers.environments.webshop import embedded as shop
from env_servers.sdk import EnvironmentConfig
from env_servers.server.instance import LoadedEnvironment

loaded = [LoadedEnvironment(it, EnvironmentConfig()) for it in ("webshop", "searchqa", "mcp")]
made = (shop.load_embedded_shop, encyclopedia.load_embedded)
assert [it.cache_info().currsize for it in made] == [0, 0]
assert "mcp" not in sys.modules
for it in loaded:
    it.prepare()
assert [it.cache_info().currsize for it in made] == [1, 1]
"""


def test_loading_leaves_out_what_takes_long():
    subprocess.run([sys.executable, "-c", LOADED], check=True)
