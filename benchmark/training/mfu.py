"""Behavioural cloning's speed on one device: tokens per second and share of the peak (MFU).

    python -m benchmark.training.mfu --out mfu.json              a 1B-class Llama, a few minutes
    python -m benchmark.training.mfu --size tiny --device cpu    a check that it runs, seconds

Owns a synthetic corpus (random ids, lengths as of agent conversations, packed to full context) and
the stop-watch. What is timed is what `training.bc` does in a step: collate, forward, backward,
clip, AdamW; weights are random, which does not change the work. MFU counts what the model needs
once: attention within each sequence only, its head only where there are targets, no padding.

Each variant is measured in a process of its own, so that one that does not run leaves the others.
"""

# torch is not in the environment of the default checks.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from orchestrator.atomic_file import write_atomically

__all__ = ["SIZES", "MfuOptions", "main", "measure"]

SIZES: dict[str, dict[str, Any]] = {
    "1b": {
        "hidden_size": 2048,
        "layers": 16,
        "heads": 32,
        "kv_heads": 8,
        "intermediate_size": 8192,
        "context": 4096,
        "vocab_size": 32_000,
    },
    "150m": {
        "hidden_size": 768,
        "layers": 16,
        "heads": 12,
        "intermediate_size": 2048,
        "context": 4096,
        "vocab_size": 16_384,
    },
    "smollm2": {
        "hidden_size": 576,
        "layers": 30,
        "heads": 9,
        "kv_heads": 3,
        "intermediate_size": 1536,
        "context": 4096,
        "vocab_size": 49_152,
    },
    "tiny": {"hidden_size": 64, "layers": 2, "heads": 4, "context": 256, "vocab_size": 512},
}
"""Shapes of the models; the large one has 1.04e9 parameters."""


