"""What Ray costs a run, what a further worker costs its driver, and how soon a new node plays.

    python -m benchmark.ray_cluster
    python -m benchmark.ray_cluster --episodes 400 --repeats 1 --workers 1 4 --out -

Throughput: the same driver, workers and servers, as processes that Ray starts and calls and as ones
that are started and called over pipes, in turn, again and again. The driver's CPU (Ray's threads in
it included) is counted with several numbers of workers on Ray. Both are counted from when all
workers are there. How soon a node plays: seconds from when Ray knows it until an episode that was
played there is on record. Raylets of this machine stand for machines.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple
from unittest import mock

import psutil
import tyro
from rich.console import Console

from benchmark.manifest import read_manifest, write_result
from orchestrator.config import RunConfig, parse_policies
from orchestrator.ray_cluster import workplace
from orchestrator.ray_cluster.actors import ActorLost
from orchestrator.ray_cluster.driver import RolloutDriver
from orchestrator.ray_cluster.messages import Report
from orchestrator.ray_cluster.placement import Needs, Node
from orchestrator.ray_config import RayConfig
from orchestrator.run import run
from orchestrator.run_folder import shard_folder, shard_names
from orchestrator.store import RunReader

_CPUS: Final = 64
"""That nodes claim to have: here every process shares the machine's."""
_GIB: Final = 1 << 30
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """Measure runs on Ray."""

    episodes: int = 2000
    """Of each measured run."""
    concurrency: int = 64
    repeats: int = 3
    """Pairs of runs whose throughput is compared; 0 = only the driver's CPU is measured."""
    workers: tuple[int, ...] = (1, 4, 16)
    """With which the driver's CPU is measured."""
    out: str = "benchmark/results/ray_cluster.json"
    """File for the figures; - = standard output."""


