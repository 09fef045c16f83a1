"""The folder of a training as it lies on disk, for whoever looks at one: `training` writes them.

    recipe.json    {"algorithm": bc, dpo, grpo or agentevol, "recipe": all of its keys}
    state.json     {"layout": 2, "finished": {STAGE: {"result": ..., "seconds": ...}}}, in the order
                   in which stages were finished; trainings that have stages
    log.jsonl      an object a line: "step", and what was measured at it
    report.json    written last by bc and dpo: the training is complete
    results.json   written last by agentevol
    training.lock  locked (flock, shared) by every process that trains

Stages of agentevol are `tasks`, `expert`, `baseline-POLICY`, and of each seed `seed-N/` and then
`learn-AGENT`, `judge-AGENT`, `validate-AGENT`, `explore-I`, `select-I`, where AGENT is `bc-base`,
`bc-large` or `iteration-I`; stages of grpo are `tasks`, `judge-first`, `validate-STEP`, `learn`,
`judge-final`. What a judge, a validation or a baseline says is a `Metric` by environment. Reading
changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from agent_runtime.private_files import PRIVATE_FILE
from orchestrator.errors import RunNotFound, TrainingUnreadable
from orchestrator.manifest import MANIFEST_FILE
from orchestrator.run_folder import DATABASE_FILE
from orchestrator.statistics import Interval, mean_interval, success_interval

__all__ = [
    "LOCK_FILE",
    "LOG_FILE",
    "RECIPE_FILE",
    "REPORT_FILE",
    "RESULTS_FILE",
    "STATE_FILE",
    "Metric",
    "Stage",
    "TrainingFolder",
    "TrainingState",
    "find_trainings",
    "held_by_trainers",
    "hold_training",
    "iterate_log",
    "metrics_from_plain",
    "read_training",
    "validation_stage",
]

RECIPE_FILE: Final = "recipe.json"
STATE_FILE: Final = "state.json"
LOG_FILE: Final = "log.jsonl"
REPORT_FILE: Final = "report.json"
RESULTS_FILE: Final = "results.json"
LOCK_FILE: Final = "training.lock"
_ALGORITHMS: Final = ("agentevol", "grpo", "bc", "dpo")


def validation_stage(step: int) -> str:
    """Return the stage of grpo that evaluates the weights after a number of steps."""
    return f"validate-{step:06d}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One agent on one environment: the environment's own figure, from 0 to 1."""

    environment: str
    by_score: bool
    values: tuple[tuple[str, float], ...]
    """Item id and value from 0 to 1 of every episode, sorted."""

    @property
    def mean(self) -> float | None:
        """None without episodes."""
        if not self.values:
            return None
        return math.fsum(value for _, value in self.values) / len(self.values)

    @property
    def interval(self) -> Interval | None:
        """95 %, clustered by item: samples and seeds of one item are no independent evidence."""
        estimate = mean_interval if self.by_score else success_interval
        return estimate(self.values)

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "environment": self.environment,
            "by_score": self.by_score,
            "values": [list(pair) for pair in self.values],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Metric:
        """Return the metric that `to_plain` wrote."""
        values = tuple((str(item), float(value)) for item, value in plain["values"])
        return cls(str(plain["environment"]), bool(plain["by_score"]), values)


def metrics_from_plain(plain: Mapping[str, Any]) -> dict[str, Metric]:
    """Return metrics by environment from their JSON values."""
    return {name: Metric.from_plain(values) for name, values in plain.items()}


class TrainingState(StrEnum):
    """What is going on with a training."""

    LIVE = "live"
    """A process of this machine trains."""
    FINISHED = "finished"
    """It is complete by the recipe that began it."""
    STOPPED = "stopped"
    """It is not complete, and nobody on this machine trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A finished part of a training."""

    result: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFolder:
    """What a training wrote so far."""

    folder: Path
    algorithm: str
    """bc, dpo, grpo or agentevol; empty = written before folders named it."""
    recipe: Mapping[str, Any]
    """That began the training, under the names that its keys had back then."""
    stages: Mapping[str, Stage]
    """Finished ones, in the order in which they were."""
    report: Mapping[str, Any] | None
    """Of bc and dpo, where they are complete."""
    live: bool

    @property
    def state(self) -> TrainingState:
        """What is going on with it."""
        if self.live:
            return TrainingState.LIVE
        return TrainingState.FINISHED if self.complete else TrainingState.STOPPED

    @property
    def complete(self) -> bool:
        """Whether everything was done that its recipe asked for."""
        if self.algorithm == "grpo":
            last = "judge-final" if self.recipe.get("evaluate", True) else "learn"
            return last in self.stages
        if self.algorithm == "agentevol":
            return (self.folder / RESULTS_FILE).is_file()
        return self.report is not None


def find_trainings(roots: Iterable[Path]) -> list[Path]:
    """Return the training folders at or below folders, sorted; links are not followed.

    Raises RunNotFound where a root is no folder.
    """
    found: dict[Path, Path] = {}
    for root in roots:
        if not root.is_dir():
            raise RunNotFound(root)
        for path, folders, files in os.walk(root):
            if MANIFEST_FILE in files and DATABASE_FILE in files:
                folders.clear()  # a run
            elif RECIPE_FILE in files and _names_algorithm(Path(path)):
                found.setdefault(Path(path).resolve(), Path(path))
            folders[:] = [name for name in folders if not name.startswith(".")]
    return sorted(found.values())


def _names_algorithm(folder: Path) -> bool:
    """Tell whether a recipe is a training's: a cook's has the same name."""
    try:
        return _read_object(folder / RECIPE_FILE).get("algorithm") in _ALGORITHMS
    except TrainingUnreadable:
        return False


def read_training(folder: Path) -> TrainingFolder:
    """Read what a training wrote. Raises TrainingUnreadable."""
    recorded = _read_object(folder / RECIPE_FILE)
    # In this order: a training that ends meanwhile must not look stopped.
    live = held_by_trainers(folder)
    state = folder / STATE_FILE
    report = folder / REPORT_FILE
    try:
        finished: dict[str, dict[str, Any]] = {}
        if state.is_file():
            finished = _read_object(state)["finished"]
        return TrainingFolder(
            folder=folder,
            algorithm=str(recorded["algorithm"] or ""),
            recipe=dict(recorded["recipe"]),
            stages={
                str(name): Stage(result=dict(it["result"]), seconds=float(it["seconds"]))
                for name, it in finished.items()
            },
            report=_read_object(report) if report.is_file() else None,
            live=live,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TrainingUnreadable(folder, f"its files are damaged ({error!r})") from error


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises TrainingUnreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TrainingUnreadable(path.parent, f"{path.name} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise TrainingUnreadable(path.parent, f"{path.name} is no object")
    return cast("dict[str, Any]", content)


def iterate_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a log; a line that was cut off by a kill is left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield cast("dict[str, Any]", row)


@contextmanager
def hold_training(folder: Path) -> Generator[None]:
    """Say meanwhile that this process trains in a folder; others may, too."""
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        # The kernel gives it up when the process ends, however it ends.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def held_by_trainers(folder: Path) -> bool:
    """Tell whether a process of this machine trains in a folder."""
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:  # it was trained before there were locks, or is somebody else's
        return False
    try:
        # For a moment: a training that begins just then waits, and is not refused.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
