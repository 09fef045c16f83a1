"""`python -m benchmark.scale`: what runs on 1 to 1,000 nodes come to, and what limits them first.

Each node has a worker and a server on cores of their own. The figures are those of `inputs.toml`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import tyro

from benchmark.manifest import read_manifest
from benchmark.scale.inputs import RESULTS, Inputs, read_inputs
from benchmark.scale.model import Cluster, Death, Deaths, Result, Workload
from benchmark.scale.simulation import simulate

__all__ = ["main"]

_NO_END: Final = 10**12
"""Episodes of a run that does not end within the simulation."""
_FAST_REPLY: Final = 0.5
"""Seconds of a reply of a small model, or of a script."""
_FULL: Final = 0.95
"""Share of its time from which a resource is the limit."""
_SIMPLIFIED: Final = """\
- Percentages are shares of the time in which a resource was busy, mean of all workers or servers,
  each of which has a core of its own. Without a full one the replies themselves are the limit.
- Rates are counted for as long as one episode takes, after one and a half times as long: of
  episodes that all began at once they may be off by a tenth.
- At 100 nodes episodes of a worker go in tens, at 1,000 in hundreds, through their turns together,
  on one server: messages are fewer than they would be (at most 500 a second), waits longer.
- An engine takes as long for a reply whatever else it writes, and no place of one is empty while
  a reply waits.
- Not simulated: memory, disks, networks' widths, the connections of each worker to each server,
  Ray's own limits, and leases that run out because the driver is full."""
