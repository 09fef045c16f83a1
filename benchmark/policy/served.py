"""What the orchestrator costs beside a served model, and whether it loses requests.

    python -m benchmark.policy.served [--episodes 2000] [--restart]

Plays a run through the same path as `orchestrator.sample` against the fake engine
(`tests.kit.fake_sglang`), which gives every running request one token per step, so the time
that episodes *should* take is known: tokens times step. What episodes take longer is the
orchestrator's (and the environment's, and the network's) share. With `--restart` the engine is
killed in the middle and started again; nothing may be lost. `--url` measures a real server instead,
without that share.

Owns the measurement; prints one table and writes JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import psutil
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.endpoint import Endpoint
from agent_runtime.errors import PolicyError
from agent_runtime.policies import PolicyConfig, PolicySpec, Sampling, SGLangOptions
from agent_runtime.serving.machine import free_port
from agentgym.episode.v1 import episode_pb2
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop
from orchestrator.config import RunConfig
from orchestrator.configuration import parse_names
from orchestrator.fleet import FleetConfig
from orchestrator.run import run
from orchestrator.store import RunReader

__all__ = ["Served", "main", "measure"]

RESULTS = Path(__file__).parent.parent / "results" / "policy"
_PROBE_PAUSE = 0.5
"""Seconds between two probes of the time to the first token."""
_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Play a run against the fake engine, or a real one, and say what it cost."""

    model: Path
    """Folder with tokenizer.json and a chat template."""
    url: str = ""
    """A real server, instead of the fake engine."""
    env: str = "textcraft"
    episodes: int = 2000
    """Episodes, all live at once."""
    rounds: int = 8
    """Replies per episode."""
    reply_tokens: int = 192
    """Tokens of a reply, more or less."""
    step_ms: float = 50.0
    """Time of a decode step of the fake engine."""
    restart: bool = False
    """Kill the fake engine in the middle, and start it again after `down` seconds."""
    down: float = 2.0
    out: Path = RESULTS / "served.json"


@dataclass(slots=True, kw_only=True)
class Figures:
    """What was measured; times in seconds."""

    episodes: int = 0
    finished: int = 0
    failed_attempts: int = 0
    wall: float = 0.0
    output_tokens: int = 0
    output_tokens_per_second: float = 0.0
    engine_share: float = 0.0
    """Of the time that episodes were live, the share that their requests spent in the engine."""
    overhead: float = 0.0
    """The rest: 1 - engine_share; unknown, hence 0, for a real server and with a restart."""
    step_share: float = 0.0
    """As engine_share, by decode steps alone: what an engine with a machine of its own takes."""
    reply_median: float = 0.0
    first_token_median: float = 0.0
    """From a request's sending to its first token, of probes sent while the run goes on."""
    first_token_p95: float = 0.0
    cache_hit_rate: float = 0.0
    """Of the prompt tokens of all turns but the first, the share that was cached."""
    cpu_per_episode: float = 0.0
    """Of the orchestrator's process."""
    peak_rss_mib: float = 0.0
    """Of the orchestrator's process."""


