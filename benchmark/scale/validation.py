"""`python -m benchmark.scale.validation`: real runs on raylets, beside what the model says of them.

Two runs on one raylet, of short and of long episodes, tell what an episode and a turn take of the
CPU, and how long a turn takes beside them. `benchmark.scale.driver` told what a message takes. By
these costs runs of another length on 1, 2 and 4 raylets are predicted, and then made: first
with replies of a second, so that the machine is not the limit, then with none, so that it is.

Either is predicted by costs of its own. A process that rests between turns is woken for each, and
sends and reads a message for each; one that never rests finds several waiting, answers them in one
message, and takes half as much for a turn. Where many processes share a core, an episode costs two
and three times as much: they find each other's data in its caches, and have shorter messages to
read. So costs of processes that never rest are told by runs on the smallest part of the machine
that is as crowded: for four nodes on two cores, by two nodes on one. Nothing is calibrated on a run
that is predicted; what others use of the machine meanwhile is measured, and is no cost of ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import psutil
import tyro

from benchmark.manifest import PACKAGES, read_manifest
from benchmark.scale import real_runs
from benchmark.scale.driver import RESULT as DRIVER
from benchmark.scale.model import Cluster, Costs, Workload
from benchmark.scale.real_runs import Played, Setting
from benchmark.scale.simulation import Simulation

__all__ = ["calibrate", "main", "predict", "smallest_as_crowded"]

RESULT: Final = DRIVER.with_name("validation.json")
_TURNS: Final = (2, 8)
"""Of the episodes by which costs are told apart."""
_JOINING: Final = 1.0
"""Seconds between two workers that join; what happens until then is in no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Validate the model."""

    nodes: tuple[int, ...] = (1, 2, 4)
    live: int = 200
    """Episodes that are live at once for each node, where replies take time."""
    reply: float = 1.0
    """Seconds of a reply there."""
    busy_live: int = 32
    """Episodes that are live at once for each node, where replies take none."""
    turns: int = 6
    """Of the episodes that are predicted."""
    lives: int = 6
    """Episodes of a run for each that is live at once; 0 = only runs whose replies take no time."""
    busy_episodes: int = 4000
    """Of a run for each node, where replies take no time; 0 = no such runs."""
    repeats: int = 3
    """Runs of each of those, in turns: their rates differ by a fifth. The median counts."""
    costs: Path | None = None
    """File of an earlier result whose costs count; `None` = calibrate."""
    out: Path | None = RESULT
    """File of the result; `None` writes nothing."""


def calibrate(runs: Sequence[tuple[Setting, Played]], driver: dict[str, float]) -> Costs:
    """Return costs by two runs on one node that differ in their episodes' turns alone.

    Args:
        runs: The one of shorter episodes first.
        driver: Seconds of a message and of an episode.
    """
    (short, few), (long, many) = runs
    turns = long.turns - short.turns

    def split(kind: str) -> tuple[float, float]:
        turn = max(0.0, (many.cpu[kind] - few.cpu[kind]) / turns)
        return max(0.0, few.cpu[kind] - short.turns * turn), turn

    worker_episode, worker_turn = split("worker")
    server_reset, server_step = split("server")
    costs = Costs(
        driver_message=driver["message_seconds"],
        driver_episode=driver["episode_seconds"],
        worker_episode=worker_episode,
        worker_turn=worker_turn,
        server_reset=server_reset,
        server_step=server_step,
    )
    # What a turn takes beside its reply and the CPU: the kernel, gRPC's threads, timers, others.
    _, sojourn = predict(long, costs)
    return replace(costs, network=max(0.0, many.sojourn - sojourn) / (long.turns + 1))


def predict(setting: Setting, costs: Costs, elsewhere: float = 0.0) -> tuple[float, float]:
    """Return episodes a second as `real_runs` takes them, and the mean seconds of an episode."""
    cores = setting.cores or _cores()
    simulation = Simulation(
        Workload(episodes=setting.episodes, turns=setting.turns, reply=setting.reply),
        Cluster(
            nodes=setting.nodes,
            concurrency=setting.concurrency,
            cores=cores,
            elsewhere=min(elsewhere, cores - 0.1),
            joining=_JOINING,
        ),
        costs,
    )
    ends: list[float] = []
    simulation.on_end = lambda _key: ends.append(simulation.clock.now)
    result = simulation.play()
    return real_runs.rate(ends)[0], result.sojourn


def _compare(setting: Setting, costs: Costs) -> dict[str, Any]:
    """Play a run and return it beside its prediction."""
    alone, sojourn = predict(setting, costs)
    played = real_runs.play(setting)
    elsewhere = max(0.0, played.cpu["elsewhere"])
    predicted = predict(setting, costs, elsewhere)[0] if setting.reply == 0.0 else alone
    row = {
        "nodes": setting.nodes,
        "live": setting.concurrency,
        "reply_seconds": setting.reply,
        "measured_per_second": round(played.per_second, 2),
        "predicted_per_second": round(predicted, 2),
        "error": round(predicted / played.per_second - 1, 3),
        "predicted_alone_per_second": round(alone, 2),
        "measured_sojourn": round(played.sojourn, 3),
        "predicted_sojourn": round(sojourn, 3),
        "seconds": round(played.seconds, 1),
        "elsewhere_cores": round(elsewhere, 2),
        "cpu_of_an_episode": played.cpu,
    }
    print(row, flush=True)
    return row


@dataclass(frozen=True, slots=True)
class _Calibration:
    costs: Costs
    runs: Sequence[tuple[Setting, Played]]

    def to_json(self) -> dict[str, Any]:
        runs = [{**asdict(setting), **asdict(played)} for setting, played in self.runs]
        return {"costs": asdict(self.costs), "calibration": runs}


def _calibrate_resting(options: Options, driver: dict[str, float]) -> _Calibration:
    """Return the costs of processes that rest between turns."""
    if options.costs is not None:
        return _Calibration(Costs(**json.loads(options.costs.read_text())["costs"]), ())
    settings = [
        Setting(
            nodes=1,
            concurrency=options.live,
            episodes=options.live * max(options.lives, 30 // turns),
            turns=turns,
            reply=options.reply,
        )
        for turns in _TURNS
    ]
    runs = [(setting, real_runs.play(setting)) for setting in settings]
    return _Calibration(calibrate(runs, driver), runs)


def smallest_as_crowded(nodes: int, cores: int) -> tuple[int, int]:
    """Return the fewest nodes and cores of which as many nodes share a core."""
    times = math.gcd(nodes, cores)
    return nodes // times, cores // times


def _calibrate_busy(
    options: Options, driver: dict[str, float], nodes: int, cores: int
) -> _Calibration:
    """Return the costs of processes that never rest; what they wait is for each other."""
    settings = [
        Setting(
            nodes=nodes,
            concurrency=options.busy_live * nodes,
            episodes=options.busy_episodes * nodes,
            turns=turns,
            reply=0.0,
            cores=cores,
        )
        for turns in _TURNS
    ]
    runs = [(setting, real_runs.play(setting)) for setting in settings]
    for run in runs:
        print(run, flush=True)
    costs = calibrate(runs, driver)
    # Ray's own processes are on the same cores; whose job it is makes no difference there.
    ray = sum(played.cpu["other"] for _, played in runs) / len(runs)
    costs = replace(costs, network=0.0, driver_episode=costs.driver_episode + max(0.0, ray))
    return _Calibration(costs, runs)


def _compare_resting(options: Options, costs: Costs) -> list[dict[str, Any]]:
    return [
        _compare(
            Setting(
                nodes=nodes,
                concurrency=options.live * nodes,
                episodes=options.live * nodes * options.lives,
                turns=options.turns,
                reply=options.reply,
            ),
            costs,
        )
        for nodes in (options.nodes if options.lives else ())
    ]


def _compare_busy(
    options: Options, calibrations: Mapping[tuple[int, int], _Calibration]
) -> list[dict[str, Any]]:
    """Return the median of several runs of each size, which take turns, with all their rates."""
    settings = [
        Setting(
            nodes=nodes,
            concurrency=options.busy_live * nodes,
            # Longer than all workers take to start, on cores that they share.
            episodes=options.busy_episodes * nodes,
            turns=options.turns,
            reply=0.0,
        )
        for nodes in options.nodes
    ]
    rows: list[list[dict[str, Any]]] = [[] for _ in settings]
    for _ in range(options.repeats):
        for setting, runs in zip(settings, rows, strict=True):
            costs = calibrations[smallest_as_crowded(setting.nodes, _cores())].costs
            runs.append(_compare(setting, costs))
    return [_median(runs) for runs in rows]


def _median(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rates = [run["measured_per_second"] for run in runs]
    middle = next(run for run in runs if run["measured_per_second"] == median_low(rates))
    return {**middle, "rates": rates}


def _cores() -> int:
    return psutil.cpu_count() or 1


def main(options: Options) -> None:
    """Calibrate, predict, play, print, write."""
    manifest = read_manifest((*PACKAGES, "ray"))
    driver = json.loads(DRIVER.read_text())["with Ray"]["fit"]
    resting = _calibrate_resting(options, driver)
    print(resting.costs, flush=True)
    result: dict[str, Any] = {
        "manifest": asdict(manifest),
        "busy machine": manifest.busy,
        **resting.to_json(),
        "replies of a second": _compare_resting(options, resting.costs),
        "replies without time": [],
    }
    if options.busy_episodes:
        crowds = {smallest_as_crowded(nodes, _cores()) for nodes in options.nodes}
        busy = {crowd: _calibrate_busy(options, driver, *crowd) for crowd in sorted(crowds)}
        result["never resting"] = [it.to_json() for it in busy.values()]
        result["replies without time"] = _compare_busy(options, busy)
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
