"""Commands that meet each other: every one is answered, and nothing is left behind."""

import asyncio

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

ELSEWHERE = pytest.mark.parametrize(
    "how", ["thread", pytest.param("process", marks=pytest.mark.slow)]
)


def slow_rebuild(harness, entries=2, sleep_ms=200):
    """A reset that takes a while: its journal is slow to play."""
    command = harness.reset(sleep_ms=sleep_ms, length=0)
    command.seq = entries
    for number in range(entries):
        command.reset.journal.add().input.action = f"a{number}"
    return command


def nothing_is_left(server):
    assert not server.table.episodes
    assert not server.table.pending_opens
    assert server.table.admission.live.total() == 0


@ELSEWHERE
async def test_closing_an_episode_that_is_being_opened_ends_it(how):
    async with serving(how) as server, harness_for(server.addresses[0]) as harness:
        stream = await harness.open_stream()
        opening = slow_rebuild(harness)
        close = pb.Command(episode_id=opening.episode_id, seq=50, close=pb.Close())
        await stream.send(opening, close)
        assert (await stream.answer(close)).closed.found
        expect_error(await stream.answer(opening), "CANCELLED", retriable="true")
        await asyncio.gather(*server.handler.background.running, return_exceptions=True)
        nothing_is_left(server)


async def test_a_reset_on_the_loop_has_happened_when_the_next_command_is_read():
    async with serving("inline") as server, harness_for(server.addresses[0]) as harness:
        stream = await harness.open_stream()
        opening = harness.reset(length=3)
        step = pb.Command(episode_id=opening.episode_id, seq=1, action="a")
        await stream.send(opening, step)
        assert expect_observation(await stream.answer(opening)).seq == 0
        assert expect_observation(await stream.answer(step)).seq == 1
        assert not server.handler.background.running


@ELSEWHERE
async def test_cancelling_an_opening_lets_the_same_reset_join_it(how):
    async with serving(how) as server, harness_for(server.addresses[0]) as harness:
        stream = await harness.open_stream()
        opening = slow_rebuild(harness)
        cancel = pb.Command(episode_id=opening.episode_id, seq=2, cancel=pb.Cancel())
        await stream.send(opening, cancel)
        events = [await stream.answer(opening), await stream.answer(opening)]
        found = next(e for e in events if e.HasField("cancelled"))
        assert found.cancelled.found
        expect_error(next(e for e in events if e.HasField("error")), "CANCELLED")
        event = expect_observation(await stream.ask(opening))
        assert event.seq == 2


@ELSEWHERE
async def test_a_stream_lost_while_it_opens_an_episode_leaves_it_to_its_lease(how):
    async with serving(how) as server, harness_for(server.addresses[0]) as harness:
        stream = await harness.open_stream()
        opening = slow_rebuild(harness)
        beat = pb.Command(episode_id=opening.episode_id, seq=9, heartbeat=pb.Heartbeat())
        await stream.send(opening, beat)
        expect_error(await stream.answer(beat), "EPISODE_BUSY")
        await stream.drop()
        other = await harness.open_stream()
        expect_observation(await other.ask(opening))
        assert len(server.table.episodes) == 1


async def test_a_fork_asked_for_before_a_step_is_of_the_state_before_it():
    for how in ("inline", "thread", "process"):
        async with serving(how) as server, harness_for(server.addresses[0]) as harness:
            play = await harness.play(diverge=True, length=0)
            await play.steps(2)
            copy = pb.Command(episode_id=harness.fresh_id(), seq=2)
            copy.fork.from_episode_id = play.episode_id
            step = play.command(3, action="on")
            await play.stream.send(copy, step)
            event = expect_observation(await play.stream.answer(copy))
            assert event.state_hash == play.events[2].state_hash, how
            expect_observation(await play.stream.answer(step))
            copy.seq, copy.action = 3, "on"
            assert "Step 3, " in (await play.stream.ask(copy)).observation


