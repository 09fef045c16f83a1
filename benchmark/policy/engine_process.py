r"""The embedded engine in the run's process and in one of its own, on the same episodes in turn.

    python -m benchmark.policy.engine_process --model smollm2 --embedded.device cuda \
        --embedded.dtype bfloat16 --embedded.context-length 2432 --embedded.max-slots 1024 \
        --embedded.prefill-tokens 16384

Plays runs through the same path as `orchestrator.sample`, all episodes live at once, and takes from
the records how many replies were made in the time between the first episode's beginning and the
last one's end: loading the model is not in it. CPU time is that of the run's process, where the
engine may be, and of all that it started: the environments' servers, and the engine where it is a
process. The first two runs, which compile and fill caches, are not counted.

Owns the measurement; prints one table and writes JSON. Needs the extra `torch`, or `agent` for
small models.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.policies import EmbeddedOptions, PolicyConfig, PolicySpec, Sampling
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.configuration import parse_names
from orchestrator.fleet import FleetConfig
from orchestrator.run import run
from orchestrator.store import RunReader

__all__ = ["Figures", "Measured", "main", "measure"]

RESULT: Final = Path(__file__).parent.parent / "results" / "policy" / "engine_process.json"
_PACKAGES: Final = ("agentgym-grpc", "aiohttp", "grpcio", "orjson", "torch", "uvloop")
_PLACES: Final = {"one process": False, "own process": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Play the same run with the engine in either process, and say what each came to."""

    model: str
    """A checkpoint's folder, or a known model."""
    env: str = "textcraft,wordle,maze,babyai"
    episodes: int = 1024
    """Episodes, all live at once; each environment has as many."""
    rounds: int = 15
    """Replies per episode, at most."""
    max_new_tokens: int = 96
    servers: int = 8
    """Processes of environment servers."""
    repeats: int = 3
    """Counted runs of each."""
    embedded: EmbeddedOptions = field(default_factory=EmbeddedOptions)
    out: Path = RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run came to."""

    replies: int
    tokens: int
    """Sampled ones."""
    prompt_tokens: float
    """Of a reply, on average."""
    seconds: float
    replies_per_second: float
    tokens_per_second: float
    own_cpu_ms: float
    """Of the run's process, per reply."""
    others_cpu_ms: float
    """Of the processes that it started, per reply, their start among it."""


def measure(options: Measured, *, process: bool, console: Console) -> Figures:
    """Play one run; raises OrchestratorError, AgentRuntimeError."""
    names = parse_names(options.env)
    config = RunConfig(
        environments=names,
        split="train",
        episodes=options.episodes // len(names),
        policies=(PolicySpec("embedded", options.model),),
        max_rounds=options.rounds,
        concurrency=options.episodes,
        agent=PolicyConfig(
            sampling=Sampling(temperature=1.0, max_new_tokens=options.max_new_tokens),
            embedded=replace(options.embedded, process=process),
        ),
        fleet=FleetConfig(spawn=options.servers),
    )
    with tempfile.TemporaryDirectory() as folder:
        own, others = time.process_time(), _others_cpu()
        outcome = run_loop(run(config, Path(folder, "run"), resume=False, console=console))
        own, others = time.process_time() - own, _others_cpu() - others
        with RunReader.open(outcome.folder) as reader:
            records = list(reader.episodes())
    calls = [call for record in records for call in record.generations]
    begun = min(record.started_unix_ms for record in records)
    seconds = (max(record.ended_unix_ms for record in records) - begun) / 1000
    tokens = sum(call.completion_tokens for call in calls)
    return Figures(
        replies=len(calls),
        tokens=tokens,
        prompt_tokens=sum(call.prompt_tokens for call in calls) / len(calls),
        seconds=seconds,
        replies_per_second=len(calls) / seconds,
        tokens_per_second=tokens / seconds,
        own_cpu_ms=1000 * own / len(calls),
        others_cpu_ms=1000 * others / len(calls),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    options = tyro.cli(Measured, args=argv, prog="python -m benchmark.policy.engine_process")
    console = Console()
    results: dict[str, list[Figures]] = {name: [] for name in _PLACES}
    for repeat in range(options.repeats + 1):
        for name, process in _PLACES.items():
            console.print(f"{name}, run {repeat} of {options.repeats}")
            figures = measure(options, process=process, console=console)
            if repeat:
                results[name].append(figures)
    table = Table("figure", *_PLACES, title="the embedded engine, medians")
    for name in asdict(results["one process"][0]):
        middles = (median(asdict(each)[name] for each in runs) for runs in results.values())
        table.add_row(name, *(f"{middle:,.5g}" for middle in middles))
    console.print(table)
    pairs = zip(results["own process"], results["one process"], strict=True)
    ratio = median(own.replies_per_second / one.replies_per_second for own, one in pairs)
    console.print(f"replies/s, own process to one: {ratio:.2f}")
    _write(options, results, ratio)
    return 0


def _write(options: Measured, results: dict[str, list[Figures]], ratio: float) -> None:
    told: dict[str, Any] = {
        **{name: value for name, value in asdict(options).items() if name not in ("out", "model")},
        "model": Path(options.model).name,
    }
    result = {
        "options": told,
        "own_process_to_one": ratio,
        "runs": {name: [asdict(each) for each in runs] for name, runs in results.items()},
        "manifest": asdict(read_manifest(_PACKAGES)),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2, default=str) + "\n")


def _others_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
