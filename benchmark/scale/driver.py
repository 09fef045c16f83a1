"""`python -m benchmark.scale.driver`: what a worker, a message and an episode cost a driver.

The real driver (`orchestrator.ray_cluster.driver`) hands out episodes to workers that play nothing:
2,000 are live at once and each is for a second. Once with Ray, whose actors are processes: what
counts is the CPU of all of the driver's threads, Ray's included. And once without, to many workers
that live in one other thread: what counts is the CPU of the driver's thread.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import tyro

from benchmark.manifest import PACKAGES, read_manifest
from benchmark.scale.idle import IdleWorker
from orchestrator.errors import FleetError
from orchestrator.fleet import Fleet
from orchestrator.leases import LeasePolicy
from orchestrator.manifest import Session, begin_session
from orchestrator.ray_cluster.actors import Actor
from orchestrator.ray_cluster.cluster import open_cluster
from orchestrator.ray_cluster.driver import RolloutDriver, Staffing
from orchestrator.ray_cluster.messages import Welcome
from orchestrator.ray_cluster.placement import Needs, Node, Slot
from orchestrator.ray_config import RayConfig
from orchestrator.records import EpisodeKey
from orchestrator.retry import RetryBudget, RetryPolicy
from orchestrator.run_limits import RunAccount, RunLimits
from orchestrator.scheduler import Limits, Scheduler

__all__ = ["Figures", "fit", "main", "measure"]

RESULT: Final = Path(__file__).parent.parent / "results" / "scale" / "driver.json"
_ENVIRONMENT: Final = "echo"
_JOIN_SECONDS: Final = 300.0
_SETTLE_EPISODES: Final = 12
"""For so many times as long as one is live nothing is measured after the last worker has joined."""

Hire = Callable[[Slot], Actor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Measure a driver."""

    without_ray: tuple[int, ...] = (1, 4, 16, 64, 256)
    """Numbers of workers."""
    with_ray: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of workers, each a process; none = Ray is not needed."""
    live: int = 2000
    """Episodes that are live at once."""
    episode: float = 1.0
    """Seconds of each."""
    seconds: float = 10.0
    """For which each number is measured."""
    out: Path | None = RESULT
    """File of the result; `None` writes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one number of workers came to."""

    workers: int
    seconds: float
    episodes: int
    messages: int
    cpu_seconds: float
    episodes_per_second: float
    messages_per_episode: float
    cpu_us_per_episode: float


class _Room:
    """A fleet whose servers take everything: a driver that is measured has nothing to follow."""

    def __init__(self, episodes: int) -> None:
        self._episodes = episodes

    def capacities(self) -> dict[str, int]:
        """Return room for all."""
        return {_ENVIRONMENT: self._episodes}

    @contextmanager
    def followed(
        self, on_change: Callable[[], None], on_failure: Callable[[FleetError], None]
    ) -> Iterator[None]:
        """Tell once what there is: it stays so."""
        on_change()
        yield


class _Counted:
    """An actor whose messages are counted."""

    def __init__(self, actor: Actor, note: Callable[[], None]) -> None:
        self._actor = actor
        self._note = note

    async def call(self, method: str, *arguments: object) -> Any:
        """Return what the actor returns."""
        if method == "exchange":
            self._note()
        return await self._actor.call(method, *arguments)

    def kill(self) -> None:
        """End it."""
        self._actor.kill()


class _Elsewhere:
    """A worker in another thread's loop."""

    def __init__(self, worker: IdleWorker, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._loop = loop

    async def call(self, method: str, *arguments: object) -> Any:
        """Return what the worker returns."""
        work: Coroutine[Any, Any, Any] = getattr(self._worker, method)(*arguments)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def kill(self) -> None:
        """Do nothing: it ends with its thread."""


async def measure(
    options: Options, workers: int, hire: Hire, clock: Callable[[], float]
) -> Figures:
    """Return the figures of so many workers.

    Args:
        options: How many episodes, for how long.
        workers: How many.
        hire: Starts one.
        clock: CPU seconds of the driver so far.
    """
    messages = ended = 0

    def note_message() -> None:
        nonlocal messages
        messages += 1

    def note_end(_counts: object) -> None:
        nonlocal ended
        ended += 1

    total = round(options.live / options.episode * (options.seconds + 60.0))
    driver = _make_driver(options, total, lambda slot: _Counted(hire(slot), note_message), note_end)
    node = Node(id="node", host="127.0.0.1", cpus=1.0, memory=0.0)
    driver.want([Slot(node, number) for number in range(workers)])
    running = asyncio.create_task(driver.run())
    async with asyncio.timeout(_JOIN_SECONDS):
        while driver.workers < workers and not running.done():
            await asyncio.sleep(0.1)
    await asyncio.sleep(_SETTLE_EPISODES * options.episode)
    before, cpu, began = (messages, ended), clock(), time.monotonic()
    await asyncio.sleep(options.seconds)
    cpu, seconds = clock() - cpu, time.monotonic() - began
    sent, played = messages - before[0], ended - before[1]
    driver.stop()
    await running
    if not played:
        raise RuntimeError(f"no episode ended within {seconds:.0f} s: measure longer (--seconds)")
    return Figures(
        workers=workers,
        seconds=round(seconds, 2),
        episodes=played,
        messages=sent,
        cpu_seconds=round(cpu, 4),
        episodes_per_second=round(played / seconds, 1),
        messages_per_episode=round(sent / played, 5),
        cpu_us_per_episode=round(cpu / played * 1e6, 1),
    )


def _make_driver(
    options: Options, total: int, hire: Hire, on_outcome: Callable[[object], None]
) -> RolloutDriver:
    return RolloutDriver(
        Scheduler(
            (EpisodeKey(_ENVIRONMENT, f"echo_{number}", 0, "idle") for number in range(total)),
            limits=Limits(total=options.live),
            retries=RetryBudget(RetryPolicy()),
        ),
        cast("Fleet", _Room(total)),
        Staffing(
            hire=hire,
            welcome=_welcome,
            release=lambda _slot, actor: actor.kill(),
            stores=(),
            versions={},  # workers are processes of this program
            concurrency=options.live,
            source=None,
            patience=60.0,
            session=1,
        ),
        on_outcome,
        account=RunAccount(RunLimits()),
        on_limit=lambda _limit: None,
        tell=lambda event: print(event, file=sys.stderr),
        leases=LeasePolicy(),
    )


def _welcome(name: str, slot: Slot) -> Welcome:
    """Return what a worker is told that plays nothing."""
    return Welcome(
        name=name,
        node=slot.node.id,
        runs=(),
        policies={},
        workers=1,
        members=None,
        token="",
        lease=LeasePolicy().seconds,
    )


_sessions: list[Session] = []


def _session() -> Session:
    """Return this process's session: hashing all code takes a while."""
    if not _sessions:
        _sessions.append(begin_session())
    return _sessions[0]


@contextmanager
def _other_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loops: Future[asyncio.AbstractEventLoop] = Future()
    over = asyncio.Event()

    async def live() -> None:
        loops.set_result(asyncio.get_running_loop())
        await over.wait()

    # What is left of the workers' tasks ends with it.
    thread = threading.Thread(target=lambda: asyncio.run(live()), daemon=True)
    thread.start()
    loop = loops.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()


def _measure_without_ray(options: Options, workers: int) -> Figures:
    with _other_thread() as loop:

        def hire(_slot: Slot) -> Actor:
            return _Elsewhere(IdleWorker(options.episode, _session()), loop)

        return asyncio.run(measure(options, workers, hire, time.thread_time))


async def _measure_with_ray(options: Options) -> list[Figures]:
    found: list[Figures] = []
    async with _cluster() as start:
        for workers in options.with_ray:
            hire = partial(_hire_actor, start, options.episode)
            found.append(await measure(options, workers, hire, time.process_time))
            print(found[-1], flush=True)
    return found


def _hire_actor(start: Callable[..., Actor], episode: float, _slot: Slot) -> Actor:
    return start(seconds=episode, session=_session())


@asynccontextmanager
async def _cluster() -> AsyncGenerator[Callable[..., Actor]]:
    """Start Ray on this machine, for as many workers as are wanted: they do nothing."""
    async with open_cluster(RayConfig(address="local")) as host:
        node = (await host.nodes())[0]
        yield partial(host.start, IdleWorker, node, Needs(cpus=0.0))


def fit(figures: Sequence[Figures]) -> dict[str, float]:
    """Return seconds of a message and of an episode, by least squares of CPU seconds."""
    counted = np.array([[it.messages, it.episodes] for it in figures], dtype=float)
    cpu = np.array([it.cpu_seconds for it in figures])
    (message, episode), *_ = np.linalg.lstsq(counted, cpu, rcond=None)
    return {
        "message_seconds": round(float(message), 7),
        "episode_seconds": round(float(episode), 8),
    }


def main(options: Options) -> None:
    """Measure, print, write the figures."""
    manifest = read_manifest((*PACKAGES, "ray"))
    without_ray = [_measure_without_ray(options, workers) for workers in options.without_ray]
    for found in without_ray:
        print(found)
    with_ray = asyncio.run(_measure_with_ray(options)) if options.with_ray else []
    result: dict[str, Any] = {
        "manifest": asdict(manifest),
        "busy machine": manifest.busy,
        "options": {"live": options.live, "episode": options.episode, "seconds": options.seconds},
    }
    for name, figures in (("without Ray", without_ray), ("with Ray", with_ray)):
        if figures:
            result[name] = {"fit": fit(figures), "workers": [asdict(it) for it in figures]}
            print(name, result[name]["fit"])
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