@ELSEWHERE
async def test_a_fork_of_an_episode_that_is_closed_at_once_is_answered(how):
    async with serving(how) as server:
        async with harness_for(server.addresses[0]) as harness:
            play = await harness.play()
            copy = pb.Command(episode_id=harness.fresh_id(), seq=0)
            copy.fork.from_episode_id = play.episode_id
            close = play.command(50, close=pb.Close())
            await play.stream.send(copy, close)
            assert (await play.stream.answer(close)).closed.found
            event = await play.stream.answer(copy)
            assert event.HasField("observation") or event.HasField("error")
        nothing_is_left(server)


@ELSEWHERE
async def test_steps_consultations_and_forks_of_one_episode_never_overlap(how):
    async with serving(how, threads=8) as server, harness_for(server.addresses[0]) as harness:
        play = await harness.play(sleep_ms=20, length=0)
        for seq in range(1, 6):
            consult = play.command(seq - 1, consult=pb.Consult(advisor=pb.ADVISOR_EXPERT))
            copy = pb.Command(episode_id=harness.fresh_id(), seq=seq - 1)
            copy.fork.from_episode_id = play.episode_id
            await play.stream.send(consult, copy, play.command(seq, action=f"a{seq}"))
            answers = [
                await play.stream.answer(consult),
                await play.stream.answer(copy),
                await play.stream.answer(play.command(seq)),
            ]
            assert answers[0].advice.action == f"message {seq}"
            expect_observation(answers[1])
            assert f"Step {seq}, " in expect_observation(answers[2]).observation


async def test_the_reaper_spares_an_episode_whose_step_executes():
    async with serving("thread") as server, harness_for(server.addresses[0]) as harness:
        reset = harness.reset(sleep_ms=1500)
        reset.reset.lease_ms = 100
        stream = await harness.open_stream()
        expect_observation(await stream.ask(reset))
        step = pb.Command(episode_id=reset.episode_id, seq=1, action="slowly")
        beat = pb.Command(episode_id=reset.episode_id, seq=9, heartbeat=pb.Heartbeat())
        await stream.send(step, beat)
        await stream.answer(beat)
        await stream.drop()
        await asyncio.sleep(1.1)
        assert server.table.reap() == 0
        other = await harness.open_stream()
        expect_observation(await other.ask(step))


@pytest.mark.parametrize("how", ["inline", "thread", "process"])
async def test_nothing_grows_with_the_number_of_episodes_played(how):
    async with serving(how) as server:
        async with harness_for(server.addresses[0]) as harness:
            stream = await harness.open_stream()
            for _ in range(20):
                play = await harness.play(stream, length=1)
                await play.step()
                await play.ask(close=pb.Close())
            nothing_is_left(server)
            assert not server.handler.background.running
            server.table.admission.forget_absent(float("inf"))
            assert not server.table.admission._present
            budget = server.table.admission.budget
            assert (budget.journals, budget.results) == (0, 0)
            (stream,) = server.service.streams
            assert not stream.episodes
            assert not stream.tasks
            assert stream.in_flight == 0
        async with asyncio.timeout(5):
            while server.service.streams:
                await asyncio.sleep(0.01)


async def test_a_client_that_does_not_read_is_held_back():
    async with serving("thread") as server, harness_for(server.addresses[0]) as harness:
        play = await harness.play(observation_bytes=1_000_000, length=0)
        await play.step()
        call = harness.stub.Interact(metadata=())
        commands = [play.command(1, action=play.actions[0]) for _ in range(50)]
        sender = asyncio.create_task(send_for_ever(call, commands))
        await asyncio.sleep(1.0)
        (stream,) = [s for s in server.service.streams if s._writing]
        assert len(stream._full) <= 80
        sender.cancel()
        call.cancel()
        await play.must_be_at(1)


async def send_for_ever(call, commands):
    while True:
        await call.write(pb.InteractRequest(commands=commands))
