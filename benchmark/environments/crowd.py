"""`python -m benchmark.environments.crowd`: start, memory and speed of any environment.

For each environment one server holds a thousand concurrent episodes. Their actions are the scripted
expert's, worked out beforehand in this process, so that the server is measured at stepping and not
at advising; its memory and its speed are measured from outside. Client and server share the
machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.episode import RemoteEpisode
from agentgym.env.v1 import environment_pb2 as pb
from benchmark.environments.serving import Served, served
from benchmark.manifest import read_manifest
from env_servers.sdk import BUILT_IN, EnvironmentConfig, ResetOptions, load_environment
from orchestrator.command_line import run_loop

__all__ = ["Benchmark", "main"]

RESULTS: Final = Path(__file__).parent.parent / "results" / "environments"
LEFT_OUT: Final = frozenset({"echo", "mcp", "sciworld"})
"""Has no tasks to speak of; has a process for each episode; has a benchmark that looks at its Java
processes, too."""
_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Measure environments on their embedded tasks."""

    env: str = ",".join(name for name in BUILT_IN if name not in LEFT_OUT)
    """Environments, separated by commas."""
    episodes: int = 1000
    """Episodes at once in one server."""
    rounds: int = 3
    """How often all of them are played; the median speed counts."""
    save: bool = True
    """Write benchmark/results/environments/crowd.json, keeping other environments' figures."""


@dataclass(frozen=True, slots=True)
class Script:
    """An episode as the expert plays it."""

    item_id: str
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Serving:
    """One server with many episodes at once."""

    episodes: int
    start_seconds: float
    """From the start of the process to its first answer."""
    idle_mib: float
    """Resident memory of the server before the first episode."""
    held_mib: float
    """The same with all episodes in the middle of their play."""
    peak_mib: float
    """The same, at most, over all rounds."""
    kib_per_episode: float
    resets_per_second: int
    steps: int
    """Of one round."""
    steps_per_second: int
    """Median over the rounds; resets are not counted."""
    mean_reward: float


def scripts(name: str, count: int) -> list[Script]:
    """Return the expert's actions on `count` train tasks, played in this process."""
    environment = load_environment(name)
    tasks = environment.load_tasks(EnvironmentConfig())
    scripts_played: list[Script] = []
    for number, item_id in enumerate(tasks.item_ids("train", 0, count)):
        episode = environment(tasks)
        episode.reset(tasks.get(item_id), ResetOptions())
        actions: list[str] = []
        while len(actions) < environment.spec.max_rounds:
            actions.append(episode.advise_expert(number).action)
            if episode.step(actions[-1]).terminated:
                break
        episode.close()
        scripts_played.append(Script(item_id, tuple(actions)))
    tasks.close()
    return scripts_played


async def serve(name: str, plays: Sequence[Script], rounds: int) -> Serving:
    """Start a server, hold the episodes in it, and play them to their ends."""
    async with served(name) as server:
        return await _rounds(server, name, plays, rounds)


@dataclass(frozen=True, slots=True)
class _Round:
    held: int
    resets_per_second: float
    steps_per_second: float
    rewards: list[float]


async def _rounds(
    server: Served,
    name: str,
    plays: Sequence[Script],
    rounds: int,
) -> Serving:
    idle = server.memory()
    played = [await _play(server, name, plays, number) for number in range(rounds)]
    fast = sorted(each.steps_per_second for each in played)
    rewards = [reward for each in played for reward in each.rewards]
    held, peak = played[0].held, max(each.held for each in played)
    return Serving(
        episodes=len(plays),
        start_seconds=round(server.start_seconds, 2),
        idle_mib=round(idle / _MIB, 1),
        held_mib=round(held / _MIB, 1),
        peak_mib=round(peak / _MIB, 1),
        kib_per_episode=round((held - idle) / 1024 / len(plays), 1),
        resets_per_second=round(max(each.resets_per_second for each in played)),
        steps=sum(len(play.actions) for play in plays),
        steps_per_second=round(fast[len(fast) // 2]),
        mean_reward=sum(rewards) / len(rewards),
    )


async def _play(
    server: Served,
    name: str,
    plays: Sequence[Script],
    number: int,
) -> _Round:
    """Play all episodes at once: to their middle, a look at the memory, and to their ends."""
    live = [
        RemoteEpisode(
            server.connection,
            f"held-{number}-{n}",
            pb.Reset(environment=name, item_id=play.item_id),
        )
        for n, play in enumerate(plays)
    ]
    started = time.perf_counter()
    await asyncio.gather(*(episode.reset() for episode in live))
    reset = time.perf_counter() - started
    halves = [(play.actions[:-1], play.actions[-1:]) for play in plays]
    first, _ = await _step(live, [half[0] for half in halves])
    held = server.memory()
    second, rewards = await _step(live, [half[1] for half in halves])
    for episode in live:
        episode.close()
    steps = sum(len(play.actions) for play in plays)
    return _Round(held, len(plays) / reset, steps / (first + second), rewards)


async def _step(
    live: Sequence[RemoteEpisode], actions: Sequence[Sequence[str]]
) -> tuple[float, list[float]]:
    """(seconds, last rewards) of playing these actions, all episodes at once."""
    rewards = [0.0] * len(live)

    async def play(number: int) -> None:
        for action in actions[number]:
            transition = await live[number].step(action)
            rewards[number] = transition.reward or 0.0

    started = time.perf_counter()
    await asyncio.gather(*(play(number) for number in range(len(live))))
    return time.perf_counter() - started, rewards


def _print(servings: dict[str, Serving]) -> None:
    table = Table("environment", "episodes", "start s", "MiB", "KiB each", "steps/s", "reward")
    for name, serving in servings.items():
        table.add_row(
            name,
            f"{serving.episodes:,}",
            f"{serving.start_seconds}",
            f"{serving.held_mib}",
            f"{serving.kib_per_episode}",
            f"{serving.steps_per_second:,}",
            f"{serving.mean_reward:.3f}",
        )
    Console().print(table)


def _save(servings: dict[str, Serving]) -> None:
    """Each environment's figures lie beside the manifest of their own run."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "crowd.json"
    saved = json.loads(path.read_text()) if path.is_file() else {}
    manifest = read_manifest().as_json()
    for name, serving in servings.items():
        saved[name] = {"manifest": manifest, "server": asdict(serving)}
    path.write_text(json.dumps(saved, indent=2, sort_keys=True) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; prints the figures and writes the result."""
    config = tyro.cli(Benchmark, args=argv, prog="python -m benchmark.environments.crowd")
    servings: dict[str, Serving] = {}
    for name in config.env.split(","):
        plays = scripts(name, config.episodes)
        servings[name] = run_loop(serve(name, plays, config.rounds))
    _print(servings)
    if config.save:
        _save(servings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