class _Engine:
    """The fake engine in a process of its own."""

    def __init__(self, options: Served) -> None:
        self.port = free_port("127.0.0.1")
        self._command = [
            *(sys.executable, "-m", "tests.kit.fake_sglang", "--model", str(options.model)),
            *("--port", str(self.port), "--step-ms", str(options.step_ms)),
            *("--reply-tokens", str(options.reply_tokens)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    async def ready(self) -> None:
        """Until the port answers."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def _engine(options: Served) -> AsyncGenerator[str]:
    """The address of the engine."""
    if options.url:
        yield options.url
        return
    engine = _Engine(options)
    engine.start()
    await engine.ready()
    restarting = asyncio.create_task(_restart(engine, options))
    try:
        yield f"http://127.0.0.1:{engine.port}"
    finally:
        restarting.cancel()
        engine.kill()


async def _restart(engine: _Engine, options: Served) -> None:
    if not options.restart:
        return
    whole = options.rounds * options.reply_tokens * options.step_ms / 1000
    await asyncio.sleep(whole / 2)
    engine.kill()
    await asyncio.sleep(options.down)
    engine.start()


async def measure(options: Served, console: Console) -> Figures:
    """Play the run; what it cost."""
    with tempfile.TemporaryDirectory() as folder:
        async with _engine(options) as url:
            config = RunConfig(
                environments=parse_names(options.env),
                split="train",
                episodes=options.episodes,
                policies=(PolicySpec("sglang", url),),
                max_rounds=options.rounds,
                concurrency=options.episodes,
                agent=PolicyConfig(
                    sampling=Sampling(max_new_tokens=2 * options.reply_tokens),
                    sglang=SGLangOptions(tokenizer=str(options.model)),
                ),
                fleet=FleetConfig(spawn=1),
            )
            probes: list[float] = []
            probing = asyncio.create_task(_probe(url, probes))
            before, started = psutil.Process().cpu_times(), time.perf_counter()
            outcome = await run(config, Path(folder, "run"), resume=False, console=console)
            wall = time.perf_counter() - started
            probing.cancel()
            busy = 0.0 if options.url or options.restart else await _busy_seconds(url)
        after = psutil.Process().cpu_times()
        figures = Figures(episodes=outcome.planned, finished=outcome.finished, wall=wall)
        cpu = after.user + after.system - before.user - before.system
        if len(probes) > 1:
            figures.first_token_median = median(probes)
            figures.first_token_p95 = quantiles(probes, n=20)[-1]
        figures.cpu_per_episode = cpu / outcome.planned
        with RunReader.open(outcome.folder) as reader:
            figures.failed_attempts = sum(1 for _ in reader.episodes(superseded=True))
            _read_records(figures, list(reader.episodes()), options.step_ms / 1000, busy)
    figures.peak_rss_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


async def _probe(url: str, seconds: list[float]) -> None:
    """Ask for a few tokens now and then, by a connection that no request of the run shares."""
    endpoint = Endpoint(url, timeout=60.0)
    await endpoint.open()
    body = {
        "input_ids": list(range(5, 37)),
        "sampling_params": {"max_new_tokens": 2, "temperature": 1.0},
        "return_logprob": True,
        "stream": True,
    }
    try:
        while True:
            started, waiting = time.perf_counter(), True
            with contextlib.suppress(PolicyError):  # the engine is being restarted
                async for _ in endpoint.stream("/generate", body):
                    if waiting:
                        seconds.append(time.perf_counter() - started)
                    waiting = False
            await asyncio.sleep(_PROBE_PAUSE)
    finally:
        await endpoint.close()


async def _busy_seconds(url: str) -> float:
    """What the fake engine says of the time that requests spent in it."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/server_info") as response:
        return (await response.json())["fake_busy_seconds"]


def _read_records(
    figures: Figures, records: list[episode_pb2.Episode], step: float, busy: float
) -> None:
    calls = [call for record in records for call in record.generations]
    later = [call for call in calls if call.turn]
    live = sum(record.ended_unix_ms - record.started_unix_ms for record in records) / 1000
    figures.output_tokens = sum(call.completion_tokens for call in calls)
    figures.output_tokens_per_second = figures.output_tokens / figures.wall
    figures.reply_median = median(call.seconds for call in calls) if calls else 0.0
    prompts = sum(call.prompt_tokens for call in later)
    figures.cache_hit_rate = sum(call.cached_tokens for call in later) / max(1, prompts)
    if busy and live:
        figures.engine_share = busy / live
        figures.overhead = 1 - figures.engine_share
        figures.step_share = figures.output_tokens * step / live


def main() -> None:
    """Measure, print, write."""
    options = tyro.cli(Served, prog="python -m benchmark.policy.served")
    console = Console()
    figures = run_loop(measure(options, console))
    table = Table("figure", "value", title="orchestrator beside a served model")
    for name, value in asdict(figures).items():
        table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)
    plain: dict[str, Any] = {
        "options": {name: str(value) for name, value in asdict(options).items() if name != "out"},
        "figures": asdict(figures),
        "manifest": asdict(read_manifest()),
    }
    plain["options"]["model"] = options.model.name
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(plain, indent=2) + "\n")
    lost = figures.episodes - figures.finished
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
