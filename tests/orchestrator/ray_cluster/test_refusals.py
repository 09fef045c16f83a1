"""What a run on a cluster refuses, and how it ends where it cannot go on: without Ray."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orchestrator import errors
from orchestrator.fleet import FleetConfig
from orchestrator.manifest import begin_session
from orchestrator.ray_cluster import cluster, servers, worker
from orchestrator.ray_cluster.installation import (
    EXTRAS,
    describe_differences,
    installed_versions,
)
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from tests.kit.data import REPOSITORY
from tests.orchestrator.ray_cluster.small_runs import (
    QUIET,
    allow,
    begin,
    config,
    gated,
    records,
    serving_maze,
    shard_counts,
)


@pytest.mark.parametrize("resume", [False, True])
async def test_a_second_driver_is_refused_at_once_and_told_who_writes(
    host, tmp_path, resume
) -> None:
    nodes = host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(fleet, policies=gated(tmp_path))
        playing = await begin(settings, folder)
        before = list(nodes.actors)
        with pytest.raises(errors.RunLocked, match=f"process {os.getpid()} on") as caught:
            await run(settings, folder, resume=resume, console=QUIET)
        assert caught.value.exit_code == 1
        assert nodes.actors == before  # nothing was started for it
        (tmp_path / "open").touch()
        outcome = await playing
    assert outcome.complete and len(records(folder)) == 24


async def test_a_run_that_has_ended_is_not_begun_again(host, tmp_path) -> None:
    nodes = host()
    folder = tmp_path / "run"
    async with serving_maze() as fleet:
        settings = config(fleet, episodes=2)
        await run(settings, folder, resume=False, console=QUIET)
        before = list(nodes.actors)
        with pytest.raises(errors.RunExists, match="resume it"):
            await run(settings, folder, resume=False, console=QUIET)
        assert nodes.actors == before


async def test_a_lost_head_ends_the_run_with_what_it_has_and_a_resume_goes_on(
    host, tmp_path
) -> None:
    nodes = host()
    folder = tmp_path / "run"

    async def lost() -> None:
        raise errors.ClusterError("the head does not answer: resume the run")

    async with serving_maze() as fleet:
        settings = config(fleet, policies=gated(tmp_path), concurrency=2)
        playing = await begin(settings, folder)
        while sum(shard_counts(folder)) < 2:
            allow(tmp_path, 20)
            await asyncio.sleep(0.1)
        well, nodes.nodes = nodes.nodes, lost
        with pytest.raises(errors.ClusterError, match="resume the run") as caught:
            await playing
        assert caught.value.exit_code == 1
        kept = records(folder)
        assert len(kept) >= 2
        nodes.nodes = well
        (tmp_path / "open").touch()
        outcome = await run(settings, folder, resume=True, console=QUIET)
    assert outcome.complete and len(records(folder)) == 24
    assert kept.items() <= records(folder).items()


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"this package": "0ther"}, r"node old has this package 0ther, not \w+"),
        ({"Python": "3.9.1"}, r"node old has Python 3.9.1, not 3\.\d+"),
        (
            {"grpcio": "1.2.3", "orjson": "0.1"},
            r"node old has grpcio 1.2.3, not [\d.]+, orjson 0.1, not [\d.]+",
        ),
    ],
)
async def test_a_node_with_another_python_code_or_library_is_named(
    host, tmp_path, monkeypatch, other, named
) -> None:
    host()

    def begin(fields):
        session = begin_session(fields)
        return replace(session, machine={**session.machine, "host": "old"})

    monkeypatch.setattr(worker, "begin_session", begin)
    monkeypatch.setattr(worker, "installed_versions", lambda it: installed_versions(it) | other)
    async with serving_maze() as fleet:
        with pytest.raises(errors.UsageError, match=named) as caught:
            await run(config(fleet), tmp_path / "run", resume=False, console=QUIET)
    assert caught.value.exit_code == 2
    assert "install the same on every node" in str(caught.value)


def test_a_library_that_only_one_node_has_is_no_difference() -> None:
    here = {"Python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"}
    there = {"Python": "3.11.7", "minigrid": "3.2.0", "numpy": "2.4.6"}
    assert describe_differences(there, here) == "" == describe_differences(here, there)
    told = describe_differences(there | {"numpy": "1.26.0"}, here)
    assert told == "numpy 1.26.0, not 2.4.6"


def test_all_libraries_of_environments_and_policies_are_compared() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert extras.keys() >= EXTRAS
    (whole,) = extras["all"]
    environments = whole.partition("[")[2].rstrip("]").split(",")
    assert set(environments) <= EXTRAS
    known = installed_versions("code")
    assert known["this package"] == "code"
    assert {"grpcio", "protobuf"} <= known.keys()
    assert known.keys().isdisjoint({"pytest", "ruff", "ray"})


async def test_what_lacks_is_told_for_each_environment(host, tmp_path) -> None:
    host()
    settings = config(
        FleetConfig(),
        environments=("maze", "sciworld", "webarena"),
        cluster=RayConfig(address="local", ray_workers=1, ray_servers=2),
    )
    with pytest.raises(errors.UsageError) as caught:
        await run(settings, tmp_path / "run", resume=False, console=QUIET)
    told = str(caught.value)
    assert "reserve 5 CPUs and 12.0 GiB of memory" in told
    assert "each server 2.0 GiB of memory for sciworld and 1 CPU and 4.0 GiB of memory" in told
    assert "lacks 3 CPUs and 4.0 GiB of memory" in told
    assert not (tmp_path / "run").exists()


class _Pending:
    """An actor that Ray has no room for."""

    async def call(self, method: str, *arguments: object) -> object:
        return await asyncio.Event().wait()

    def kill(self) -> None:
        pass


async def test_servers_that_others_leave_no_room_for_are_an_error(
    host, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(servers, "_END_SECONDS", 0.1)
    nodes = host()
    nodes.start = lambda *_, **__: _Pending()
    settings = config(FleetConfig(wait_for_servers=0.2))
    with pytest.raises(errors.FleetError, match=r"within 0.2 s: `ray status` .* 1 CPU$"):
        await run(settings, tmp_path / "run", resume=False, console=QUIET)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ConnectionError("no running instance"), "no Ray cluster answers at 'auto' .*ray start"),
        (RuntimeError("Version mismatch: Ray 2.50"), "at 'auto' cannot be used: Version mismatch"),
    ],
)
async def test_what_ray_says_of_a_cluster_that_it_cannot_join_is_passed_on(
    monkeypatch, raised, told
) -> None:
    def init(**_settings: object) -> None:
        raise raised

    module = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(cluster, "import_ray", lambda: module)
    with pytest.raises(errors.UsageError, match=told):
        async with cluster.open_cluster(RayConfig(address="auto")):
            pass


async def test_without_ray_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(errors.ExtraMissing, match="ray"):
        async with cluster.open_cluster(RayConfig(address="auto")):
            pass
