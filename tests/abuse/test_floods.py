"""One client cannot stop the others: messages and questions that ask for far too much."""

import asyncio
from pathlib import Path

import grpc
import pytest

from agentgym.env.v1 import environment_pb2 as pb
from tests.env_servers.server.conftest import harness_for

MIB = 1024 * 1024
_BOUND_SECONDS = 60.0


def resident(server) -> int:
    """Bytes of memory of a server's process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


async def interact(harness, message):
    """Send one message on a stream of its own and count the bytes of the answers."""

    async def requests():
        yield message
        await asyncio.Event().wait()

    call = harness.stub.Interact(requests())
    received = 0
    async for response in call:
        received += response.ByteSize()
        yield call, received, response


async def test_attaches_of_one_message_are_answered_bit_by_bit(server_process):
    """200 attaches to 16 MiB of results once made 3.2 GB of a message of 1.4 KiB."""
    server = server_process(environments=["textcraft"])
    async with harness_for(server.address, environment="textcraft") as harness:
        play = await harness.play()
        # TextCraft repeats what it cannot execute.
        for seq in range(1, 5):
            await play.ask(seq, action="x" * 3 * MIB)
        before = resident(server)
        attach = pb.Command(episode_id=play.episode_id, attach=pb.Attach(last_seq_seen=0))
        message = pb.InteractRequest(commands=[attach] * 200)
        async with asyncio.timeout(_BOUND_SECONDS):
            async for call, received, _ in interact(harness, message):
                if received > 64 * MIB:
                    # The client reads no more: what the server holds for it is bounded.
                    await asyncio.sleep(1)
                    assert resident(server) - before < 400 * MIB
                    call.cancel()
                    break


async def test_a_message_of_many_steps_lets_others_play(server_process):
    """3,000,000 steps in one message once locked everybody else out for 38 s."""
    server = server_process()
    async with (
        harness_for(server.address) as flooding,
        harness_for(server.address) as honest,
    ):
        play = await honest.play()
        # Refused one by one, which costs more than steps that are executed. The last command ends
        # the honest client's episode: while that lives, the message is not yet handled.
        refused = pb.Command(episode_id="nobody", seq=1, action="x")
        last = pb.Command(episode_id=play.episode_id, close=pb.Close())
        message = pb.InteractRequest(commands=[*[refused] * 200_000, last])
        async with asyncio.timeout(_BOUND_SECONDS):
            async for call, _, response in interact(flooding, message):
                if response.events[0].HasField("error"):
                    await play.steps(3)
                    call.cancel()
                    break


async def test_more_named_items_than_can_be_answered_are_refused(server_process):
    """60,000 ids once froze a server for minutes, also after the caller had given up."""
    server = server_process(environments=["maze"])
    async with harness_for(server.address, environment="maze") as harness:
        request = pb.ListTasksRequest(environment="maze", item_ids=["2999999"] * 60_000)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await harness.stub.ListTasks(request, timeout=_BOUND_SECONDS)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "1,000" in refused.value.details()


async def test_others_play_while_a_page_of_tasks_is_made(server_process):
    """A page of 10,000 tasks of Movie once kept every stream waiting for seconds."""
    server = server_process(environments=["movie", "echo"])
    async with (
        harness_for(server.address, environment="movie") as asking,
        harness_for(server.address, environment="echo") as playing,
    ):
        play = await playing.play()
        request = pb.ListTasksRequest(environment="movie", split="train", page_size=10_000)
        page = asyncio.ensure_future(asking.stub.ListTasks(request, timeout=_BOUND_SECONDS))
        await asyncio.sleep(0)
        answers = 0
        while not page.done():
            await play.ask(heartbeat=pb.Heartbeat())
            answers += 1
        assert len((await page).tasks) == 10_000
        assert answers > 20, "the page was made at one go"


async def test_requests_without_a_token_are_refused_unread(server_process, monkeypatch):
    """25 unary requests of 62 MiB without a token once took 1.8 GB before they were refused."""
    monkeypatch.setenv("AGENTGYM_TOKEN", "secret")
    server = server_process(security={"token": "secret"})
    options = [("grpc.max_send_message_length", 80 * MIB)]
    before = resident(server)
    request = pb.StepRequest(command=pb.Command(episode_id="e", seq=1, action="x" * 62 * MIB))
    peak = 0
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        step = channel.unary_unary(
            "/agentgym.env.v1.EnvironmentService/Step",
            request_serializer=pb.StepRequest.SerializeToString,
            response_deserializer=pb.StepResponse.FromString,
        )
        for _ in range(5):
            calls = [step(request, timeout=_BOUND_SECONDS) for _ in range(2)]
            for call in calls:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call
                assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            peak = max(peak, resident(server))
    assert peak - before < 60 * MIB
