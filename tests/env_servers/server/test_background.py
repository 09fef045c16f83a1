"""Background tasks: one that dies ends the server; workers that cannot start are not hammered."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys

import pytest

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.conformance.verdicts import expect_error, expect_observation
from env_servers.server import processes
from env_servers.server.respawn import RespawnPolicy
from env_servers.server.upkeep import Upkeep
from tests.env_servers.server.conftest import harness_for
from tests.kit.data import REPOSITORY
from tests.kit.servers import serving


@pytest.fixture
def events(caplog):
    """What servers of this process have logged so far, as (event, fields)."""
    caplog.set_level(logging.INFO, "env_servers")

    def named(event):
        fields = [r.msg for r in caplog.records if isinstance(r.msg, dict)]
        return [entry for entry in fields if entry["event"] == event]

    return named


async def test_a_background_task_that_dies_ends_the_others_and_is_logged(events):
    others = asyncio.Event()

    async def dies():
        raise RuntimeError("out of luck")

    async def lives():
        try:
            await asyncio.Event().wait()
        finally:
            others.set()

    upkeep = Upkeep()
    upkeep.add("lives", lives())
    upkeep.add("dies", dies())
    upkeep.start()
    async with asyncio.timeout(10):
        await upkeep.failed.wait()
    assert others.is_set()
    (entry,) = events("background task died")
    assert entry["task"] == "dies"
    await upkeep.stop()


async def test_upkeep_that_is_stopped_has_not_failed():
    upkeep = Upkeep()
    upkeep.add("endless", asyncio.Event().wait())
    upkeep.start()
    await asyncio.sleep(0)
    await upkeep.stop()
    assert not upkeep.failed.is_set()


DYING_SERVER = """
import sys
from env_servers.server import table

def reap(self):
    raise RuntimeError("the reaper is broken")

table.EpisodeTable.reap = reap
from env_servers.__main__ import main
sys.exit(main(["serve", "echo", "--bind", "127.0.0.1:0", "--log-json"]))
"""


def test_a_server_whose_reaper_dies_ends_with_an_error_and_says_why():
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'gen'}"}
    ended = subprocess.run(
        [sys.executable, "-c", DYING_SERVER],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    (died,) = [line for line in lines if line["event"] == "background task died"]
    assert died["task"] == "lease reaper"
    assert died["level"] == "error"
    assert "the reaper is broken" in died["exception"]


async def test_workers_that_die_at_their_start_are_spaced_out_and_then_given_up(
    monkeypatch, events
):
    monkeypatch.setattr(processes, "_WORKER_COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        server.workers.respawn = RespawnPolicy(first_delay=0.01, max_failures=3, pause=60.0)
        stream = await harness.open_stream()
        error = await stream.ask(harness.reset())
        expect_error(error, "WORKER_LOST", fault="INFRASTRUCTURE")
        assert server.workers.deaths == 3
        assert [entry["failed_starts"] for entry in events("worker respawn delayed")] == [1, 2]
        (given_up,) = events("worker respawn given up")
        assert given_up["failed_starts"] == 3
        expect_error(await stream.ask(harness.reset()), "WORKER_LOST")
        assert server.workers.deaths == 3, "it was tried again before the pause was over"
        monkeypatch.undo()
        server.workers.respawn.next_start = 0.0  # the pause is over
        expect_observation(await stream.ask(harness.reset()))
        assert server.workers.respawn.failures == 0
    (died, *_) = events("worker died")
    assert died["exit_status"] == 3
    assert died["worker"] > 0


def test_starts_are_spaced_out_by_doubling_delays_until_the_pause():
    policy = RespawnPolicy(first_delay=1.0, max_delay=4.0, max_failures=5, pause=60.0)
    delays = []
    for _ in range(5):
        policy.record_failure(100.0)
        delays.append(policy.delay(100.0))
    assert delays == [1.0, 2.0, 4.0, 4.0, 60.0]
    assert policy.given_up
    assert policy.delay(160.0) == 0.0
    policy.record_success()
    assert not policy.given_up
    assert policy.delay(100.0) == 0.0


async def test_a_lost_worker_and_the_episodes_rebuilt_for_it_are_logged(events):
    async with (
        serving("process", workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        play = await harness.play(length=0)
        await play.steps(2)
        lost = server.workers._workers[0].pid
        os.kill(lost, signal.SIGKILL)
        await play.step()
        async with asyncio.timeout(10):
            while not events("worker died"):
                await asyncio.sleep(0.01)
    (died,) = events("worker died")
    assert (died["worker"], died["exit_status"]) == (lost, -signal.SIGKILL)
    (respawned,) = events("worker respawned")
    (rebuilt,) = events("episode rebuilt")
    assert rebuilt["episode_id"] == play.episode_id
    assert rebuilt["environment"] == "echo"
    assert (rebuilt["lost_worker"], rebuilt["worker"]) == (lost, respawned["worker"])
    assert rebuilt["seq"] == 2


async def test_a_hung_step_is_logged_with_its_episode_and_worker(events):
    async with (
        serving("process", limits={"step_limit": 0.5}, workers=1) as server,
        harness_for(server.addresses[0]) as harness,
    ):
        culprit = await harness.play(hang_at=1)
        worker = server.workers._workers[0].pid
        expect_error(await culprit.ask(1, action="hang"), "ENVIRONMENT_HUNG")
    (killed,) = events("worker killed for a hung step")
    assert (killed["episode_id"], killed["worker"]) == (culprit.episode_id, worker)
    (reclaimed,) = events("hung step reclaimed")
    assert (reclaimed["episode_id"], reclaimed["seq"]) == (culprit.episode_id, 1)


async def test_leases_streams_refusals_and_drains_are_logged(events):
    limits = {"max_episodes": 1, "idle_limit": 3600.0}
    async with serving(limits=limits, drain_seconds=0.1) as server:
        async with harness_for(server.addresses[0]) as harness:
            stream = await harness.open_stream()
            assert events("stream attached")
            reset = harness.reset(length=0)
            reset.reset.lease_ms = 1
            expect_observation(await stream.ask(reset))
            for _ in range(3):
                expect_error(await stream.ask(harness.reset()), "CAPACITY_EXHAUSTED")
            (refused,) = events("admission refused")
            assert (refused["live"], refused["capacity"]) == (1, 1)
            await stream.drop()
            async with asyncio.timeout(10):
                while not events("lease reaped"):
                    await asyncio.sleep(0.01)
                    server.table.reap()
            (reaped,) = events("lease reaped")
            assert reaped["episode_id"] == reset.episode_id
            assert events("stream lost")[0]["episodes"] == 1
        await server.drain()
        assert events("drain begun")
        assert events("drain ended")[0]["episodes_left"] == 0


async def test_an_episode_rebuilt_by_its_client_is_logged(events):
    async with serving() as server, harness_for(server.addresses[0]) as harness:
        command = harness.reset(length=0)
        command.seq = 1
        command.reset.journal.add().input.action = "on"
        expect_observation(await (await harness.open_stream()).ask(command))
        await harness.stub.Close(pb.CloseRequest(command=pb.Command(episode_id=command.episode_id)))
    (rebuilt,) = events("episode rebuilt from its client's journal")
    assert (rebuilt["episode_id"], rebuilt["seq"]) == (command.episode_id, 1)
