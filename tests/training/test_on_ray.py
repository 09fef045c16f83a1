"""Trainings that Ray Train starts: by what torchrun would tell their processes, on two raylets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from orchestrator.configuration import dump_toml
from orchestrator.errors import UsageError
from orchestrator.ray_cluster import cluster as ray_cluster
from tests.training.makers import write_conversations, write_recipe
from training import on_ray
from training.on_ray import OnRay, check_room, main
from training.ray_process import Order, run

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say what to start"),
        (["--", "training.ship", "r.toml"], "is not one training of several processes (valid: "),
        (["--", "training.agentevol", "r.toml"], "as many processes as cloning.processes says"),
        (["--ray", "127.0.0.1:1", "--", "training.bc", "r.toml"], "no Ray cluster answers at"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_sentence(words, told, capsys, monkeypatch) -> None:
    monkeypatch.setattr(on_ray, "import_ray", object)
    monkeypatch.setattr(on_ray, "_import_train", object)
    assert main(words) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_without_ray_the_extra_is_named(capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["--", "training.bc", "r.toml"]) == 1
    assert "[ray]" in capsys.readouterr().err
    monkeypatch.setattr(on_ray, "import_ray", object)
    monkeypatch.setitem(sys.modules, "ray.train.torch", None)
    assert main(["--", "training.bc", "r.toml"]) == 1
    assert "[ray-train]" in capsys.readouterr().err


def test_each_process_needs_a_node_that_has_all_it_wants() -> None:
    nodes = [{"CPU": 8.0, "GPU": 1.0}, {"CPU": 1.0, "GPU": 4.0}, {"CPU": 16.0}]
    check_room(OnRay(workers=2, gpus=1), nodes)
    check_room(OnRay(workers=25), nodes)
    with pytest.raises(UsageError, match=r"room for 2: .* 8 CPUs, 1 GPUs; 1 CPUs, 4 GPUs; 16 CPUs"):
        check_room(OnRay(workers=3, gpus=1), nodes)


class Context:
    """Of the second of two workers, as Ray Train tells it."""

    def get_world_rank(self) -> int:
        return 1

    def get_world_size(self) -> int:
        return 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"versions": {"torch": "0.1"}}, r"process 1 of 2 on .*: has torch .*, not 0\.1: install"),
        ({"folder": "/nowhere"}, "does not see /nowhere: recipe, data and output"),
    ],
)
def test_a_node_that_would_do_something_else_is_named(changes, told, monkeypatch) -> None:
    values: dict[str, Any] = {"module": "training.bc", "arguments": (), "folder": "/"}
    order = Order(**{**values, "versions": {}, **changes})
    train = type("Train", (), {"get_context": Context})
    monkeypatch.setattr("training.ray_process.import_module", lambda _name: train)
    with pytest.raises(RuntimeError, match=told):
        run(order)


# Real Ray ----------------------------------------------------------------------


@pytest.fixture
def cluster(monkeypatch) -> Iterator[Any]:
    """Two raylets of this machine, each with room for one process."""
    utils = pytest.importorskip("ray.cluster_utils", reason="the extra `ray-train` is missing")
    pytest.importorskip("pandas", reason="the extra `ray-train` is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # 15 otherwise: it would wait for other tests
    ray_cluster.import_ray()
    started = utils.Cluster()
    for settings in ({"include_dashboard": False}, {}):
        started.add_node(num_cpus=1, **settings)
    yield started
    started.shutdown()


def processes_of(recipe: Path) -> list[psutil.Process]:
    """Those that learn by a recipe on the cluster."""
    return [
        it
        for it in psutil.process_iter(["cmdline"])
        if "training.ray_process" in (words := it.info["cmdline"] or ()) and str(recipe) in words
    ]


def kill_one(recipe: Path, state: Path) -> None:
    """Kill one of them when the training has saved something."""
    while not state.exists():
        time.sleep(0.05)
    processes_of(recipe)[0].send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_ray_teaches_what_torchrun_teaches_also_after_a_process_was_killed(
    cluster, tmp_path: Path, capfd
) -> None:
    data = write_conversations(tmp_path / "maze.jsonl")
    recipes: dict[str, Path] = {}
    for name in ("torchrun", "ray"):
        recipes[name] = tmp_path / f"{name}.toml"
        recipes[name].write_text(dump_toml(write_recipe(tmp_path / name, data, epochs=12)))

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "-m", "training.bc", str(recipes["torchrun"])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, timeout=240)

    start = ["--ray", cluster.address, "--workers", "2", "--", "training.bc", str(recipes["ray"])]
    first_state = tmp_path / "ray/state/step-00000004"
    killer = threading.Thread(target=kill_one, args=(recipes["ray"], first_state), daemon=True)
    killer.start()
    assert main(start) == 1
    assert "of 2 on" in (told := " ".join(capfd.readouterr().err.split())) and "--resume" in told
    killer.join()
    assert processes_of(recipes["ray"]) == []
    assert not (tmp_path / "ray/final").exists()

    assert main([*start, "--resume"]) == 0
    one, other = (tmp_path / name / "final/model.safetensors" for name in recipes)
    assert one.read_bytes() == other.read_bytes()
