"""Trainings as the pages show them: agents with their scores, what was kept, curves of the log.

Whatever a training wrote is read by `orchestrator.training_folder`. Runs that it played are named
as the library names them, so that the pages lead from an iteration to its episodes.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import TrainingUnreadable, UsageError
from orchestrator.statistics import Interval
from orchestrator.training_folder import (
    LOG_FILE,
    RECIPE_FILE,
    REPORT_FILE,
    RESULTS_FILE,
    STATE_FILE,
    Metric,
    TrainingFolder,
    held_by_trainers,
    metrics_from_plain,
    read_training,
)
from orchestrator.viewer.library import Library, stamp_of
from orchestrator.viewer.training_log import LogCurves, read_curves

__all__ = ["Trainings"]

_FILES: Final = (RECIPE_FILE, STATE_FILE, LOG_FILE, REPORT_FILE, RESULTS_FILE)
_INTERVALS: Final = 1024
_ITERATION: Final = re.compile(r"(?P<seed>seed-\d+)/(judge|validate)-iteration-(?P<number>\d+)")
"""Intervals that are remembered."""
_NEWEST: Final = {
    "bc": ("loss", "held_out_loss", "agent_eval/mean"),
    "dpo": ("loss", "margin", "accuracy"),
    "grpo": ("reward", "loss", "kl", "entropy"),
}
"""Figures of a log that stand in the list of trainings."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A training that was read, and the names of what it played and trained."""

    name: str
    training: TrainingFolder
    curves: LogCurves
    runs: Mapping[str, Path]
    trainings: Mapping[str, Path]

    def run(self, *parts: str) -> str | None:
        """Return the run at a path below the training; None = there is none."""
        name = "/".join((self.name, *parts))
        return name if name in self.runs else None

    def nested(self, *parts: str) -> str | None:
        """Return the training at a path below the training; None = there is none."""
        name = "/".join((self.name, *parts))
        return name if name in self.trainings else None

    def result(self, stage: str) -> Mapping[str, Any] | None:
        """Return what a stage said; None = it is not finished."""
        found = self.training.stages.get(stage)
        return None if found is None else found.result

    @property
    def environments(self) -> list[str]:
        """Those of the recipe."""
        return [str(it["name"]) for it in self.training.recipe["environments"]]


