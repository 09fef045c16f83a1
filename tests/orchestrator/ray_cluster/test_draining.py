"""Nodes that drain: their workers end what they hold, their servers go with their last episode."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from orchestrator.fleet import FleetConfig
from orchestrator.ray_cluster.server import EnvironmentServer
from orchestrator.run import run
from orchestrator.store import RunReader
from tests.orchestrator.ray_cluster.local_host import LocalHost
from tests.orchestrator.ray_cluster.small_runs import (
    QUIET,
    allow,
    begin,
    config,
    gated,
    records,
    serving_maze,
)


def drain(cluster: LocalHost, number: int) -> None:
    cluster.alive[number] = replace(cluster.alive[number], draining=True)


def check_undisturbed(folder: Path) -> None:
    """Every episode was played once, and none was opened a second time."""
    assert len(records(folder)) == 24
    with RunReader.open(folder) as reader:
        assert {it.attempt for it in reader.summaries()} == {1}
        assert not list(reader.summaries(superseded=True))
    logs = [path.read_text() for path in folder.rglob("run.jsonl")]
    assert any("worker retires" in log for log in logs)
    assert not any("episode rebuilt" in log for log in logs)


async def test_a_worker_on_a_draining_node_ends_what_it_holds_and_gets_nothing_new(
    host, tmp_path
) -> None:
    cluster = host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(fleet, policies=gated(tmp_path), concurrency=4)
        playing = await begin(settings, folder)
        leaving, staying = (it.made for it in cluster.workers())
        while not (leaving._dispatcher.live and staying._dispatcher.live):
            allow(tmp_path, 4)
            await asyncio.sleep(0.1)
        drain(cluster, 0)
        while not cluster.workers()[0]._dead.done():
            allow(tmp_path, 500)
            await asyncio.sleep(0.1)
        # It went by itself, and nobody was hired in its place.
        assert leaving._scheduler.finished and leaving._task.done() and not leaving._problem
        assert len(cluster.workers()) == 2
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete
    check_undisturbed(folder)


async def test_a_server_on_a_draining_node_ends_with_its_last_episode(
    host, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")
    cluster = host()
    folder = tmp_path / "run"
    settings = config(FleetConfig(), policies=gated(tmp_path), concurrency=8)
    playing = await begin(settings, folder)
    workers = [it.made for it in cluster.workers()]
    while not all(it._dispatcher.live for it in workers):
        allow(tmp_path, 4)
        await asyncio.sleep(0.1)
    leaving = next(it.made for it in cluster.actors if isinstance(it.made, EnvironmentServer))
    process = leaving._server._process
    drain(cluster, 0)
    while process.returncode is None:
        allow(tmp_path, 500)
        await asyncio.sleep(0.1)
    (tmp_path / "open").touch()
    outcome = await playing
    assert outcome.complete and process.returncode == 0
    check_undisturbed(folder)


async def test_a_node_that_drains_before_its_server_is_up_is_left_at_once(
    host, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("AGENTGYM_TOKEN", "of-a-test")
    cluster = host()
    drain(cluster, 1)
    outcome = await run(
        config(FleetConfig(), episodes=2), tmp_path / "run", resume=False, console=QUIET
    )
    assert outcome.complete and len(cluster.workers()) == 1
    assert len(cluster.actors) == 2