Variant = Literal["eager", "compiled", "checkpointed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MfuOptions:
    """Measure behavioural cloning on one device."""

    size: Literal["1b", "150m", "smollm2", "tiny"] = "1b"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: Path | None = None
    """Write the results as JSON; it is replaced."""
    variants: tuple[Variant, ...] = ("eager", "compiled", "checkpointed")
    """What to measure, one after the other; checkpointed is compiled, too."""
    attention: Literal["auto", "packed", "sdpa"] = "auto"
    """As `model.attention`; packed needs torch 2.11 on a GPU."""
    rows: int = 4
    """Packed rows of the full context that are computed at once."""
    accumulate: int = 8
    """Micro-batches per step: 131,072 tokens, as in `recipes/bc-1b-h100.toml`."""
    target_share: float = 1.0
    """Share of tokens that are trained on; agent conversations have about 0.25."""
    warmup: int = 3
    """Steps that are not timed."""
    steps: int = 12
    """Steps that are timed."""
    peak_tflops: float = 0.0
    """Peak of the device; 0 = known by its name."""
    variant_seconds: int = 220
    """A variant that takes longer is given up."""
    base: Path | None = None
    """The model, as this command made it before; the variants share one."""
    single: bool = False
    """Measure the first variant in this very process and print one line of JSON."""


def main() -> int:
    """Run the command; returns its exit code."""
    options = tyro.cli(MfuOptions, description=__doc__)
    with tempfile.TemporaryDirectory() as folder:
        base = options.base or _make_model(SIZES[options.size], Path(folder))
        if options.single:
            print(json.dumps(measure(options, base, options.variants[0])))
            return 0
        results = [_in_a_process(options, base, variant) for variant in options.variants]
    settings = {
        name: value
        for name, value in asdict(options).items()
        if name not in {"out", "base", "single", "variants"}
    }
    report = {"settings": settings, "results": results}
    for result in results:
        print(_line(result))
    text = json.dumps(report, indent=2) + "\n"
    if options.out is not None:
        write_atomically(options.out, text)
    else:
        print(text, end="")
    return 0 if any("mfu" in result for result in results) else 1


def _line(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['variant']}: {result['error']}"
    mfu = "" if result["mfu"] is None else f", MFU {result['mfu']:.1%}"
    return (
        f"{result['variant']}: {result['tokens_per_second']:,.0f} tokens/s, "
        f"{result['tflops_per_second']:.1f} TFLOP/s{mfu}, {result['peak_memory_gib']:.1f} GiB of "
        f"{result['planned_memory_gib']:.1f} planned"
    )


def _in_a_process(options: MfuOptions, base: Path, variant: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmark.training.mfu", "--single", "--variants", variant]
    names = ("size", "device", "attention", "rows", "accumulate", "target_share", "warmup", "steps")
    for name in names:
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    command += ["--peak-tflops", str(options.peak_tflops), "--base", str(base)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=options.variant_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"variant": variant, "error": f"not done after {options.variant_seconds} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"variant": variant, "error": last, "stderr": done.stderr[-4000:]}
    return {"variant": variant, **json.loads(done.stdout.strip().splitlines()[-1])}


def measure(options: MfuOptions, base: Path, variant: Variant) -> dict[str, Any]:
    """Time steps of one variant of the model in the folder `base`.

    Returns their figures and what they were measured with.
    """
    import torch

    from training.runs.tracking import peak_flops
    from training.trainer.distributed import distributed_context
    from training.trainer.learner import Learner, OptimizerConfig
    from training.trainer.memory import measure_model, plan_memory
    from training.trainer.models import ModelConfig, hf_config, load_for_training

    shape = SIZES[options.size]
    config = ModelConfig(
        path="synthetic",
        precision="bf16",
        attention=options.attention,
        activation_checkpointing=variant == "checkpointed",
        compile=variant != "eager",
    )
    with distributed_context(options.device) as dist:
        size = measure_model(hf_config(base))
        plan = plan_memory(
            size,
            config,
            micro_tokens=options.rows * shape["context"],
            world_size=dist.world_size,
            sharded=dist.has_group,
        )
        model = load_for_training(base, config, dist)
        total = options.warmup + options.steps
        learner = Learner(model, OptimizerConfig(lr=1e-5), dist, seed=0, total=total)
        steps = [_timed_step(learner, config, dist, shape, options) for _ in range(total)]
        cuda = dist.device.type == "cuda"
        name = torch.cuda.get_device_name(dist.device) if cuda else "cpu"
        used = torch.cuda.max_memory_allocated(dist.device) if cuda else 0
    timed = steps[options.warmup :]
    spent = sum(seconds for seconds, _, _, _ in timed)
    tokens = sum(it for _, it, _, _ in timed)
    flops = sum(size.flops(*counts) for _, *counts in timed)
    peak = peak_flops(name, options.peak_tflops)
    return {
        "device": name,
        "torch": torch.__version__,
        "parameters": size.parameters,
        "tokens_per_second": tokens / spent,
        "tflops_per_second": flops / spent / 1e12,
        "peak_tflops": None if peak is None else peak / 1e12,
        "mfu": None if peak is None else flops / spent / peak,
        "median_step_seconds": statistics.median(seconds for seconds, _, _, _ in timed),
        "tokens_per_step": tokens / len(timed),
        "peak_memory_gib": used / 2**30,
        "planned_memory_gib": plan.total / 2**30,
    }


def _timed_step(
    learner: Any, config: Any, dist: Any, shape: dict[str, Any], options: MfuOptions
) -> tuple[float, int, int, int]:
    """One step of cloning: seconds, tokens, targets, sum of squared lengths."""
    from training.trainer.batches import collate, target_logprobs
    from training.trainer.models import precision_context

    micros = [
        _random_micro_batch(shape, options, seed=learner.step * options.accumulate + at)
        for at in range(options.accumulate)
    ]
    norm = sum(it.targets for micro in micros for it in micro)
    tokens = targets = squares = 0
    _wait(dist.device)
    began = time.perf_counter()
    learner.begin_step()
    for number, micro in enumerate(micros, 1):
        batch = collate(micro, dist.device, pad_to=options.rows * shape["context"])
        with precision_context(config, dist):
            logprobs = target_logprobs(learner.model, batch)
        loss = -(batch.weights * logprobs).sum() / norm
        learner.backward(loss, last=number == len(micros))
        tokens += batch.tokens
        targets += len(batch.logit_indices)
        squares += batch.squared_lengths
    learner.update()
    _wait(dist.device)
    return time.perf_counter() - began, tokens, targets, squares


def _wait(device: Any) -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _make_model(shape: dict[str, Any], folder: Path) -> Path:
    """A model with random weights; its tokenizer is never used, so a small one does."""
    from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
    from training.trainer.models import InitConfig, create_base

    train_tokenizer(["benchmark"], folder / "tokenizer", TokenizerConfig(vocab_size=300))
    return create_base(InitConfig(**shape), folder / "tokenizer", folder / "model", seed=0)


def _random_micro_batch(shape: dict[str, Any], options: MfuOptions, *, seed: int) -> list[Any]:
    """Sequences that fill every row to its end: lengths of 1/16 of the context up to all of it."""
    import numpy as np

    from training.data.sequences import Provenance, make_sequence

    draw = np.random.default_rng(seed)
    made: list[Any] = []
    for _ in range(options.rows):
        left = shape["context"]
        while left:
            length = int(draw.integers(shape["context"] // 16, shape["context"] + 1))
            length = left if length > left or left - length < 32 else length
            mask = draw.random(length) < options.target_share
            mask[-1] = True
            made.append(
                make_sequence(
                    draw.integers(0, shape["vocab_size"], length).astype(np.uint32),
                    mask,
                    None,
                    Provenance(source="synthetic", name=str(len(made))),
                )
            )
            left -= length
    return made


if __name__ == "__main__":
    sys.exit(main())
