"""Runs of a few episodes of maze, and what they leave."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console

from orchestrator.config import RunConfig, parse_policies
from orchestrator.fleet import FleetConfig
from orchestrator.ray_config import RayConfig
from orchestrator.records import episode_key
from orchestrator.retry import RetryPolicy
from orchestrator.run import RunOutcome, run
from orchestrator.run_folder import shard_folder, shard_names
from orchestrator.store import RunReader
from tests.kit.servers import serving

__all__ = [
    "QUIET",
    "allow",
    "begin",
    "config",
    "gated",
    "records",
    "serving_maze",
    "shard_counts",
    "until",
    "until_stored",
]

QUIET = Console(quiet=True)


@asynccontextmanager
async def serving_maze(**options):
    async with serving(environments=("maze",), execution={}, **options) as server:
        yield FleetConfig(servers=tuple(server.addresses))


def config(fleet: FleetConfig, **changes) -> RunConfig:
    values = {
        "environments": ("maze",),
        "policies": parse_policies("expert,random"),
        "split": "train",
        "episodes": 12,
        "samples": 2,
        "concurrency": 8,
        "fleet": fleet,
        "cluster": RayConfig(address="local", ray_workers=1),
        "retry": RetryPolicy(first_delay=0.01),
        **changes,
    }
    return RunConfig(**values)


def allow(folder: Path, words: int) -> None:
    """Let each worker's gated policy write so many words more."""
    with (folder / "words").open("ab") as file:
        file.write(b"." * words)


def gated(folder: Path) -> tuple:
    allow(folder, 0)
    return parse_policies(f"tests.orchestrator.gated_policy:Gated:{folder}")


def records(folder: Path) -> dict:
    with RunReader.open(folder) as reader:
        assert reader.verify() == []
        return {
            episode_key(it): (it.score, [m.text for m in it.messages]) for it in reader.episodes()
        }


def shard_counts(folder: Path) -> list[int]:
    counts = []
    for name in shard_names(folder):
        with RunReader.open(shard_folder(folder, name)) as reader:
            counts.append(reader.count())
    return counts


async def begin(config: RunConfig, folder: Path, *, workers: int = 2) -> asyncio.Task[RunOutcome]:
    """Start a run, and wait until so many workers have a shard."""
    playing = asyncio.create_task(run(config, folder, resume=False, console=QUIET))
    await until(lambda: len(shard_names(folder)) == workers, playing)
    return playing


async def until_stored(folder: Path, gate: Path, least: int) -> None:
    """Let gated policies write until every shard has so many records."""
    while min(shard_counts(folder)) < least:
        allow(gate, 80)
        await asyncio.sleep(0.1)


async def until(condition, playing) -> None:
    async with asyncio.timeout(60):
        while not condition():
            assert not playing.done(), playing
            await asyncio.sleep(0.05)
