"""`python -m benchmark.blocking`: what does a blocking environment cost the others on its server?

Echo episodes that take an action every few milliseconds play beside episodes of an environment
whose steps take 50 ms, sleeping or computing, executed inline, in a thread, or in a worker process.
Measured is the throughput of the fast ones, alone and beside each, interleaved in one run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.connection import Connection
from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop

__all__ = ["Blocking", "main"]

RESULTS = Path(__file__).parent / "results"
ENVIRONMENTS = ("echo", "benchmark.slow_echo.sleeping", "benchmark.slow_echo.computing")
SITUATIONS = (
    ("alone", "", ""),
    ("sleeping, inline", "sleeping_echo", "inline"),
    ("sleeping, thread", "sleeping_echo", "thread"),
    ("computing, inline", "computing_echo", "inline"),
    ("computing, thread", "computing_echo", "thread"),
    ("computing, process", "computing_echo", "process"),
)
"""(label, slow environment, where it is executed)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """Measure what a blocking environment costs its neighbours."""

    fast_episodes: int = 16
    """Episodes that take an action every `think_ms`."""
    think_ms: float = 10.0
    """Their pause between an answer and the next action; as a policy would need."""
    slow_episodes: int = 1
    """Episodes whose steps block, one step after the other."""
    step_ms: float = 50.0
    """How long a slow step takes."""
    seconds: float = 4.0
    """Measured per situation and round."""
    rounds: int = 3
    """Every situation is measured so often, in turn."""
    save: bool = True
    """Write benchmark/results/blocking.json."""


@asynccontextmanager
async def serving(execution: str, folder: Path) -> AsyncIterator[Connection]:
    """A server of all three environments, and a connection to it."""
    address_file = folder / "address"
    address_file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "env_servers", "serve", *ENVIRONMENTS]
    command += ["--bind", "127.0.0.1:0", "--address-file", str(address_file), "--workers", "1"]
    command += ["--log-level", "error", "--drain", "0"]
    if execution:
        command += ["--execution", f"sleeping_echo={execution}", f"computing_echo={execution}"]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        while not address_file.exists():
            if process.returncode is not None:
                raise RuntimeError(f"the server ended with status {process.returncode}")
            await asyncio.sleep(0.02)
        async with Connection(address_file.read_text().strip()) as connection:
            yield connection
    finally:
        process.terminate()
        await process.wait()


async def measure(config: Blocking, slow: str, execution: str, folder: Path) -> float:
    """Steps per second of the fast episodes in one situation."""
    async with serving(execution, folder) as connection, asyncio.TaskGroup() as group:
        fast = [await _open(connection, "echo", n, {}) for n in range(config.fast_episodes)]
        tasks: list[asyncio.Task[None]] = []
        if slow:
            option = "sleep_ms" if slow == "sleeping_echo" else "spin_ms"
            for number in range(config.slow_episodes):
                episode = await _open(connection, slow, number, {option: config.step_ms})
                await episode.step("warm up")
                tasks.append(group.create_task(_play(episode, [0], 0.0)))
        counts = [0]
        tasks += [
            group.create_task(_play(episode, counts, config.think_ms / 1000)) for episode in fast
        ]
        await asyncio.sleep(1.0)
        before, started = counts[0], asyncio.get_running_loop().time()
        await asyncio.sleep(config.seconds)
        rate = (counts[0] - before) / (asyncio.get_running_loop().time() - started)
        for task in tasks:
            task.cancel()
    return rate


async def _open(
    connection: Connection, environment: str, number: int, options: dict[str, float]
) -> RemoteEpisode:
    reset = pb.Reset(environment=environment, item_id=str(1_000_000 + number))
    reset.options.update({"length": 0, **options})
    episode = RemoteEpisode(connection, f"{environment}-{number}", reset)
    await episode.reset()
    return episode


async def _play(episode: RemoteEpisode, counts: list[int], think: float) -> None:
    while True:
        await episode.step("x" * 80)
        counts[0] += 1
        if think:
            await asyncio.sleep(think)


async def run(config: Blocking, folder: Path) -> dict[str, list[float]]:
    """All situations, in turn, round by round."""
    rates: dict[str, list[float]] = {label: [] for label, _, _ in SITUATIONS}
    for _ in range(config.rounds):
        for label, slow, execution in SITUATIONS:
            rates[label].append(await measure(config, slow, execution, folder))
    return rates


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints a table and writes the result."""
    import tempfile

    config = tyro.cli(Blocking, prog="python -m benchmark.blocking", args=argv)
    with tempfile.TemporaryDirectory() as name:
        rates = run_loop(run(config, Path(name)))
    alone = statistics.median(rates["alone"])
    table = Table("situation", "fast steps/s", "of alone")
    rows: dict[str, dict[str, float]] = {}
    for label, values in rates.items():
        middle = statistics.median(values)
        rows[label] = {"steps_per_s": round(middle, 1), "of_alone": round(middle / alone, 3)}
        table.add_row(label, f"{middle:,.0f}", f"{100 * middle / alone:.0f} %")
    Console().print(table)
    if config.save:
        result = {
            "manifest": read_manifest().as_json(),
            "config": asdict(config),
            "rates": rates,
            "medians": rows,
        }
        (RESULTS / "blocking.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
