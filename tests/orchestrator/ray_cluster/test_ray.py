"""Runs on real Ray: raylets of this machine, and processes that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from orchestrator.config import RunConfig, parse_policies
from orchestrator.errors import ClusterError
from orchestrator.fleet import FleetConfig
from orchestrator.ray_cluster import cluster as ray_cluster
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from orchestrator.run_folder import shard_folder, shard_names
from orchestrator.store import RunReader
from tests.orchestrator.ray_cluster.small_runs import records, shard_counts

ray = pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def cluster():
    """Two raylets of this machine, which stand for two machines."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    started = Cluster()
    for settings in ({"include_dashboard": False}, {}):
        start_node(started, **settings)
    yield started
    started.shutdown()


def start_node(cluster, **settings):
    """Start a raylet; Ray gives up after 30 s, which a machine that others use may need."""
    for _ in range(3):
        try:
            return cluster.add_node(num_cpus=2, **settings)
        except Exception as error:  # noqa: BLE001 - Ray raises no other
            problem = error
    raise problem


def settings(cluster, **changes) -> RunConfig:
    values = {
        "environments": ("echo", "textcraft"),
        "policies": parse_policies("expert"),
        "split": "train",
        "episodes": 10,
        "samples": 2,
        "concurrency": 16,
        "cluster": RayConfig(address=cluster.address, ray_workers=1, ray_servers=1),
        **changes,
    }
    return RunConfig(**values)


def play(config: RunConfig, folder: Path):
    return asyncio.run(run(config, folder, resume=False, console=Console(quiet=True)))


def test_two_nodes_play_what_one_process_plays(cluster, tmp_path) -> None:
    outcome = play(settings(cluster), tmp_path / "shared")
    alone = replace(settings(cluster), cluster=RayConfig(), fleet=FleetConfig(spawn=1))
    play(alone, tmp_path / "alone")
    assert outcome.complete and outcome.finished == 40
    assert records(tmp_path / "shared") == records(tmp_path / "alone")
    assert sum(shard_counts(tmp_path / "shared")) == 40


def played(folder: Path) -> dict[tuple[str, int], list[tuple[str, bytes]]]:
    """Observations and state hashes of each episode, by its task and sample."""
    with RunReader.open(folder) as reader:
        assert reader.verify() == []
        return {
            (it.item_id, it.sample): [
                *((message.text, b"") for message in it.messages),
                *(("", step.state_hash) for step in it.steps),
            ]
            for it in reader.episodes()
        }


class Command:
    """A run on the cluster in a process of its own, held up by a gate."""

    def __init__(self, cluster, tmp_path: Path) -> None:
        self.gate = tmp_path
        self.folder = tmp_path / "run"
        self.log = tmp_path / "output"
        (self.gate / "words").write_bytes(b"")
        self._arguments = [
            *("--env", "textcraft", "--split", "train", "--episodes", "20"),
            *("--policy", f"tests.orchestrator.gated_policy:Gated:{tmp_path}"),
            *("--concurrency", "4"),
        ]
        self._on_cluster = [
            *("--ray", cluster.address, "--ray-lease", "10"),
            *("--ray-workers", "1", "--ray-servers", "1"),
        ]

    def start(self, *arguments: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "orchestrator.sample", *arguments]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, cwd=REPOSITORY, start_new_session=True
            )

    def begin(self) -> subprocess.Popen:
        """Start the run and let it play until two workers at least have recorded some."""
        process = self.start("--out", str(self.folder), *self._arguments, *self._on_cluster)
        while not (self._counts and sorted(self._counts)[-2] >= 1 and sum(self._counts) >= 3):
            assert process.poll() is None, self.log.read_text()
            if self._counts:
                with (self.gate / "words").open("ab") as words:
                    words.write(b"." * 20)
            time.sleep(0.2)
        assert process.poll() is None, self.log.read_text()
        return process

    @property
    def _counts(self) -> list[int]:
        """Records of each worker, once there are two."""
        counts = shard_counts(self.folder) if self.folder.exists() else []
        return counts if len(counts) >= 2 else []

    def open_gate(self) -> None:
        (self.gate / "open").touch()

    def check_like_a_calm_run(self) -> None:
        """Play the same in one process, where nothing dies: every transcript is the same."""
        self.open_gate()
        calm = self.folder.with_name("calm")
        process = self.start("--out", str(calm), *self._arguments, "--spawn", "1")
        assert process.wait(300) == 0, self.log.read_text()
        assert played(self.folder) == played(calm)

    def workers(self) -> list[int]:
        """Process ids of the workers, as the locks of their shards say."""
        locks = (shard_folder(self.folder, it) / "writer.lock" for it in shard_names(self.folder))
        return [json.loads(lock.read_text())["pid"] for lock in locks if lock.read_text()]


def test_a_killed_worker_and_a_killed_driver_lose_nothing_and_double_nothing(
    cluster, tmp_path
) -> None:
    command = Command(cluster, tmp_path)
    process = command.begin()
    os.kill(command.workers()[0], signal.SIGKILL)
    while "is lost with" not in command.log.read_text():
        assert process.poll() is None, command.log.read_text()
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = records(command.folder)
    command.open_gate()
    process = command.start("--resume", str(command.folder))
    assert process.wait(300) == 0, command.log.read_text()
    after = records(command.folder)
    assert len(after) == 20 == sum(shard_counts(command.folder))
    assert before.items() <= after.items()
    with RunReader.open(command.folder) as reader:
        assert len(reader.manifest.sessions) == 2
    command.check_like_a_calm_run()