class Trainings:
    """The trainings of a library. Any thread may ask."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._curves: dict[Path, tuple[object, LogCurves]] = {}

    def lines(self) -> list[dict[str, Any]]:
        """Return a line for each training that is no part of another one."""
        names = self._library.trainings().keys()
        return [
            self._line(name) for name in names if names.isdisjoint(map(str, Path(name).parents))
        ]

    def _line(self, name: str) -> dict[str, Any]:
        runs = sum(run.startswith(f"{name}/") for run in self._library.folders())
        line: dict[str, Any] = {"training": name, "runs": runs, "problem": ""}
        try:
            read = self._read(name)
            return {**line, **_checked(read, _heading)}
        except TrainingUnreadable as error:
            empty: dict[str, Any] = {
                "algorithm": "",
                "state": "unreadable",
                "progress": "",
                "figures": {},
            }
            return {**line, **empty, "problem": str(error)}

    def training(self, parameters: Mapping[str, str]) -> Any:
        """Return what a training came to so far; its revision alone where that is known."""
        name = parameters.get("training", "")
        folders = self._library.trainings()
        if name not in folders:
            raise UsageError(f"there is no training {name[:200]!r}", valid=list(folders)[:5])
        below = [it for it in self._library.folders() if it.startswith(f"{name}/")]
        state = (self._stamps(folders[name]), len(below), len(folders))
        revision = f"{hash(state) & 0xFFFFFFFF:x}"
        if parameters.get("revision") == revision:
            return {"revision": revision}
        part_of = self._library.training_of(name)
        known = {"revision": revision, "runs": below, "part_of": part_of}
        return {**known, **_checked(self._read(name), _page)}

    def _read(self, name: str) -> _Read:
        runs, trainings = self._library.folders(), self._library.trainings()
        folder = trainings[name]
        stamp = stamp_of(folder / LOG_FILE)
        with self._lock:
            known = self._curves.get(folder)
        if known is None or known[0] != stamp:
            known = (stamp, read_curves(folder / LOG_FILE))
            with self._lock:
                self._curves[folder] = known
        return _Read(name, read_training(folder), known[1], runs, trainings)

    def _stamps(self, folder: Path) -> tuple[object, ...]:
        return (held_by_trainers(folder), *(stamp_of(folder / name) for name in _FILES))


def _checked(read: _Read, describe: Callable[[_Read], dict[str, Any]]) -> dict[str, Any]:
    """Describe a training; raises TrainingUnreadable where its files say what none writes."""
    try:
        return describe(read)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingUnreadable(
            read.training.folder, f"its files are damaged ({error!r})"
        ) from error


def _heading(read: _Read) -> dict[str, Any]:
    """Return what the list of trainings shows."""
    training = read.training
    return {
        "algorithm": training.algorithm,
        "state": training.state,
        "progress": _progress(read),
        "figures": _figures(read),
    }


def _page(read: _Read) -> dict[str, Any]:
    """Return what the page of a training shows."""
    training = read.training
    agents: Iterator[dict[str, Any]] = iter(())
    if training.algorithm == "agentevol":
        agents = _evolved_agents(read)
    elif training.algorithm == "grpo":
        agents = _judged_agents(read)
    return {
        **_heading(read),
        "folder": str(training.folder),
        "agents": list(agents),
        "pooled": _pooled(read) if training.algorithm == "agentevol" else [],
        "curves": read.curves.curves,
        "rows": [_row(read, row) for row in read.curves.last_rows],
        "report": training.report,
        "recipe": training.recipe,
        "stages": [[name, stage.seconds] for name, stage in training.stages.items()],
    }


def _progress(read: _Read) -> str:
    training, step = read.training, read.curves.last_step
    if training.algorithm == "agentevol":
        planned = int(training.recipe["iterations"]) * len(training.recipe["seeds"])
        return f"{len(_evaluated_iterations(read))} of {planned} iterations"
    if training.algorithm == "grpo":
        return f"step {step} of {training.recipe['steps']}"
    return f"step {step}"


def _figures(read: _Read) -> dict[str, float]:
    """Return the newest figures by name."""
    if read.training.algorithm != "agentevol":
        newest = read.curves.newest
        names = _NEWEST.get(read.training.algorithm, ())
        return {name: newest[name] for name in names if name in newest}
    means = {agent: _mean(metrics) for _, agent, _, metrics in _pooled_metrics(read)}
    return {agent: mean for agent, mean in means.items() if mean is not None}


def _row(read: _Read, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the log; of GRPO with the run of its episodes.

    That is the step's, counted from 0, or the one of all steps where they had no barrier.
    """
    if read.training.algorithm != "grpo":
        return dict(row)
    own = read.run("rollouts", f"step-{int(row['step']) - 1:06d}")
    return {**row, "run": own or read.run("rollouts", "stream")}


# ---------------------------------------------------------------- agents


def _evolved_agents(read: _Read) -> Iterator[dict[str, Any]]:
    """Yield the agents of AgentEvol, by seed, in the order in which they come to be."""
    for stage in read.training.stages:
        if stage.startswith("baseline-"):
            scores = _scores(read, stage, "evaluation", stage)
            yield {"agent": stage.removeprefix("baseline-"), "seed": None, "scores": scores}
    for seed in read.training.recipe["seeds"]:
        for name, agent in _agent_names(read):
            found = _evolved_agent(read, f"seed-{seed}", name)
            if found:
                yield {"agent": agent, "seed": seed, **found}


def _agent_names(read: _Read) -> list[tuple[str, str]]:
    """Return pairs (name of folders and stages, name in tables)."""
    # A resume may have asked for more iterations than the recipe that began the run.
    latest = max((number for _, number in _evaluated_iterations(read)), default=0)
    count = max(latest + 1, int(read.training.recipe["iterations"]))
    iterations = [(f"iteration-{number}", f"iteration {number}") for number in range(1, count + 1)]
    return [("bc-base", "BC_base"), ("bc-large", "BC_large"), *iterations]


def _evaluated_iterations(read: _Read) -> set[tuple[str, int]]:
    """Return seed and number of the iterations whose agents were evaluated, on whatever tasks."""
    found = (_ITERATION.fullmatch(name) for name in read.training.stages)
    return {(match["seed"], int(match["number"])) for match in found if match}


