"""Environments that hang, crash, exit and diverge: one episode pays, the others go on."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from env_servers.server import processes
from tests.env_servers.server.conftest import harness_for
from tests.kit.servers import serving

FOREVER = {"length": 0}


async def go_on(plays, steps=3):
    """Every play takes so many steps, and each was applied once."""
    for _ in range(steps):
        for play in plays:
            event = await play.step()
            assert f"Step {play.seq}, " in event.observation


async def test_an_inline_hang_is_interrupted_and_other_episodes_go_on(server_process):
    server = server_process(limits={"step_limit": 0.4})
    async with harness_for(server.address) as harness:
        bystander = await harness.play(**FOREVER)
        for _ in range(2):
            culprit = await harness.play(hang_at=1)
            hung = await culprit.ask(1, action="hang")
            expect_error(hung, "ENVIRONMENT_HUNG", fault="ENVIRONMENT", retriable="false")
            await go_on([bystander])
        await bystander.ask(close=pb.Close())


@pytest.mark.parametrize("option", ["hang_sleep_at"])
async def test_a_thread_that_hangs_is_given_up_and_replaced(option):
    async with (
        serving("thread", limits={"step_limit": 0.3}, threads=2) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        bystander = await harness.play(**FOREVER)
        for count in range(1, 4):
            culprit = await harness.play(**{option: 1})
            expect_error(await culprit.ask(1, action="hang"), "ENVIRONMENT_HUNG")
            expect_error(await culprit.ask(1, action="hang"), "ENVIRONMENT_HUNG")
            consult = pb.Consult(advisor=pb.ADVISOR_EXPERT)
            expect_error(await culprit.ask(consult=consult), "ENVIRONMENT_HUNG")
            assert server.threads.abandoned == count
            await culprit.ask(close=pb.Close())
            await go_on([bystander])


async def test_closing_an_episode_that_hangs_still_frees_its_thread():
    async with (
        serving("thread", limits={"step_limit": 0.3}, threads=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        culprit = await harness.play(hang_sleep_at=1)
        step = culprit.command(1, action="hang")
        await culprit.stream.send(step, culprit.command(50, close=pb.Close()))
        expect_error(await culprit.stream.answer(step), "CANCELLED")
        await go_on([await harness.play(**FOREVER)])


@pytest.mark.parametrize(
    "option", ["hang_at", pytest.param("hang_sleep_at", marks=pytest.mark.slow)]
)
async def test_a_worker_that_hangs_is_killed_and_its_other_episodes_are_rebuilt(option):
    async with (
        serving("process", limits={"step_limit": 0.5}, workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        bystanders = [await harness.play(**FOREVER) for _ in range(3)]
        await go_on(bystanders, 2)
        culprit = await harness.play(**{option: 1})
        hang = culprit.command(1, action="hang")
        waiting = [play.command(play.seq + 1, action="wait") for play in bystanders]
        await culprit.stream.send(hang)
        for play, command in zip(bystanders, waiting, strict=True):
            await play.stream.send(command)
        expect_error(await culprit.stream.answer(hang), "ENVIRONMENT_HUNG", fault="ENVIRONMENT")
        for play, command in zip(bystanders, waiting, strict=True):
            event = expect_observation(await play.stream.answer(command), replayed=False)
            play.events.append(event)
            play.actions.append("wait")
        await go_on(bystanders)
        assert server.workers.deaths == 1


async def test_many_slow_steps_in_a_queue_are_no_hang():
    async with (
        serving("process", limits={"step_limit": 0.5}, workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        plays = [await harness.play(sleep_ms=100) for _ in range(12)]
        for play in plays:
            await play.stream.send(play.command(1, action="slowly"))
        for play in plays:
            expect_observation(await play.stream.answer(play.command(1)))
        assert server.workers.deaths == 0


async def test_an_environment_that_kills_its_worker_twice_fails_alone():
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        stream = await harness.open_stream()
        bystanders = [await harness.play(stream, **FOREVER) for _ in range(4)]
        await go_on(bystanders, 1)
        culprit = await harness.play(stream, exit_at=2)
        await culprit.step()
        first, *others = [play.command(play.seq + 1, action="x") for play in bystanders]
        killer = culprit.command(2, action="exit")
        # One message, so that answers of innocent calls are pending when the worker dies.
        await stream.send(first, killer, *others)
        expect_error(await stream.answer(killer), "ENVIRONMENT_CRASHED", fault="ENVIRONMENT")
        for command in (first, *others):
            event = expect_observation(await stream.answer(command))
            assert "Step 2, " in event.observation
        assert server.workers.deaths == 2


async def test_a_reset_that_kills_its_worker_fails_after_the_second_try():
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        bystander = await harness.play(**FOREVER)
        stream = await harness.open_stream()
        expect_error(await stream.ask(harness.reset(exit_at=0)), "ENVIRONMENT_CRASHED")
        assert server.table.admission.live["echo"] == 1
        await go_on([bystander])


async def test_a_killed_worker_loses_nothing():
    async with (
        serving("process", workers=2) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        stream = await harness.open_stream()
        plays = [await harness.play(stream, **FOREVER) for _ in range(6)]
        for deaths in range(1, 4):
            await go_on(plays, 2)
            pid = server.workers._workers[0].pid
            commands = [play.command(play.seq + 1, action="on") for play in plays]
            await stream.send(*commands)
            os.kill(pid, signal.SIGKILL)
            for play, command in zip(plays, commands, strict=True):
                event = expect_observation(await stream.answer(command))
                assert f"Step {play.seq + 1}, " in event.observation
                play.events.append(event)
                play.actions.append("on")
            # Answers that the worker gave before it died may be here before news of its death.
            async with asyncio.timeout(60):
                while server.workers.deaths < deaths:
                    await asyncio.sleep(0.01)
        assert server.workers.deaths == 3
        twin = await harness.play(stream, **FOREVER)
        for action in plays[0].actions:
            await twin.step(action)
        assert twin.events[-1].state_hash == plays[0].events[-1].state_hash


async def test_a_rebuild_that_diverges_fails_loudly():
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        other = await harness.play(diverge=True, length=0)
        await go_on([other], 1)
        play = await harness.play(diverge=True, length=0)
        await play.steps(2)
        os.kill(server.workers._workers[0].pid, signal.SIGKILL)
        diverged = await play.ask(3, action="more")
        expect_error(diverged, "REPLAY_DIVERGED", at_seq="0", fault="ENVIRONMENT")


async def test_workers_end_with_a_server_that_is_killed(server_process):
    server = server_process(execution={"echo": "process"}, workers=1)
    async with harness_for(server.address) as harness:
        culprit = await harness.play(hang_at=1)
        await culprit.stream.send(culprit.command(1, action="hang"))
        (worker,) = server.worker_pids()
        server.kill()
    async with asyncio.timeout(20):
        while is_running(worker):
            await asyncio.sleep(0.1)


def is_running(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_stopped_worker_without_a_step_is_replaced_and_nobody_is_blamed(monkeypatch):
    monkeypatch.setattr(processes, "_STALL_SECONDS", 0.5)
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        play = await harness.play(**FOREVER)
        await go_on([play])
        os.kill(server.workers._workers[0].pid, signal.SIGSTOP)
        await go_on([play])


async def test_killed_workers_leave_neither_zombies_nor_descriptors(server_process):
    server = server_process(execution={"echo": "process"}, workers=1)

    def descriptors():
        return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))

    async with harness_for(server.address) as harness, asyncio.timeout(60):
        play = await harness.play(**FOREVER)
        open_before = descriptors()
        for _ in range(5):
            (worker,) = server.worker_pids()
            os.kill(worker, signal.SIGKILL)
            while worker in server.worker_pids():
                await asyncio.sleep(0.02)
            await go_on([play], 1)
        assert len(server.worker_pids()) == 1
        assert descriptors() <= open_before + 1