class PipedActor:
    """An object in a process of its own, called over a pipe."""

    def __init__(self, kind: type[Any], arguments: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        packed = pickle.dumps((kind, arguments))
        self._process = context.Process(target=_live, args=(theirs, packed))
        self._process.start()
        theirs.close()
        self._loop = asyncio.get_running_loop()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self._reading = asyncio.create_task(asyncio.to_thread(self._read))

    async def call(self, method: str, *arguments: object) -> Any:
        """Return what a method returns; raises ActorLost."""
        self._calls += 1
        answer = self._answers[self._calls] = self._loop.create_future()
        try:
            self._pipe.send((self._calls, method, arguments))
        except OSError as error:
            raise ActorLost(str(error)) from error
        return await answer

    def kill(self) -> None:
        """End its process."""
        self._process.kill()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                number, value = self._pipe.recv()
                self._loop.call_soon_threadsafe(self._answers.pop(number).set_result, value)
        self._loop.call_soon_threadsafe(self._lose)

    def _lose(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ActorLost("its process has ended"))
        self._answers.clear()


def _live(pipe: Connection, packed: bytes) -> None:
    """Be an actor, until nobody is at the other end of the pipe."""
    kind, arguments = pickle.loads(packed)

    async def main() -> None:
        made, calls = kind(**arguments), set[asyncio.Task[None]]()

        async def answer(number: int, method: str, given: tuple[object, ...]) -> None:
            pipe.send((number, await getattr(made, method)(*given)))

        while True:
            try:
                order = await asyncio.to_thread(pipe.recv)
            except (EOFError, OSError):
                os._exit(0)
            task = asyncio.create_task(answer(*order))
            calls.add(task)
            task.add_done_callback(calls.discard)

    asyncio.run(main())


class PipedHost:
    """One node whose actors are plain processes."""

    async def nodes(self) -> Sequence[Node]:
        """Return the node."""
        return [Node(id="here", host="127.0.0.1", cpus=_CPUS, memory=64.0 * _GIB)]

    def start(self, kind: type[Any], node: Node, needs: Needs, **arguments: object) -> PipedActor:
        """Start a process."""
        return PipedActor(kind, arguments)

    @asynccontextmanager
    async def open(self, _config: object) -> AsyncGenerator[PipedHost]:
        """Take the place of `open_cluster`."""
        yield self


class Span(NamedTuple):
    """What part of a run took."""

    seconds: float
    driver: float
    """CPU seconds of this process, Ray's threads in it included."""
    all: float
    """CPU seconds of driver, workers, servers and, where they are Ray's, of Ray."""
    records: int


class MeasuredDriver(RolloutDriver):
    """Notes what it costs from when all workers are there, and stops after so many records."""

    workers_wanted = 1
    records_wanted = 1
    span = Span(0.0, 0.0, 0.0, 0)
    """Of the last run."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._first: tuple[float, float, float] | None = None
        self._records = 0

    def _take(self, seat: Any, report: Report) -> None:
        super()._take(seat, report)
        if self.workers < self.workers_wanted or not report.outcomes:
            return
        if self._first is None:
            self._first = _clocks()
            return
        self._records += len(report.outcomes)
        if self._records >= self.records_wanted and not self._closing:
            seconds, here, everywhere = _clocks()
            MeasuredDriver.span = Span(
                seconds - self._first[0],
                here - self._first[1],
                everywhere - self._first[2],
                self._records,
            )
            self.stop()


def _clocks() -> tuple[float, float, float]:
    """Return the time, and the CPU seconds of this process and of all that it started."""
    here = psutil.Process()
    cpu = 0.0
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            cpu += times.user + times.system
    return time.monotonic(), time.process_time(), cpu


def _config(options: Options, address: str, workers: int) -> RunConfig:
    return RunConfig(
        environments=("maze",),
        policies=parse_policies("expert"),
        split="train",
        episodes=100,
        samples=1000,  # more than are played
        concurrency=options.concurrency,
        cluster=RayConfig(address=address, ray_workers=workers, ray_servers=2),
    )


def _play(options: Options, address: str, workers: int, *, on_pipes: bool = False) -> Span:
    """Play a run; return what its measured part took."""
    config, quiet = _config(options, address, workers), Console(quiet=True)
    MeasuredDriver.workers_wanted = workers
    MeasuredDriver.records_wanted = options.episodes
    MeasuredDriver.span = Span(0.0, 0.0, 0.0, 0)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agentgym-ray-"))
        stack.enter_context(mock.patch.object(workplace, "RolloutDriver", MeasuredDriver))
        if on_pipes:
            stack.enter_context(mock.patch.object(workplace, "open_cluster", PipedHost().open))
        asyncio.run(run(config, Path(folder, "run"), resume=False, console=quiet))
    if not MeasuredDriver.span.records:
        raise RuntimeError("the run ended before it was measured")
    return MeasuredDriver.span


def compare(options: Options, address: str) -> dict[str, Any]:
    """Return what runs with Ray and without took, in turn, and the ratios of their medians.

    Where others use the machine, seconds tell who got it: then the CPU seconds of all processes
    are to be compared.
    """
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * options.repeats):
        on_pipes = number % 4 in (0, 3)  # who is first changes
        span = _play(options, address, 2, on_pipes=on_pipes)
        rates[on_pipes].append(span.records / span.seconds)
        costs[on_pipes].append(1e3 * span.all / span.records)
        print("without" if on_pipes else "with", f"Ray: {span}", flush=True)
    return {
        "episodes_per_second": _sides(rates),
        "ratio_of_rates": round(median(rates[False]) / median(rates[True]), 3),
        "cpu_ms_per_episode_of_all_processes": _sides(costs),
        "ratio_of_rates_by_cpu": round(median(costs[True]) / median(costs[False]), 3),
    }


def _sides(found: dict[bool, list[float]]) -> dict[str, list[float]]:
    rounded = {side: [round(it, 2) for it in values] for side, values in found.items()}
    return {"with_ray": rounded[False], "without": rounded[True]}


def measure_driver(options: Options, address: str) -> dict[str, dict[str, float]]:
    """Return the driver's CPU milliseconds for an episode, by number of workers."""
    figures: dict[str, dict[str, float]] = {}
    for workers in options.workers:
        span = _play(options, address, workers)
        figures[str(workers)] = {
            "cpu_ms_per_episode": round(1e3 * span.driver / span.records, 3),
            "cpu_ms_per_second": round(1e3 * span.driver / span.seconds, 1),
            "episodes_per_second": round(span.records / span.seconds, 1),
        }
        print(f"{workers} workers: {figures[str(workers)]}", flush=True)
    return figures


def measure_join(options: Options, address: str, add_node: Callable[[], object]) -> float:
    """Return the seconds from when Ray knows a node until a record was made there."""
    config = _config(options, address, 1)

    async def measure(folder: Path) -> float:
        playing = asyncio.create_task(
            run(config, folder, resume=False, console=Console(quiet=True))
        )
        await _until(lambda: _recorded(folder) == 1, playing)
        add_node()  # in this thread: Ray's handlers of signals want it
        joined = time.monotonic()
        await _until(lambda: _recorded(folder) == 2, playing)
        seconds = time.monotonic() - joined
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
        return seconds

    with tempfile.TemporaryDirectory(prefix="agentgym-ray-") as folder:
        return asyncio.run(measure(Path(folder, "run")))


async def _until(condition: Callable[[], bool], playing: asyncio.Task[Any]) -> None:
    while not await asyncio.to_thread(condition):
        if playing.done():
            raise RuntimeError(f"the run has ended: {playing}")
        await asyncio.sleep(_LOOK_SECONDS)


def _recorded(folder: Path) -> int:
    """Return how many workers have recorded an episode."""
    count = 0
    for name in shard_names(folder):
        with RunReader.open(shard_folder(folder, name)) as reader:
            count += reader.count() > 0
    return count


def main(options: Options) -> None:
    """Measure, print, write the figures."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    manifest = read_manifest()
    cluster = import_module("ray.cluster_utils").Cluster()
    cluster.add_node(num_cpus=_CPUS, include_dashboard=False)
    try:
        address = str(cluster.address)
        figures: dict[str, Any] = {"driver": measure_driver(options, address)}
        if options.repeats:
            figures["throughput"] = compare(options, address)
            join = measure_join(options, address, lambda: cluster.add_node(num_cpus=_CPUS))
            figures["join_seconds"] = round(join, 2)
    finally:
        cluster.shutdown()
    result: dict[str, Any] = {
        "benchmark": "ray_cluster",
        "manifest": asdict(manifest),
        "options": asdict(options),
        "figures": figures,
    }
    print(json.dumps(figures, indent=2))
    write_result(options.out, result)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
