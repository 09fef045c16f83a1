"""Trainings in processes of their own: killed ones, and several at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")
pytest.importorskip("transformers", reason="the extra `train` is not installed")

from agent_runtime.huggingface import HuggingFaceRenderer
from tests.agent_runtime import tiny_tokenizers
from tests.agent_runtime.tiny_models import save_model
from tests.training.makers import write_conversations, write_preferences, write_recipe
from training.runs.tracking import read_log

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def command(folder: Path, values: dict, algorithm: str = "bc") -> list[str]:
    """The training as a command over a recipe file."""
    path = folder / "recipe.toml"
    path.write_text("\n".join(_toml(values)))
    return ["-m", f"training.{algorithm}", str(path)]


def _toml(values: dict) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in values.items()]


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_toml(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


def run(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def losses(folder: Path) -> list[float]:
    return [row["loss"] for row in read_log(folder / "log.jsonl") if "loss" in row]


def test_a_killed_training_goes_on_to_the_same_curve(tmp_path: Path) -> None:
    data = write_conversations(tmp_path / "maze.jsonl")
    whole = write_recipe(tmp_path / "whole", data, epochs=40)
    killed = write_recipe(tmp_path / "killed", data, epochs=40)
    for values in (whole, killed):
        values["save"] = {"state_every": 7}
    run(command(tmp_path, whole))
    arguments = command(tmp_path, killed)
    process = subprocess.Popen([sys.executable, *arguments], env=ENVIRONMENT)
    deadline = time.monotonic() + 200
    while len(losses(tmp_path / "killed")) < 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 20 <= len(losses(tmp_path / "killed")) < 160
    run([*arguments, "--resume"])
    assert losses(tmp_path / "killed") == losses(tmp_path / "whole")
    finals = [tmp_path / name / "final/model.safetensors" for name in ("whole", "killed")]
    assert finals[0].read_bytes() == finals[1].read_bytes()


def test_two_sharded_processes_go_on_from_a_saved_state(tmp_path: Path) -> None:
    data = write_conversations(tmp_path / "maze.jsonl")
    values = write_recipe(tmp_path / "out", data, epochs=2)
    values["batch"]["micro_tokens"] = 256
    values["save"] = {"state_every": 3, "keep_states": 100}
    arguments = [*LAUNCH, *command(tmp_path, values)]
    run(arguments)
    curve = losses(tmp_path / "out")
    weights = (tmp_path / "out/final/model.safetensors").read_bytes()
    # As if it had been killed after its fifth step.
    (tmp_path / "out/report.json").unlink()
    for name in ("final", "state/step-00000008", "state/step-00000006"):
        shutil.rmtree(tmp_path / "out" / name)
    run([*arguments, "--resume"])
    assert losses(tmp_path / "out") == curve and len(curve) == 8
    assert (tmp_path / "out/final/model.safetensors").read_bytes() == weights


LEFT = """
import sys
from pathlib import Path
from training import bc

assert bc.main(sys.argv[1:]) == 0
threads = [it.read_text().strip() for it in Path("/proc/self/task").glob("*/comm")]
assert not [it for it in threads if "gloo" in it], threads
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_no_thread_of_the_group_outlives_a_training(tmp_path: Path) -> None:
    """One that does can abort the process at its exit, after all the work."""
    data = write_conversations(tmp_path / "maze.jsonl")
    script = tmp_path / "left.py"
    script.write_text(LEFT)
    arguments = command(tmp_path, write_recipe(tmp_path / "out", data, epochs=1))
    run([*LAUNCH, str(script), *arguments[2:]])


@pytest.mark.parametrize("lora", [False, True])
def test_two_sharded_processes_learn_what_one_learns(tmp_path: Path, lora: bool) -> None:
    data = write_conversations(tmp_path / "maze.jsonl")
    curves = []
    for world in (1, 2):
        values = write_recipe(tmp_path / f"world-{world}", data, epochs=1)
        values["batch"]["micro_tokens"] = 256
        values["data"]["held_out"] = 0.2
        if lora:
            values["model"]["lora"] = {"rank": 4}
        arguments = command(tmp_path, values)
        run([*LAUNCH, *arguments] if world > 1 else arguments)
        curves.append(losses(tmp_path / f"world-{world}"))
    assert curves[1] == pytest.approx(curves[0], abs=1e-5)
    reports = [json.loads((tmp_path / f"world-{it}/report.json").read_text()) for it in (1, 2)]
    assert reports[0]["held_out_loss"] == pytest.approx(reports[1]["held_out_loss"], abs=1e-5)


def test_two_sharded_processes_prefer_what_one_prefers(tmp_path: Path) -> None:
    model = tiny_tokenizers.chatml(save_model(tmp_path / "model", max_position_embeddings=1024))
    played = write_preferences(tmp_path / "run", HuggingFaceRenderer(model))
    curves = []
    for world in (1, 2):
        values = {
            "out": str(tmp_path / f"world-{world}"),
            "device": "cpu",
            "epochs": 1,
            "model": {"path": str(model)},
            "data": {"context": 256, "sources": [{"path": str(played)}]},
            # An odd number of micro-batches: one process has less to do than the other.
            "batch": {"sequences": 5, "packing": False},
            "optimizer": {"lr": 1e-3, "schedule": "constant", "warmup": 0.0},
            "tracking": {"tensorboard": False},
        }
        arguments = command(tmp_path, values, "dpo")
        run([*LAUNCH, *arguments] if world > 1 else arguments)
        curves.append(losses(tmp_path / f"world-{world}"))
    assert len(curves[0]) == 3
    assert curves[1] == pytest.approx(curves[0], abs=1e-4)


RECOMPUTED = """
import sys, torch
from torch.distributed.device_mesh import init_device_mesh
from training.trainer.distributed import DistributedContext
from training.trainer.models import ModelConfig, load_for_training

torch.compile = lambda forward: forward  # what is bound matters here, not what is compiled
torch.distributed.init_process_group(
    "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
)
mesh = init_device_mesh("cpu", (1,))
for dist in (
    DistributedContext(rank=0, world_size=1, device=torch.device("cpu")),
    DistributedContext(rank=0, world_size=1, device=torch.device("cpu"), mesh=mesh),
):
    for compiled in (False, True):
        config = ModelConfig(
            path=sys.argv[1], compile=compiled, activation_checkpointing=True, attention="sdpa"
        )
        model = load_for_training(sys.argv[1], config, dist)
        calls = 0
        def count(*_):
            global calls
            calls += 1
        for name, module in model.named_modules():
            if name.endswith("layers.0.mlp"):
                module.register_forward_pre_hook(count)
        ids = torch.arange(1, 9).unsqueeze(0)
        model(input_ids=ids, use_cache=False).logits.sum().backward()
        print(calls)
"""


def test_activations_are_recomputed_whether_sharded_and_compiled_or_not(tmp_path: Path) -> None:
    save_model(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", RECOMPUTED, str(tmp_path / "model")],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2"] * 4