_RESOURCES: Final = ("driver", "workers", "servers", "engines")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Simulate runs of all sizes."""

    nodes: tuple[int, ...] = (1, 10, 100, 1000)
    cohorts: int = 10_000
    """Groups of episodes that are simulated as one, at most: 1,000,000 episodes go in hundreds."""
    seed: int = 1
    out: Path | None = RESULTS / "scale" / "sizes.json"
    """File of the result, and beside it the table as Markdown; `None` writes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What is simulated for all sizes."""

    title: str
    workload: str
    reply: float
    engines_per_node: float | None
    """None = as many as it takes."""


def _cases(inputs: Inputs) -> Iterator[_Case]:
    reply = inputs["run.reply"]
    for workload in inputs.workloads:
        yield _Case(
            title=f"{workload}, replies of {reply:.1f} s, as many engines as it takes",
            workload=workload,
            reply=reply,
            engines_per_node=None,
        )
    yield _Case(
        title=f"games, replies of {reply:.1f} s, an engine on each node",
        workload="games",
        reply=reply,
        engines_per_node=1,
    )
    yield _Case(
        title=f"games, replies of {_FAST_REPLY} s, as many engines as it takes",
        workload="games",
        reply=_FAST_REPLY,
        engines_per_node=None,
    )


def _simulate(
    case: _Case, nodes: int, inputs: Inputs, options: Options, death: float | None = None
) -> tuple[Result, Cluster, float]:
    """Return what comes out, of which cluster, and the CPU seconds of simulating it.

    With `death` a node dies in the middle, and its driver is told after so many seconds.
    """
    live = nodes * round(inputs["run.live"])
    each = case.engines_per_node
    cluster = Cluster(
        nodes=nodes,
        concurrency=live,
        places=None if each is None else round(nodes * each * inputs["run.places"]),
        cohort=math.ceil(live / options.cohorts),
    )
    workload = Workload(
        episodes=_NO_END,
        turns=round(inputs["run.turns"]),
        reply=case.reply,
        spread=inputs["run.spread"],
        failures=inputs["run.failures"],
    )
    costs = inputs.costs(case.workload)
    # The longest of an episode without a queue, and of one where a resource is full.
    alone = workload.turns * case.reply
    work = max(
        costs.worker_episode + workload.turns * costs.worker_turn,
        costs.server_reset + workload.turns * costs.server_step,
        nodes * costs.driver_episode,
    )
    held = inputs["run.live"] / inputs["run.places"] / (each or math.inf)
    sojourn = max(alone, work * inputs["run.live"], alone * held)
    warm_up = 1.5 * sojourn
    deaths = Deaths()
    if death is not None:
        deaths = Deaths(
            of=(Death(warm_up, nodes // 2),), noticed=death, replaced=inputs["death.replaced"]
        )
    begun = time.process_time()
    result = simulate(
        workload,
        cluster,
        costs,
        deaths,
        until=warm_up + (1.0 if death is None else 3.0) * sojourn,
        warm_up=warm_up,
        seed=options.seed,
    )
    return result, cluster, time.process_time() - begun


def _row(nodes: int, result: Result, cluster: Cluster, cpu: float) -> dict[str, Any]:
    used = {name: round(result.used[name], 3) for name in _RESOURCES}
    fullest = max(used, key=used.__getitem__)
    return {
        "nodes": nodes,
        "live": cluster.concurrency,
        "episodes_per_second": round(result.per_second, 1),
        "playing": round(result.live),
        "sojourn_seconds": round(result.sojourn, 1),
        "used": used,
        "waits_ms": {name: round(1e3 * result.waits[name], 2) for name in _RESOURCES},
        "messages_per_second": round(result.messages_per_second, 1),
        "limit": fullest if used[fullest] >= _FULL else "",
        "cohort": cluster.cohort,
        "simulated_in_cpu_seconds": round(cpu, 1),
    }


def _table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    heads = ("nodes", "live", "episodes/s", "an episode, s", *_RESOURCES, "messages/s", "limit")
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        cells = [
            f"{row['nodes']:,}",
            f"{row['live']:,}",
            f"{row['episodes_per_second']:,}",
            f"{row['sojourn_seconds']:,}",
            *(f"{100 * row['used'][name]:.0f} %" for name in _RESOURCES),
            f"{row['messages_per_second']:,.0f}",
            row["limit"] or "replies",
        ]
        yield f"| {' | '.join(cells)} |"


def _recoveries(case: _Case, inputs: Inputs, options: Options) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for nodes in [it for it in options.nodes if 1 < it <= 100]:
        for told in (inputs["death.noticed"], 1.0):
            result, _, _ = _simulate(case, nodes, inputs, options, death=told)
            (recovery,) = result.recoveries
            row = {name: round(value, 1) for name, value in asdict(recovery).items()}
            rows.append({"nodes": nodes, "told_after_seconds": told, **row})
            print(rows[-1], flush=True)
    return rows


def _markdown(result: dict[str, Any]) -> str:
    manifest = result["manifest"]
    lines = ["# Sizes of clusters, simulated", ""]
    lines += [f"`{manifest['command']}`, {manifest['date'][:10]}, {manifest['cpu']}.", ""]
    for title, rows in result["cases"].items():
        lines += [f"## {title}", "", *_table(rows), ""]
    lines += ["## A node dies", ""]
    lines += ["| nodes | driver is told after, s | episodes held | all granted anew after, s |"]
    lines[-1] += " all ended after, s | turns lost |"
    lines += ["|---|---|---|---|---|---|"]
    for row in result["a node dies"]:
        lines += [f"| {' | '.join(f'{value:,}' for value in row.values())} |"]
    lines += ["", "## What is simplified", "", _SIMPLIFIED]
    lines += ["", "## Assumptions", "", "| figure | value | source |", "|---|---|---|"]
    for name, figure in result["inputs"].items():
        lines += [f"| {name} | {figure['value']:.4g} | {figure['source']} |"]
    return "\n".join(lines) + "\n"


def main(options: Options) -> None:
    """Simulate, print, write."""
    inputs = read_inputs()
    cases: dict[str, list[dict[str, Any]]] = {}
    for case in _cases(inputs):
        print(case.title, flush=True)
        cases[case.title] = []
        for nodes in options.nodes:
            cases[case.title].append(_row(nodes, *_simulate(case, nodes, inputs, options)))
            print(cases[case.title][-1], flush=True)
    result = {
        "manifest": asdict(read_manifest()),
        "cases": cases,
        "a node dies": _recoveries(next(_cases(inputs)), inputs, options),
        "inputs": {name: asdict(figure) for name, figure in inputs.figures.items()},
    }
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        options.out.with_suffix(".md").write_text(_markdown(result), encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
