"""Environments that wait for others: their operations go on side by side, in one process."""

import contextlib
from dataclasses import replace

import grpc.aio
import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import Violation, expect_error, expect_observation
from env_servers.sdk import Execution, InvalidOption
from tests.env_servers.server.conftest import harness_for
from tests.env_servers.server.meeting import Meeting
from tests.kit.servers import serving

MODULE = "tests.env_servers.server.meeting"


@contextlib.asynccontextmanager
async def meeting(how, settings=None, **limits):
    async with (
        serving(
            environments=(MODULE,),
            execution={"meeting": Execution(how)},
            workers=1,
            settings=settings or {},
            limits={"step_limit": 20, **limits},
        ) as server,
        harness_for(server.addresses[0], environment="meeting") as harness,
    ):
        yield server, harness


async def send(play, action):
    command = play.command(play.seq + 1, action=action)
    await play.stream.send(command)
    return play, command


async def take(play, command):
    event = expect_observation(await play.stream.answer(command), replayed=False)
    play.events.append(event)
    return event.observation


@pytest.mark.parametrize("how", ["process", "thread"])
async def test_one_episode_steps_while_another_one_waits_for_it(how):
    async with meeting(how) as (_, harness):
        plays = [await harness.play() for _ in range(4)]
        sent = [await send(play, "meet") for play in plays]
        assert [await take(*pair) for pair in sent] == ["Step 1, meet."] * 4
        advice = await plays[0].ask(consult=pb.Consult(advisor=pb.ADVISOR_EXPERT))
        assert advice.advice.action == "say 1"


async def test_a_fork_holds_the_state_of_when_it_was_asked_for():
    async with meeting("process") as (_, harness):
        play, other = await harness.play(), await harness.play()
        waiting = await send(play, "meet")
        await send(other, "meet")
        await take(*waiting)
        fork = pb.Command(episode_id="twin", seq=1, fork=pb.Fork(from_episode_id=play.episode_id))
        step = play.command(2, action="count")
        await play.stream.send(fork, step)
        expect_observation(await play.stream.answer(step))
        expect_observation(await play.stream.answer(fork))
        event = await play.stream.ask(pb.Command(episode_id="twin", seq=2, action="count"))
        assert event.observation == "Step 2, count."


async def test_a_step_that_waits_for_ever_ends_its_episode_and_the_others_are_rebuilt():
    async with meeting("process", step_limit=0.6) as (server, harness):
        culprit, *others = [await harness.play() for _ in range(3)]
        for play in others:
            await play.step("count")
        hung = await send(culprit, "hang")
        expect_error(await culprit.stream.answer(hung[1]), "ENVIRONMENT_HUNG", fault="ENVIRONMENT")
        for play in others:
            assert (await play.step("count")).observation == "Step 2, count."
        assert server.workers.deaths == 1


async def test_of_calls_that_go_on_together_only_the_one_that_ends_the_worker_twice_fails():
    async with meeting("process") as (server, harness):
        culprit, *others = [await harness.play() for _ in range(4)]
        waiting = [await send(play, "linger") for play in others]
        ended = await send(culprit, "exit")
        expect_error(await culprit.stream.answer(ended[1]), "ENVIRONMENT_CRASHED")
        assert [await take(*pair) for pair in waiting] == ["Step 1, linger."] * 3
        assert server.workers.deaths == 2


async def test_what_cannot_be_loaded_is_tried_once_for_each_opening(tmp_path):
    loads = tmp_path / "loads"
    async with meeting("process", {"meeting.loads": str(loads)}) as (_, harness):
        for tried in (2, 3):
            with pytest.raises(Violation, match="it was loaded already"):
                await harness.play()
            assert len(loads.read_text().splitlines()) == tried


async def test_inline_it_is_refused():
    with pytest.raises(InvalidOption, match="thread or process"):
        async with meeting("inline"):
            pass
    with pytest.raises(TypeError, match="thread or process"):
        type("Blocking", (Meeting,), {"spec": replace(Meeting.spec, execution=Execution.INLINE)})


@pytest.mark.parametrize("how", ["process", "thread"])
async def test_a_step_waits_for_a_picture_that_nobody_waits_for_any_more(how):
    async with meeting(how) as (_, harness):
        play = await harness.play()
        request = pb.RenderRequest(episode_id=play.episode_id)
        with pytest.raises(grpc.aio.AioRpcError, match="DEADLINE_EXCEEDED"):
            await harness.stub.Render(request, timeout=0.05)
        assert (await play.step("go")).observation == "Step 1, go."
        assert (await harness.stub.Render(request)).views[0].content == b"1"


async def test_a_picture_of_an_episode_whose_worker_died_is_of_the_rebuilt_one():
    async with meeting("process") as (_, harness):
        play, other = await harness.play(), await harness.play()
        await play.step("go")
        await other.ask(1, action="exit")
        picture = await harness.stub.Render(pb.RenderRequest(episode_id=play.episode_id))
        assert (picture.seq, picture.views[0].content) == (1, b"1")
        assert picture.state_hash == play.events[1].state_hash