def servers() -> list[psutil.Process]:
    """The environment servers of this test's raylets."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "env_servers serve" in " ".join(process.cmdline()):
                found.append(process)
    return found


def test_a_killed_server_is_started_again_and_its_episodes_are_rebuilt(cluster, tmp_path) -> None:
    command = Command(cluster, tmp_path)
    process = command.begin()
    victim = servers()[0]
    flags = victim.cmdline()
    victim.kill()
    # One with its flags, its address among them, takes its place.
    while flags not in [it.cmdline() for it in servers() if it != victim and it.is_running()]:
        assert process.poll() is None, command.log.read_text()
        time.sleep(0.2)
    command.open_gate()
    assert process.wait(300) == 0, command.log.read_text()
    assert len(records(command.folder)) == 20 == sum(shard_counts(command.folder))
    logs = [path.read_text() for path in command.folder.rglob("run.jsonl")]
    assert any("episode rebuilt" in log for log in logs)
    command.check_like_a_calm_run()


def test_a_worker_that_is_stopped_is_fenced_and_writes_nothing_when_it_goes_on(
    cluster, tmp_path
) -> None:
    command = Command(cluster, tmp_path)
    process = command.begin()
    stopped = psutil.Process(command.workers()[0])
    stopped.suspend()
    try:
        command.open_gate()
        assert process.wait(300) == 0, command.log.read_text()
        assert "it is silent" in command.log.read_text()
        before = records(command.folder)
        assert len(before) == 20
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):  # Ray may have ended it
            stopped.resume()
    with contextlib.suppress(psutil.NoSuchProcess):
        stopped.wait(60)
    assert records(command.folder) == before
    command.check_like_a_calm_run()


def test_a_node_that_dies_takes_no_episode_with_it(cluster, tmp_path) -> None:
    node = start_node(cluster)
    command = Command(cluster, tmp_path)
    process = command.begin()
    cluster.remove_node(node, allow_graceful=False)
    command.open_gate()
    assert process.wait(300) == 0, command.log.read_text()
    assert len(records(command.folder)) == 20
    cluster.wait_for_nodes()  # until the head misses it: runs of other tests would count on it


def test_a_node_that_is_drained_goes_by_itself_and_no_episode_is_rebuilt(cluster, tmp_path) -> None:
    node = start_node(cluster)
    command = Command(cluster, tmp_path)
    process = command.begin()
    while len(shard_names(command.folder)) < 3:
        assert process.poll() is None, command.log.read_text()
        time.sleep(0.2)
    drain(cluster, node)
    while "worker leaves" not in (command.folder / "logs" / "run.jsonl").read_text():
        assert process.poll() is None, command.log.read_text()
        with (command.gate / "words").open("ab") as words:
            words.write(b"." * 20)
        time.sleep(0.2)
    command.open_gate()
    assert process.wait(300) == 0, command.log.read_text()
    assert len(records(command.folder)) == 20
    assert "drains" in command.log.read_text() and "is lost" not in command.log.read_text()
    logs = [path.read_text() for path in command.folder.rglob("run.jsonl")]
    assert not any("episode rebuilt" in log for log in logs)
    # Ray ends a node that drains when nothing runs there any more.
    node.all_processes["raylet"][0].process.wait(60)


def drain(cluster, node) -> None:
    """Do what `ray drain-node` does."""
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, problem = GcsClient(address=cluster.address).drain_node(
        node.node_id, reason, "a test", 0
    )
    assert accepted, problem


def test_a_head_that_is_gone_is_noticed_before_ray_ends_the_process(monkeypatch) -> None:
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_cluster, "_HEAD_SECONDS", 1.0)
    alone = Cluster()
    start_node(alone, include_dashboard=False)

    async def lose_head() -> None:
        async with ray_cluster.open_cluster(RayConfig(address=alone.address)) as host:
            assert len(await host.nodes()) == 1
            alone.head_node.kill_gcs_server(check_alive=False)
            with pytest.raises(ClusterError, match="resume the run"):
                await host.nodes()

    try:
        asyncio.run(lose_head())
    finally:
        alone.shutdown()


def test_a_run_that_loses_its_head_ends_with_1_and_is_resumed_without_a_cluster(tmp_path) -> None:
    from ray.cluster_utils import Cluster

    alone = Cluster()
    try:
        for settings in ({"include_dashboard": False}, {}):
            start_node(alone, **settings)
        command = Command(alone, tmp_path)
        process = command.begin()
        alone.head_node.kill_gcs_server(check_alive=False)
        assert process.wait(120) == 1, command.log.read_text()
    finally:
        alone.shutdown()
    told = command.log.read_text()
    assert "the head of the Ray cluster does not answer" in told and "resume the run" in told
    kept = records(command.folder)
    assert kept
    command.open_gate()
    process = command.start("--resume", str(command.folder), "--ray", "")
    assert process.wait(300) == 0, command.log.read_text()
    assert len(records(command.folder)) == 20
    assert kept.items() <= records(command.folder).items()
