"""`python -m benchmark.environments`: one table of what every environment costs.

Each environment is measured in a process of its own (`costs`), and once more as a server that a
user starts (cold start). With `--against FOLDER`, another checkout of this project, the processes
of both alternate, and the ratios between them are what counts on a shared machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import grpc
import psutil
import tyro
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Console
from rich.table import Table

from benchmark.manifest import read_manifest
from env_servers.sdk import BUILT_IN

__all__ = ["Benchmark", "main"]

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "benchmark" / "results" / "environments"
ALL: Final = "all"
"""The row of one server of all environments."""
_COLUMNS: Final = {
    "step_p50": "step",
    "advice_p50": "advice",
    "first_reset_p50": "first reset",
    "reset_p50": "reset",
    "episode_ms": "episode ms",
    "kib_per_episode": "KiB each",
    "answers_s": "answers s",
    "serves_s": "serves s",
    "serves_cpu_s": "CPU s",
}
_TITLE: Final = "µs of CPU (p50) unless it says so; ÷ = before / now"
_DEADLINE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure what environments cost on their embedded tasks."""

    env: str = ",".join(BUILT_IN)
    """Environments, separated by commas."""
    against: Path | None = None
    """Another checkout, measured in turns with this one."""
    items: int = 60
    """Tasks that the expert plays."""
    held: int = 200
    """Live episodes whose memory is measured."""
    rounds: int = 3
    """Processes of each checkout; medians count."""
    save: Path | None = RESULTS / "costs.json"
    """File of the result; `None` writes nothing."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the table and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments")
    manifest = read_manifest()
    trees = {"now": ROOT} | ({"before": config.against.resolve()} if config.against else {})
    names = config.env.split(",")
    figures = {name: _alternate(trees, config, name) for name in names}
    if len(names) > 1:
        figures[ALL] = _start_alone(trees, config, names)
    _print(figures)
    if config.save is not None:
        config.save.parent.mkdir(parents=True, exist_ok=True)
        said = {"manifest": manifest.as_json(), "busy machine": manifest.busy}
        result = said | {"environments": figures}
        config.save.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _alternate(trees: dict[str, Path], config: Benchmark, name: str) -> dict[str, Any]:
    """{tree: medians over the rounds}; an environment that does not run here says why."""
    rounds: dict[str, list[dict[str, float]]] = {tree: [] for tree in trees}
    for number in range(config.rounds):
        order = list(trees) if number % 2 else list(trees)[::-1]
        for tree in order:
            try:
                costs = _costs(trees[tree], config, name)
                rounds[tree].append(costs | _cold_start(trees[tree], [name]))
            except RuntimeError as error:
                return {"does_not_run": str(error)}
    return {tree: _medians(found) for tree, found in rounds.items()}


def _start_alone(trees: dict[str, Path], config: Benchmark, names: list[str]) -> dict[str, Any]:
    rounds: dict[str, list[dict[str, float]]] = {tree: [] for tree in trees}
    for _ in range(config.rounds):
        for tree, folder in trees.items():
            rounds[tree].append(_cold_start(folder, names))
    return {tree: _medians(found) for tree, found in rounds.items()}


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(median(each[key] for each in rounds), 3) for key in rounds[0]}


def _python(tree: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """Return a command that imports from a checkout and nothing from here, and its variables."""
    path = os.pathsep.join((str(tree), str(tree / "gen")))
    return [sys.executable, "-P", *words], os.environ | {"PYTHONPATH": path}


def _costs(tree: Path, config: Benchmark, name: str) -> dict[str, float]:
    """Raises RuntimeError with what the process said last."""
    script = str(Path(__file__).with_name("costs.py"))
    command, variables = _python(tree, script, name, str(config.items), str(config.held))
    done = subprocess.run(command, env=variables, cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300])
    return json.loads(done.stdout.splitlines()[-1])


def _cold_start(tree: Path, names: Sequence[str]) -> dict[str, float]:
    """Return seconds, of the clock and of CPU, until a new server serves these environments.

    Raises RuntimeError where it ends before.
    """
    with TemporaryDirectory() as folder:
        socket = f"unix:{folder}/server"
        words = ("-m", "env_servers", "serve", *names, "--skip-unavailable", "--bind", socket)
        command, variables = _python(tree, *words, "--log-level", "error", "--drain", "0")
        started = time.perf_counter()
        process = subprocess.Popen(command, env=variables, cwd=tree)
        try:
            answered = _health(socket, process, serving=False) - started
            serving = _health(socket, process, serving=True) - started
            cpu = sum(psutil.Process(process.pid).cpu_times()[:2])
        finally:
            process.terminate()
            process.wait()
    return {"answers_s": answered, "serves_s": serving, "serves_cpu_s": cpu}


def _health(address: str, process: subprocess.Popen[bytes], *, serving: bool) -> float:
    """Return the time at which the server first answered, or first served."""
    with grpc.insecure_channel(address, [("grpc.max_reconnect_backoff_ms", 50)]) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        deadline = time.perf_counter() + _DEADLINE_SECONDS
        while time.perf_counter() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            try:
                status = stub.Check(health_pb2.HealthCheckRequest(), timeout=1).status
            except grpc.RpcError:
                status = None
            if status == health_pb2.HealthCheckResponse.SERVING or (status and not serving):
                return time.perf_counter()
            time.sleep(0.01)
    raise RuntimeError(f"the server did not answer within {_DEADLINE_SECONDS:.0f} s")


def _print(figures: dict[str, Any]) -> None:
    table = Table("environment", *_COLUMNS.values(), title=_TITLE)
    for name, trees in figures.items():
        if "does_not_run" in trees:
            table.add_row(name, trees["does_not_run"])
            continue
        table.add_row(name, *(_cell(trees, key) for key in _COLUMNS))
    Console(width=150).print(table)


def _cell(trees: dict[str, dict[str, float]], key: str) -> str:
    now = trees["now"].get(key)
    if now is None:
        return ""
    before = trees.get("before", {}).get(key)
    shown = f"{now:,.2f}" if key.endswith(("_s", "_ms")) else f"{now:,.1f}"
    return f"{shown} ÷{before / now:.2f}" if before and now > 0 else shown


if __name__ == "__main__":
    sys.exit(main())
