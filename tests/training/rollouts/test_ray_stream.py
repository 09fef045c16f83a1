"""GRPO without a barrier on real Ray: raylets of this machine, and processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")
pytest.importorskip("accelerate", reason="the extra `train` is not installed")
pytest.importorskip("ray", reason="Ray is not installed (extra ray)")

from agent_runtime.serving.machine import free_port
from orchestrator.configuration import dump_toml
from orchestrator.ray_cluster.cluster import import_ray
from orchestrator.run_folder import is_written, shard_folder, shard_names
from orchestrator.training_folder import iterate_log
from tests.orchestrator.ray_cluster.small_runs import records, shard_counts
from tests.training.makers import forget_learning, train_speaker, write_echo_recipe
from training.config.recipe import build
from training.grpo import GRPORecipe
from training.rollouts.groups import TakenGroups

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.timeout(900)]

STEPS = 16


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_speaker(tmp_path_factory.mktemp("speaker"))


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two raylets of this machine, each with room for a worker and a server."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 otherwise: it would wait for other tests
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    import_ray()
    started = import_module("ray.cluster_utils").Cluster()
    for settings in ({"include_dashboard": False}, {}):
        started.add_node(num_cpus=2, **settings)
    yield started.address
    started.shutdown()


class Command:
    """A training on the cluster in a process of its own."""

    def __init__(self, recipe: GRPORecipe, folder: Path, *launcher: str) -> None:
        self.recipe = recipe
        self._launcher = launcher
        self.output = folder / "output"
        self._file = folder / f"{recipe.out.name}.toml"
        self._file.write_text(dump_toml(recipe))
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def stream(self) -> Path:
        return self.recipe.out / "rollouts" / "stream"

    @property
    def steps(self) -> list[tuple[int, ...]]:
        return TakenGroups(self.recipe.out / "rollouts" / "taken.jsonl").steps

    def start(self, *flags: str) -> None:
        command = [sys.executable, *self._launcher, "-m", "training.grpo", str(self._file), *flags]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def until(self, reached: Callable[[], bool]) -> None:
        assert self.process is not None
        while not reached():
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.1)

    def finish(self, *flags: str) -> None:
        self.start(*flags)
        assert self.process is not None
        assert self.process.wait(400) == 0, self.output.read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def workers(self) -> list[int]:
        """Process ids of those that record, as the locks of their shards say."""
        shards = [shard_folder(self.stream, it) for it in shard_names(self.stream)]
        locks = [it / "writer.lock" for it in shards if is_written(it)]
        return [json.loads(lock.read_text())["pid"] for lock in locks if lock.read_text()]

    def events(self) -> list[str]:
        rows = iterate_log(self.recipe.out / "logs" / "train.jsonl")
        return [row["event"] for row in rows]


@pytest.fixture
def engine(speaker: Path) -> Iterator[tuple[psutil.Popen, str]]:
    """A model server in a process of its own, so that it can be stopped, and its address."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "agent_runtime.serve", "--engine", "embedded"]
    command += ["--model", str(speaker), "--device", "cpu", "--context-length", "512"]
    command += ["--port", str(port), "--engine-options", "max-slots=64", "threads=1"]
    process = psutil.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    while not answers(f"{url}/health"):
        assert process.poll() is None
        time.sleep(0.1)
    yield process, url
    process.kill()
    process.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


@contextmanager
def held_up(engine: psutil.Popen) -> Iterator[None]:
    """Stop a model server meanwhile: no step can end, however long others take."""
    engine.suspend()
    try:
        yield
    finally:
        engine.resume()


def recipe_on(address: str, url: str, speaker: Path, out: Path, **changes: Any) -> GRPORecipe:
    cluster = {"address": address, "ray_workers": 1, "ray_servers": 1, "ray_lease": 10.0}
    rollout: dict[str, Any] = {"engine": "sglang", "url": url, "cluster": cluster}
    rollout |= {"max_new_tokens": 16, "concurrency": 8}
    values = write_echo_recipe(
        out,
        speaker,
        rollout=rollout,
        asynchronous=True,
        max_off_policy_steps=2,
        save_every=3,
        clip={"importance_cap": 2.0},
        **changes,
    )
    # Slow enough that not one worker plays all before the other has started.
    values["environments"][0]["options"]["sleep_ms"] = 100
    return build(GRPORecipe, values)


def check_steps(command: Command, steps: int) -> None:
    numbers = [number for step in command.steps for number in step]
    assert len(numbers) == len(set(numbers)) == steps * command.recipe.tasks
    rows = list(iterate_log(command.recipe.out / "log.jsonl"))
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    assert all(row["token_age_max"] <= 2 for row in rows)
    assert len(records(command.stream)) == sum(shard_counts(command.stream))


def test_two_processes_of_torchrun_learn_from_what_workers_tell_the_first(
    address: str, speaker: Path, engine: tuple[psutil.Popen, str], tmp_path: Path
) -> None:
    recipe = recipe_on(address, engine[1], speaker, tmp_path / "run", steps=4)
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    command = Command(recipe, tmp_path, *launcher)
    command.finish()
    check_steps(command, 4)


def test_a_killed_worker_and_a_killed_learner_lose_nothing_and_nothing_is_learned_from_twice(
    address: str, speaker: Path, engine: tuple[psutil.Popen, str], tmp_path: Path
) -> None:
    server, url = engine
    recipe = recipe_on(address, url, speaker, tmp_path / "run", steps=STEPS)
    command = Command(recipe, tmp_path)
    command.start()
    ledger = command.recipe.out / "rollouts" / "taken.jsonl"
    command.until(lambda: ledger.exists() and len(command.workers()) == 2 and bool(command.steps))
    with held_up(server):
        os.kill(command.workers()[0], signal.SIGKILL)
        command.until(lambda: "worker lost" in command.events())
        reached = len(command.steps)
    command.until(lambda: len(command.steps) > reached)
    command.kill()
    before = command.steps
    command.finish("--resume")
    assert command.steps[: len(before)] == before
    check_steps(command, STEPS)
    # What the ledger says, learned in one go from what workers recorded, makes the same weights.
    again = Command(forget_learning(command.recipe, tmp_path / "again"), tmp_path)
    again.finish("--resume")
    first, second = (
        (it.recipe.out / "final" / "model.safetensors").read_bytes() for it in (command, again)
    )
    assert first == second
