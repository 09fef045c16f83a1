"""An inline environment that does not return stops neither its server nor its neighbours."""

import asyncio
import time
from pathlib import Path

import pytest

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agent_runtime.errors import EnvironmentFailure
from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from tests.abuse.stuck import STUCK
from tests.env_servers.server.conftest import harness_for

FOREVER = {"length": 0}


async def go_on(plays, steps=3):
    """Every play of echo takes so many steps, and each was applied once."""
    for _ in range(steps):
        for play in plays:
            assert f"Step {play.seq + 1}, " in (await play.step("on")).observation


async def test_an_inline_environment_that_hangs_is_moved_to_workers(server_process):
    """One step once stopped every episode of its server for a minute, as often as it was sent."""
    limits = {"inline_limit": 0.5, "step_limit": 3.0}
    server = server_process(environments=["echo", "maze"], workers=2, limits=limits)
    async with (
        harness_for(server.address, environment="echo") as echo,
        harness_for(server.address, environment="maze") as maze,
    ):
        neighbours, other = [await echo.play(**FOREVER) for _ in range(3)], await maze.play()
        await go_on(neighbours)
        await other.step()
        culprit = await echo.play(hang_at=2)
        await culprit.step("well")
        hang = culprit.command(2, action="hang")
        await culprit.stream.send(hang)
        await go_on(neighbours)
        await other.step()
        expect_error(await culprit.stream.answer(hang), "ENVIRONMENT_HUNG", fault="ENVIRONMENT")
        await go_on(neighbours)
        await go_on([await echo.play(**FOREVER)])
        await other.step()
    moved = "inline environment held everybody up, it runs in worker processes now"
    (line,) = [line for line in server.log.splitlines() if moved in line]
    assert "'environment': 'echo', 'item_id': 'echo_1000000'" in line


@pytest.mark.slow
async def test_a_step_that_is_only_slow_is_answered_by_a_worker(server_process):
    limits = {"inline_limit": 0.5, "step_limit": 60.0}
    server = server_process(workers=1, limits=limits)
    async with harness_for(server.address, timeout=60.0) as harness:
        neighbour = await harness.play(**FOREVER)
        slow = await harness.play(spin_ms=2000, **FOREVER)
        event = expect_observation(await slow.ask(1, action="slowly"), replayed=False)
        assert "Step 1, " in event.observation
        await go_on([neighbour])


@pytest.mark.slow
async def test_native_code_that_never_returns_costs_one_episode(server_process, tmp_path):
    """No thread and no signal of a server can run then: only another process can end it."""
    server = server_process(
        environments=["tests.abuse.stuck"],
        limits={"inline_limit": 0.5, "step_limit": 2.0},
        workers=2,
        stuck_file=str(tmp_path / "stuck"),
    )
    async with asyncio.timeout(90), Connection(server.address) as connection:

        async def opened(item_id):
            reset = pb.Reset(environment="tests.abuse.stuck", item_id=item_id)
            episode = RemoteEpisode(connection, item_id, reset, deterministic=True)
            await episode.reset()
            await episode.step("one")
            return episode

        culprit, neighbour = await opened(STUCK), await opened("echo_1010001")
        stuck = asyncio.create_task(culprit.step("two"))
        await asyncio.to_thread(server.wait)
        assert "an inline call cannot be interrupted" in server.log
        assert "stuck.py" in server.log, "the log does not show where it hung"
        server.start()
        assert "Step 2, " in (await neighbour.step("two")).text
        with pytest.raises(EnvironmentFailure) as caught:
            await stuck
        assert caught.value.reason == "ENVIRONMENT_HUNG"
        assert "Step 3, " in (await neighbour.step("three")).text


def test_the_watchdog_ends_with_a_server_that_is_killed_at_once(server_process):
    """It starts while its server may be gone already."""
    server = server_process()
    path = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
    (watchdog,) = Path(path).read_text().split()
    server.kill()
    deadline = time.monotonic() + 30
    while runs(watchdog):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