def _evolved_agent(read: _Read, seed: str, name: str) -> dict[str, Any] | None:
    """Return what is there of an agent of one seed; None = nothing yet."""
    number = name.removeprefix("iteration-")
    explored = {
        it: run for it in read.environments if (run := read.run(seed, f"explore-{number}", it))
    }
    found = {
        "explored": explored,
        "kept": read.result(f"{seed}/select-{number}"),
        "learned": read.result(f"{seed}/learn-{name}"),
        "training": read.nested(seed, name),
        "scores": _scores(read, f"{seed}/judge-{name}", seed, "evaluation", name),
        "validation": _scores(read, f"{seed}/validate-{name}", seed, "validation", name),
    }
    return found if any(found.values()) else None


def _judged_agents(read: _Read) -> Iterator[dict[str, Any]]:
    """Yield the agents of GRPO: the first one, those of the way, the last one."""
    named = [("first weights", "judge-first", "first")]
    on_the_way = sorted(it for it in read.training.stages if it.startswith("validate-"))
    named += [(f"step {int(it.removeprefix('validate-'))}", it, it) for it in on_the_way]
    named.append(("final weights", "judge-final", "final"))
    for agent, stage, folder in named:
        if scores := _scores(read, stage, "evaluation", folder):
            yield {"agent": agent, "seed": None, "scores": scores}


def _scores(read: _Read, stage: str, *folder: str) -> dict[str, Any]:
    """Return by environment the figure of a judged agent, with its run; empty = none yet."""
    result = read.result(stage)
    metrics = metrics_from_plain(result) if result is not None else {}
    found: dict[str, Any] = {}
    for environment in read.environments:
        run, metric = read.run(*folder, environment), metrics.get(environment)
        if run is not None or metric is not None:
            found[environment] = {**_figure(metric), "run": run}
    return found


def _figure(metric: Metric | None) -> dict[str, Any]:
    if metric is None:
        return {"value": None, "interval": None}
    interval = _interval(metric)
    return {"value": metric.mean, "interval": None if interval is None else list(interval)}


@lru_cache(_INTERVALS)
def _interval(metric: Metric) -> Interval | None:
    """Return the interval of a metric: a bootstrap, which is computed once."""
    return metric.interval


def _mean(metrics: Mapping[str, Metric]) -> float | None:
    """Return the mean over environments; None where one has no episodes."""
    means = [it.mean for it in metrics.values() if it.mean is not None]
    return math.fsum(means) / len(means) if len(means) == len(metrics) > 0 else None


def _pooled(read: _Read) -> list[dict[str, Any]]:
    """Return the agents of AgentEvol with all seeds together that judged them so far."""
    return [
        {
            "agent": agent,
            "seeds": seeds,
            "scores": {it: _figure(metric) for it, metric in metrics.items()},
            "mean": _mean(metrics),
            "kept": _kept(read, name.removeprefix("iteration-")),
        }
        for name, agent, seeds, metrics in _pooled_metrics(read)
    ]


def _pooled_metrics(read: _Read) -> Iterator[tuple[str, str, int, dict[str, Metric]]]:
    """Yield folder name, agent, seeds that judged it, and by environment their metric."""
    for name, agent in _agent_names(read):
        judged = _metrics_of_seeds(read, f"judge-{name}") or _metrics_of_seeds(
            read, f"validate-{name}"
        )
        if not judged:
            continue
        metrics = {
            it: Metric(
                it,
                judged[0][it].by_score,
                tuple(sorted(pair for metrics in judged for pair in metrics[it].values)),
            )
            for it in read.environments
            if all(it in metrics for metrics in judged)
        }
        yield name, agent, len(judged), metrics


def _metrics_of_seeds(read: _Read, stage: str) -> list[dict[str, Metric]]:
    """Return what a stage of each seed measured, by environment."""
    return [
        metrics_from_plain(it.result)
        for key, it in read.training.stages.items()
        if key.endswith(f"/{stage}")
    ]


def _kept(read: _Read, number: str) -> dict[str, Any]:
    """Return by environment the episodes that an iteration kept, and played, in all seeds."""
    found: dict[str, dict[str, int]] = {}
    for key, stage in read.training.stages.items():
        if not key.endswith(f"/select-{number}"):
            continue
        for environment, counts in stage.result.items():
            sums = found.setdefault(environment, {"kept": 0, "confirmed": 0, "episodes": 0})
            for name in sums:
                sums[name] += int(counts[name])
    return found
