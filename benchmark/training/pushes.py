"""GRPO beside a model server, once for each way that the server is given new weights.

    python -m benchmark.training.pushes --out pushes.json           on SGLang
    python -m benchmark.training.pushes --engine embedded --pushes disk --device cpu --size tiny

Owns the server, which goes on from one training to the next, and the recipe: the maze with
SmolLM2 where it is made or can be made, else with random weights of a shape (which win nothing, so
that only speed is told). Invariant: a training that was done is not done again, and one that was
cut off goes on. Needs the extras of `training.grpo`, and an SGLang (`agent_runtime.serving`).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.models import resolve_model
from agent_runtime.serving import ServeConfig, serving
from agent_runtime.serving.machine import free_port
from orchestrator.atomic_file import write_atomically
from orchestrator.configuration import dump_toml

__all__ = ["PushOptions", "main"]

_MAKING_SECONDS = 120
_CONTEXT = 2048
_SHAPES: dict[str, dict[str, Any]] = {
    "150m": {"hidden_size": 768, "layers": 16, "heads": 12, "context": _CONTEXT},
    "tiny": {"hidden_size": 32, "layers": 2, "heads": 2, "context": _CONTEXT},
}
Push = Literal["disk", "tensors", "distributed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """Train beside a model server with each push."""

    out: Path
    """The report as JSON; it is replaced after each training."""
    folder: Path = Path("runs/pushes")
    """The trainings, the model where one is made, and the server's log."""
    pushes: tuple[Push, ...] = ("disk", "tensors", "distributed")
    engine: Literal["sglang", "embedded"] = "sglang"
    """What serves; the embedded engine takes checkpoints only."""
    size: Literal["smollm2", "150m", "tiny"] = "smollm2"
    """The model; smollm2 becomes 150m, of random weights, where it cannot be made."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    attention: Literal["auto", "packed", "sdpa"] = "auto"
    """As `model.attention`; packed needs torch 2.11 on a GPU."""
    steps: int = 3
    tasks: int = 16
    group: int = 8
    engine_options: tuple[str, ...] = ()
    """Of the server; default on SGLang: 0.4 of the GPU's memory, the rest is the learner's."""


def main() -> int:
    """Run the command; returns 0 where every training came to its end."""
    options = tyro.cli(PushOptions, description=__doc__)
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        results = asyncio.run(_measure(options))
    except AgentRuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if all(it["done"] for it in results.values()) else 1


async def _measure(options: PushOptions) -> dict[str, dict[str, Any]]:
    model, name = _model(options)
    memory = () if options.engine == "embedded" else ("--mem-fraction-static", "0.4")
    server = ServeConfig(
        engine=options.engine,
        device=options.device,
        context_length=_CONTEXT,
        port=_port(options.folder / "port"),
        log_dir=options.folder / "server",
        engine_options=options.engine_options or memory,
    )
    results: dict[str, dict[str, Any]] = {}
    async with serving(str(model), server) as served:
        for push in options.pushes:
            results[push] = await asyncio.to_thread(_train, options, model, served.address, push)
            report = {"model": name, "engine": options.engine, "results": results}
            write_atomically(options.out, json.dumps(report, indent=1) + "\n")
    return results


def _train(options: PushOptions, model: Path, address: str, push: Push) -> dict[str, Any]:
    run = options.folder / push
    path = options.folder / f"{push}.toml"
    path.write_text(dump_toml(_recipe(options, run, model, push)))
    command = [sys.executable, "-m", "training.grpo", str(path), "--rollout.url", address]
    command += ["--resume"] if (run / "recipe.json").is_file() else []
    began = time.monotonic()
    with (options.folder / f"{push}.log").open("w") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False)
    words = (options.folder / f"{push}.log").read_text(errors="replace").strip().splitlines()
    log = run / "log.jsonl"
    return {
        "done": done.returncode == 0,
        "seconds": round(time.monotonic() - began, 1),
        "memory": next((it for it in words if "GiB per device" in it), None),
        "steps": [json.loads(it) for it in log.read_text().splitlines()] if log.is_file() else [],
        "last_words": words[-8:] if done.returncode else [],
    }


def _recipe(options: PushOptions, run: Path, model: Path, push: Push) -> dict[str, Any]:
    # Random models know letters only: the maze's own prompts would be longer than their context.
    bare = {"conversation_start": ["maze", "OK"], "options": {"instructions": ""}}
    prompts = bare if options.folder in model.parents else {}
    return {
        "out": str(run),
        "steps": options.steps,
        "tasks": options.tasks,
        "group": options.group,
        "evaluate": False,
        "save_every": 1,
        "device": options.device,
        "model": {
            "path": str(model),
            "attention": options.attention,
            "activation_checkpointing": True,
        },
        "turn_curriculum": [{"from_step": 0, "rounds": 6}],
        "environments": [{"name": "maze", "explore": 200, "evaluate": 8, **prompts}],
        "rollout": {
            "engine": "sglang",
            "url": "http://127.0.0.1:1",
            "push": push,
            "max_new_tokens": 32,
            "concurrency": 128,
            "fleet": {"spawn": 1},
        },
        "tracking": {"tensorboard": False, "print_every": 0},
    }


def _port(kept: Path) -> int:
    """Return the server's port, the same in each call: a resumed training names its address."""
    if not kept.is_file():
        kept.write_text(str(free_port("127.0.0.1")))
    return int(kept.read_text())


def _model(options: PushOptions) -> tuple[Path, str]:
    """Return the model's folder, and what it is."""
    if options.size == "smollm2":
        command = [sys.executable, "-m", "agent_runtime.models", "smollm2"]
        try:
            subprocess.run(command, timeout=_MAKING_SECONDS, check=True)
            return Path(resolve_model("smollm2")), "smollm2"
        except (subprocess.SubprocessError, AgentRuntimeError) as error:
            print(f"SmolLM2 cannot be made here ({error}): random weights instead")
    shape = "150m" if options.size == "smollm2" else options.size
    folder = options.folder / shape
    if not (folder / "model" / "config.json").is_file():
        _make_random(_SHAPES[shape], folder)
    return folder / "model", f"random {shape}"


def _make_random(shape: dict[str, Any], folder: Path) -> None:
    from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
    from training.trainer.models import InitConfig, create_base

    train_tokenizer(["move up, down, left, right"], folder / "tok", TokenizerConfig(vocab_size=300))
    create_base(InitConfig(**shape), folder / "tok", folder / "model", seed=0)


if __name__ == "__main__":
    sys.exit(main())
