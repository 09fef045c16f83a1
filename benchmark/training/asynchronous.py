"""Steps per hour of GRPO with and without a barrier, beside an engine of realistic latencies.

    python -m benchmark.training.asynchronous

Episodes of 2 to 30 turns are played through the trainings' own rollouts on the fake engine
(`tests.kit.fake_sglang`: 50 ms for a token of the whole batch). The learner sleeps for a fixed
time, which is what the engine takes for a step if all its places are taken. Nearly all of both is
sleeping, so a busy machine bears it: what it costs there appears as longer turns, on both sides.

Owns the measurement; prints one table and writes JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import aiohttp
import tyro
from rich.console import Console
from rich.table import Table

from agent_runtime.policies.config import SGLangOptions
from agent_runtime.serving.machine import free_port
from agentgym.episode.v1 import episode_pb2
from benchmark.environments.serving import served
from benchmark.manifest import read_manifest
from orchestrator.command_line import run_loop
from orchestrator.fleet import FleetConfig
from training.data.tokenizer_training import TokenizerConfig, train_tokenizer
from training.data.trajectories import TokenAges, WeightVersions, read_trajectories
from training.rollouts.groups import GroupOrder, TakenGroups
from training.rollouts.jobs import RolloutConfig
from training.rollouts.on_policy import Rollouts, Task
from training.rollouts.stream import LEDGER_FILE, RolloutStream, StreamSettings
from training.rollouts.tasks import EnvironmentTasks

__all__ = ["TEXTS", "Asynchronous", "Side", "main", "measure"]

RESULT: Final = Path(__file__).parent.parent / "results" / "training" / "asynchronous.json"
_ENVIRONMENT: Final = "varied_echo"
_SERVED: Final = "benchmark.training.varied_echo"
_START_SECONDS: Final = 120.0
TEXTS: Final = ("user assistant system\n", "Thought:\ntalk talk\n\nAction:\n1234567890", "say yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asynchronous:
    """Play steps of GRPO with a barrier and without one, with a learner that sleeps."""

    tasks: int = 4
    """Groups of a step."""
    group: int = 8
    """Episodes of a group."""
    concurrency: int = 32
    """Places of the engine: episodes that are live at once."""
    staleness: int = 4
    """Versions by which a token may be older than the weights that learn from it."""
    barrier_steps: int = 4
    """Steps with a barrier, the first of which is not counted."""
    steps: int = 10
    """Steps without, the first of which is not counted: it waits for the first episodes."""
    step_ms: float = 50.0
    """Time of a token, however many requests run."""
    weights_ms: float = 200.0
    """Time that the engine takes to load weights."""
    learner_share: float = 1.0
    """The learner's time for a step, as a share of what the engine takes for one at full batch;
    measured in the first step with a barrier, then fixed."""
    out: Path = RESULT
    """Where the result is written."""


@dataclass(slots=True, kw_only=True)
class Side:
    """What was measured of one way; shares are of the time of the counted steps."""

    steps: int = 0
    seconds: float = 0.0
    steps_per_hour: float = 0.0
    learner_idle: float = 0.0
    """Share of the time in which the learner neither learned nor handed weights over."""
    engine_idle: float = 0.0
    """Share of the time in which no request ran."""
    places_empty: float = 0.0
    """Share of the engine's places that no live episode took, on average."""
    token_age_mean: float = 0.0
    token_age_max: int = 0
    masked_tokens: int = 0
    """Sampled tokens that were too old."""
    dropped_groups: int = 0
    turns_mean: float = 0.0
    turn_seconds: float = 0.0
    """From one reply of an episode to the next, on average."""


