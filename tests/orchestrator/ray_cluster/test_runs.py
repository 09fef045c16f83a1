"""Runs on a cluster by everything but Ray: driver, leases, workers, shards."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import psutil
import pytest

from orchestrator import errors
from orchestrator.config import parse_policies
from orchestrator.fleet import FleetConfig
from orchestrator.ray_cluster.cluster import check_address
from orchestrator.ray_cluster.rations import Ration, Rations
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from orchestrator.run_limits import RunLimits
from orchestrator.store import RunReader
from tests.kit.servers import serving
from tests.orchestrator.ray_cluster.local_host import LocalHost
from tests.orchestrator.ray_cluster.small_runs import (
    QUIET,
    allow,
    begin,
    config,
    gated,
    records,
    serving_maze,
    shard_counts,
    until,
    until_stored,
)


async def test_a_run_on_two_workers_is_what_it_is_in_one_process(host, tmp_path) -> None:
    host()
    async with serving_maze() as fleet:
        shared = await run(config(fleet), tmp_path / "shared", resume=False, console=QUIET)
        alone = config(fleet, cluster=RayConfig())
        await run(alone, tmp_path / "alone", resume=False, console=QUIET)
    assert shared.complete and shared.finished == 48
    assert records(tmp_path / "shared") == records(tmp_path / "alone")
    counts = shard_counts(tmp_path / "shared")
    assert len(counts) == 2 and sum(counts) == 48


async def test_what_a_killed_worker_held_others_play_and_nothing_is_lost_or_doubled(
    host, tmp_path
) -> None:
    cluster = host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(fleet, policies=gated(tmp_path), concurrency=2)
        playing = await begin(settings, folder)
        await until_stored(folder, tmp_path, 2)
        assert not playing.done()
        cluster.workers()[0].kill()
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete and outcome.finished == 24
    assert len(cluster.workers()) == 3
    assert len(records(folder)) == 24 == sum(shard_counts(folder))


async def test_nodes_join_and_leave_while_a_run_goes_on(host, tmp_path) -> None:
    cluster = host(1)
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(fleet, policies=gated(tmp_path))
        playing = asyncio.create_task(run(settings, folder, resume=False, console=QUIET))
        await until(lambda: len(cluster.workers()) == 1, playing)
        cluster.alive.append(LocalHost.node(1))
        await until(lambda: len(cluster.workers()) == 2, playing)
        del cluster.alive[0]
        await until(lambda: cluster.workers()[0]._dead.done(), playing)
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete and len(records(folder)) == 24


async def test_a_run_that_no_node_is_left_for_ends_and_is_resumed(host, tmp_path) -> None:
    cluster = host(1)
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        impatient = replace(fleet, wait_for_servers=0.3)
        settings = config(impatient, policies=gated(tmp_path))
        playing = await begin(settings, folder, workers=1)
        cluster.alive.clear()
        with pytest.raises(errors.ClusterError, match=r"no node .* resume the run"):
            await playing
        (tmp_path / "open").touch()
        cluster.alive.append(LocalHost.node(1))
        outcome = await run(settings, folder, resume=True, console=QUIET)
    assert outcome.complete and len(records(folder)) == 24


async def test_a_limit_ends_a_run_and_a_resume_without_a_cluster_goes_on(host, tmp_path) -> None:
    host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        limits = RunLimits(time_limit=0.5, limit_grace=0.0)
        settings = config(fleet, policies=gated(tmp_path), limits=limits)
        outcome = await run(settings, folder, resume=False, console=QUIET)
        assert "--time-limit" in outcome.limit and not outcome.complete
        (tmp_path / "open").touch()
        alone = config(fleet, policies=settings.policies, cluster=RayConfig())
        outcome = await run(alone, folder, resume=True, console=QUIET)
    assert outcome.complete and len(records(folder)) == 24


async def test_failures_are_played_again_by_whoever_has_room(host, tmp_path) -> None:
    host()
    async with serving_maze() as fleet:
        once = parse_policies("tests.orchestrator.ray_cluster.failing:Once")
        settings = config(fleet, policies=once, samples=1)
        outcome = await run(settings, tmp_path / "run", resume=False, console=QUIET)
    assert outcome.complete and outcome.failed == 0
    with RunReader.open(tmp_path / "run") as reader:
        assert {it.attempt for it in reader.summaries()} == {2}
        assert len(list(reader.summaries(superseded=True))) == 12


async def test_servers_are_started_on_the_nodes_and_end_with_the_run(
    host, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")
    cluster = host()
    settings = config(FleetConfig(), episodes=4, policies=gated(tmp_path))
    playing = await begin(settings, tmp_path / "run")
    servers = [it.made for it in cluster.actors if it not in cluster.workers()]
    assert len(servers) == 2
    await until(lambda: all(it._server._process is not None for it in servers), playing)
    # Workers of one run need no places kept free for each other.
    assert all("--no-fair-shares" in psutil.Process(it._server.pid).cmdline() for it in servers)
    (tmp_path / "open").touch()
    outcome = await playing
    assert outcome.complete
    assert [it.made._welcome.node for it in cluster.workers()] == ["node-0", "node-1"]
    known = cluster.workers()[0].made._source.members
    assert {it.node for it in known} <= {"node-0", "node-1"} and known
    assert all(it._server._process.returncode is not None for it in servers)


def limits(episodes: int) -> dict[str, object]:
    """Of a server whose clients are all of one run."""
    return {"max_episodes": episodes, "fair_shares": False}


async def test_no_more_is_live_than_the_servers_of_the_moment_take(host, tmp_path) -> None:
    cluster = host()
    folder = tmp_path / "run"
    listed = tmp_path / "servers"
    async with (
        serving(environments=("maze",), execution={}, limits=limits(2)) as first,
        serving(environments=("maze",), execution={}, limits=limits(3)) as second,
    ):
        listed.write_text(first.addresses[0])
        settings = config(
            FleetConfig(servers_file=listed),
            policies=gated(tmp_path),
            cluster=RayConfig(address="local", ray_workers=1, ray_lease=8.0),
        )
        playing = await begin(settings, folder)

        def live() -> list[int]:
            workers = sum(it.made._dispatcher.live for it in cluster.workers())
            return [workers, len(first.table.episodes), len(second.table.episodes)]

        await until(lambda: live() == [2, 2, 0], playing)
        listed.write_text(f"{first.addresses[0]}\n{second.addresses[0]}\n")
        while live() != [5, 2, 3]:
            assert not playing.done()
            assert live()[0] <= 5
            allow(tmp_path, 1)  # workers are asked when something ends, or in seconds
            await asyncio.sleep(0.05)
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete and len(records(folder)) == 24


async def test_no_node_with_enough_room_is_an_error_that_says_what_lacks(host, tmp_path) -> None:
    host(1)
    settings = config(FleetConfig(), cluster=RayConfig(address="local", ray_workers=64))
    with pytest.raises(errors.UsageError, match=r"65 CPUs.* largest of 1 nodes has 2 CPUs"):
        await run(settings, tmp_path / "run", resume=False, console=QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001", "head:port"])
async def test_an_address_without_a_cluster_is_told_at_once(address) -> None:
    with pytest.raises(errors.UsageError, match=address):
        await check_address(address)


async def test_a_worker_that_has_played_all_that_it_holds_answers_at_once(
    host, tmp_path, monkeypatch
) -> None:
    host()
    asked = Rations.next

    def ask_rarely(self: Rations, worker: str, now: float) -> Ration:
        return replace(asked(self, worker, now), pause=600.0, patience=600.0)

    monkeypatch.setattr(Rations, "next", ask_rarely)
    async with serving_maze() as fleet, asyncio.timeout(60):
        outcome = await run(config(fleet), tmp_path / "run", resume=False, console=QUIET)
    assert outcome.complete