@dataclass(slots=True)
class _Meter:
    """Sums over the counted steps."""

    url: str
    learning: float = 0.0
    ages: list[TokenAges] = field(default_factory=list[TokenAges])
    masked: int = 0
    turns: list[int] = field(default_factory=list[int])
    live: float = 0.0
    """Seconds of episodes, all of them together."""
    began: float = 0.0
    idle_before: float = 0.0

    async def begin(self) -> None:
        self.learning, self.live, self.masked = 0.0, 0.0, 0
        self.ages.clear()
        self.turns.clear()
        self.idle_before = await _idle_seconds(self.url)
        self.began = time.monotonic()

    def add(
        self,
        step: int,
        staleness: int,
        episodes: Sequence[episode_pb2.Episode],
        names: WeightVersions,
    ) -> None:
        """Note what a step learns from."""
        ages: list[Any] = []
        for episode in episodes:
            for it in read_trajectories(
                episode, step=step, max_off_policy_steps=staleness, versions=names
            ):
                ages.append(it.ages)
                self.masked += it.stale
            self.turns.append(len(episode.generations))
            self.live += (episode.ended_unix_ms - episode.started_unix_ms) / 1000
        self.ages.append(TokenAges.of(ages))

    async def side(self, steps: int) -> Side:
        seconds = time.monotonic() - self.began
        idle = await _idle_seconds(self.url) - self.idle_before
        return Side(
            steps=steps,
            seconds=seconds,
            steps_per_hour=3600 * steps / seconds,
            learner_idle=1 - self.learning / seconds,
            engine_idle=idle / seconds,
            token_age_mean=fmean(it.mean or 0.0 for it in self.ages),
            token_age_max=max(it.max or 0 for it in self.ages),
            masked_tokens=self.masked,
            turns_mean=fmean(self.turns),
            turn_seconds=self.live / sum(self.turns),
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """Where both ways play."""

    folder: Path
    """Has the model, gets the runs."""
    engine: str
    environment: str


class _Learner:
    """Sleeps, then hands weights over."""

    def __init__(self, rollouts: Rollouts, folder: Path, names: WeightVersions) -> None:
        self.seconds = 0.0
        self._rollouts, self._folder, self._names = rollouts, folder, names

    async def learn(self, step: int, meter: _Meter) -> None:
        began = time.monotonic()
        await asyncio.sleep(self.seconds)
        await self._rollouts.update_weights(self._folder, self._names.name(step + 1))
        meter.learning += time.monotonic() - began


async def measure(options: Asynchronous, console: Console) -> dict[str, Side]:
    """Play both ways, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train_tokenizer(TEXTS, folder / "model", TokenizerConfig(vocab_size=300))
        async with (
            _engine(options, folder / "model") as url,
            served(_ENVIRONMENT, module=_SERVED) as environment,
        ):
            places = _Places(folder, url, environment.connection.address)
            barrier, seconds = await _with_barrier(options, places, console)
            stream = await _without_barrier(options, places, seconds, console)
    return {"barrier": barrier, "asynchronous": stream}


@asynccontextmanager
async def _open(
    options: Asynchronous, places: _Places, name: str
) -> AsyncGenerator[tuple[Rollouts, _Learner, WeightVersions]]:
    """Environment servers, the policy, and a learner of its weights."""
    model = places.folder / "model"
    rollout = RolloutConfig(
        engine="sglang",
        url=places.engine,
        max_new_tokens=64,
        concurrency=options.concurrency,
        sglang=SGLangOptions(tokenizer=str(model)),
        fleet=FleetConfig(servers=(places.environment,)),
    )
    environment = EnvironmentTasks(
        name=_ENVIRONMENT,
        explore=1,
        evaluate=1,
        max_rounds=100,
        conversation_start=("say", "yes"),
        options={"observation_bytes": 90},
    )
    # Versions are told apart by hexadecimal digits.
    names = WeightVersions(name.encode().hex(), "00")
    async with Rollouts(
        rollout, [environment], places.folder / name, temperature=1.0, seed=0
    ) as rollouts:
        await rollouts.start_policy(model, names.name(0))
        yield rollouts, _Learner(rollouts, model, names), names


def _tasks(options: Asynchronous, step: int) -> list[Task]:
    first = 1_000_000 + step * options.tasks
    return [(_ENVIRONMENT, f"echo_{number}") for number in range(first, first + options.tasks)]


async def _with_barrier(
    options: Asynchronous, places: _Places, console: Console
) -> tuple[Side, float]:
    """Return what was measured, and how long the learner takes for a step."""
    meter = _Meter(places.engine)
    async with _open(options, places, "barrier") as (rollouts, learner, names):
        for step in range(options.barrier_steps):
            if step == 1:
                await meter.begin()
            episodes = await rollouts.play(step, _tasks(options, step), samples=options.group)
            meter.add(step, 0, episodes, names)
            if not step:
                learner.seconds = options.learner_share * meter.live / options.concurrency
                console.print(f"the learner takes {learner.seconds:.1f} s a step")
            await learner.learn(step, meter)
            console.print(f"with a barrier: step {step + 1} of {options.barrier_steps}")
        side = await meter.side(options.barrier_steps - 1)
    side.places_empty = 1 - meter.live / (side.seconds * options.concurrency)
    return side, learner.seconds


async def _without_barrier(
    options: Asynchronous, places: _Places, seconds: float, console: Console
) -> Side:
    meter = _Meter(places.engine)
    async with _open(options, places, "stream") as (rollouts, learner, names):
        learner.seconds = seconds
        order = GroupOrder(lambda step: _tasks(options, step), options.group)
        ledger = TakenGroups(places.folder / "stream" / LEDGER_FILE)
        settings = StreamSettings(
            batch=options.tasks,
            staleness=options.staleness,
            # Beyond what is measured: at its end a run plays less and less.
            steps=options.steps + options.staleness + 1,
            versions=names,
            max_rounds=lambda _step: 0,
        )
        async with RolloutStream(rollouts, order, ledger, settings) as stream:
            for step in range(options.steps):
                episodes = stream.read(await stream.take())
                if step == 1:
                    await meter.begin()
                    stream.live.take()
                meter.add(step, options.staleness, episodes, names)
                await learner.learn(step, meter)
                stream.advance()
                console.print(f"without: step {step + 1} of {options.steps}")
            side = await meter.side(options.steps - 1)
            side.places_empty = 1 - stream.live.take()[1] / options.concurrency
            side.dropped_groups = stream.dropped
    return side


@asynccontextmanager
async def _engine(options: Asynchronous, model: Path) -> AsyncGenerator[str]:
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "benchmark.training.spread_engine", "--model", str(model)]
    command += ["--port", str(port), "--step-ms", str(options.step_ms)]
    command += ["--weights-ms", str(options.weights_ms)]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.1)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def _idle_seconds(url: str) -> float:
    """What the fake engine says of the time in which no request ran."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/server_info") as response:
        return (await response.json())["fake_idle_seconds"]


def main() -> None:
    """Measure, print, write."""
    options = tyro.cli(Asynchronous, prog="python -m benchmark.training.asynchronous")
    console = Console()
    sides = run_loop(measure(options, console))
    figures = {name: asdict(side) for name, side in sides.items()}
    faster = sides["asynchronous"].steps_per_hour / sides["barrier"].steps_per_hour
    table = Table("figure", "with a barrier", "without", title=f"{faster:.2f} times the steps")
    for name, value in figures["barrier"].items():
        values = (value, figures["asynchronous"][name])
        shown = (f"{it:.3f}" if isinstance(it, float) else str(it) for it in values)
        table.add_row(name, *shown)
    console.print(table)
    plain: dict[str, Any] = {
        "options": {name: value for name, value in asdict(options).items() if name != "out"},
        "times_the_steps_per_hour": faster,
        "sides": figures,
        "manifest": asdict(read_manifest()),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(plain, indent=2) + "\n")


if __name__ == "__main__":
    main()
