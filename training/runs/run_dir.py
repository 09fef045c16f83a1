"""The folder of a training run: what it keeps, and how an interrupted run goes on.

    recipe.json            the algorithm, the complete recipe that began the run, and the run's id
    state.json             finished stages with their results (trainings that have stages)
    report.json            written last: the training is complete
    training.lock          held while it is trained
    log.jsonl  tensorboard/  logs/train.jsonl
    base/                  model and tokenizer from scratch, where the recipe asks for one
    data/                  the prepared sequences (training.data.dataset)
    state/step-N/          what a resume needs (training.trainer.learner)
    checkpoints/  final/   Hugging Face folders, on the way and at the end
    agent_eval/            runs that were played to evaluate checkpoints

A folder is written to only by a new run, by a resume of the same recipe, or after an overwrite,
which removes what a training wrote and leaves every other file alone. The folder is its owner's
alone. POSIX only (flock).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, cast

from agent_runtime.logs import bind_context, get_logger, log_file
from agent_runtime.private_files import make_private_folder
from orchestrator.atomic_file import write_atomically
from orchestrator.errors import Difference
from orchestrator.training_folder import (
    LOCK_FILE,
    LOG_FILE,
    RECIPE_FILE,
    REPORT_FILE,
    RESULTS_FILE,
    STATE_FILE,
    hold_training,
)
from training.config.recipe import recipe_differences, rename_keys
from training.config.start import Start
from training.errors import CheckpointDamaged, OutputOccupied, RecipeChanged

__all__ = ["RunDir"]

log = get_logger(__name__)

Json = dict[str, Any]

_STATE_LAYOUT: Final = 2
"""Layout 1 held the recipe, too, and had no recipe.json beside it."""
_OWN_FILES: Final = (
    *(LOG_FILE, REPORT_FILE, RESULTS_FILE, LOCK_FILE, "table.md", "plot.png", "grpo.png"),
    *("contents.json", "held-out-contents.json"),
)
"""`judgements.json` is none of them: that a run was judged is not forgotten by beginning anew."""
_OWN_FOLDERS: Final = (
    *("base", "data", "state", "states", "checkpoints", "final", "tensorboard", "logs"),
    *("agent_eval", "evaluation", "expert", "pretraining", "rollouts", "weights", "tables"),
)
_OWN_PATTERNS: Final = ("seed-*",)


class RunDir:
    """The folder of one training run."""

    def __init__(self, folder: Path) -> None:
        """Name the folder's parts. `open` begins or resumes a run, `read` looks at one."""
        self.folder = folder
        self.base = folder / "base"
        self.data = folder / "data"
        self.states = folder / "state"
        self.checkpoints = folder / "checkpoints"
        self.final = folder / "final"
        self.metrics_log = folder / LOG_FILE
        self.event_log = folder / "logs" / "train.jsonl"
        self.tensorboard = folder / "tensorboard"
        self.agent_eval = folder / "agent_eval"
        self._recipe_file = folder / RECIPE_FILE
        self._state_file = folder / STATE_FILE
        self._report_file = folder / REPORT_FILE
        self._stages: dict[str, Json] = {}

    @classmethod
    def open(
        cls,
        folder: Path,
        recipe: Mapping[str, Any],
        *,
        algorithm: str,
        start: Start = Start.NEW,
        free: Sequence[str] = (),
    ) -> Self:
        """Begin a run in a folder, or go on with the one that is there.

        Args:
            folder: Where the run is, or is to be.
            recipe: The complete recipe as `to_plain` gives it.
            algorithm: Which training it is: bc, dpo, grpo or agentevol.
            start: What to do with a run that is there already.
            free: Keys (and sections) of the recipe that a resume may change.

        Raises:
            OutputOccupied: The folder is in use; nothing was changed.
            RecipeChanged: The run was begun with another recipe; nothing was changed.
            CheckpointDamaged: The folder's files cannot be read.
        """
        run_dir = cls(folder)
        recorded = run_dir._read_recipe()
        if recorded is None:
            _refuse_foreign(folder)
        elif recorded["algorithm"] not in (algorithm, None):
            raise OutputOccupied(folder, f"a training by {recorded['algorithm']} is here")
        elif start is Start.OVERWRITE:
            run_dir._remove()
        elif start is Start.NEW and (run_dir._has_progress() or recorded["recipe"] != dict(recipe)):
            raise OutputOccupied(
                folder, "a training is here already: --resume it, or --overwrite it"
            )
        else:
            changed = _binding(recipe_differences(recorded["recipe"], recipe), free)
            if changed:
                raise RecipeChanged(folder, changed)
            if recorded["algorithm"] is None or not recorded["run_id"]:
                run_dir._write_recipe(algorithm, recorded["recipe"])
            log.info("run resumed", run_id=folder.name, finished_stages=len(run_dir._stages))
            return run_dir
        make_private_folder(folder)
        run_dir._write_recipe(algorithm, recipe)
        log.info("run begun", run_id=folder.name, algorithm=algorithm)
        return run_dir

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return a run for reading only; nothing is written.

        Raises:
            CheckpointDamaged: There is no run, or its files cannot be read.
        """
        run_dir = cls(folder)
        if run_dir._read_recipe() is None:
            raise CheckpointDamaged(f"{folder} holds no training run")
        return run_dir

    @property
    def run_id(self) -> str:
        """Tells this training from all others: 12 hexadecimal digits, made when it was begun."""
        recorded = self._read_recipe()
        return "" if recorded is None else recorded["run_id"]

    @property
    def recipe(self) -> Json:
        """The recipe that began the run, as JSON values under today's keys."""
        recorded = self._read_recipe()
        return {} if recorded is None else recorded["recipe"]

    @contextmanager
    def logging(self) -> Generator[None]:
        """Write events to the run's logs/train.jsonl meanwhile, with the run's name on each.

        Whoever looks at the folder sees that it is being trained.
        """
        with (
            hold_training(self.folder),
            log_file(self.event_log),
            bind_context(run_id=self.folder.name),
        ):
            yield

    # Stages ---------------------------------------------------------------------------------------

    @property
    def finished(self) -> tuple[str, ...]:
        """Names of the finished stages, in the order in which they were finished."""
        return tuple(self._stages)

    def result(self, name: str) -> Json | None:
        """Return the result of a finished stage; None where it is not finished."""
        stage = self._stages.get(name)
        return None if stage is None else cast("Json", stage["result"])

    def stage(self, name: str, work: Callable[[], Json]) -> Json:
        """Do a stage once: return its recorded result, or do the work now and record its result.

        A stage is recorded after its work, so one that was cut off is done again; several processes
        may do different stages of one run at a time.

        Args:
            name: The stage; unique in the run.
            work: Returns JSON values and must bear being done again after it was cut off anywhere.
        """
        if name not in self._stages:
            self._stages |= self._read_stages()  # another process may have finished it
        if name not in self._stages:
            log.info("stage begins", stage=name)
            started = time.perf_counter()
            result = json.loads(json.dumps(work()))
            seconds = round(time.perf_counter() - started, 3)
            with self._locked():
                # Other processes may have finished stages of theirs since this one read the file.
                self._stages |= self._read_stages()
                self._stages[name] = {"result": result, "seconds": seconds}
                state = {"layout": _STATE_LAYOUT, "finished": self._stages}
                write_atomically(self._state_file, json.dumps(state, indent=1) + "\n")
            log.info("stage ended", stage=name, seconds=seconds)
        return cast("Json", self._stages[name]["result"])

    # The report -----------------------------------------------------------------------------------

    def report(self) -> Json | None:
        """Return what a complete training reported; None = it is not complete."""
        if not self._report_file.is_file():
            return None
        return json.loads(self._report_file.read_text(encoding="utf-8"))

    def write_report(self, report: Mapping[str, Any]) -> None:
        """Mark the training as complete."""
        write_atomically(self._report_file, json.dumps(dict(report), indent=2) + "\n")

    # Files ----------------------------------------------------------------------------------------

    def _read_recipe(self) -> Json | None:
        """Read algorithm, recipe and stages; None where no run was begun.

        A folder of layout 1 has its recipe in state.json and does not name its algorithm.
        """
        if not self._recipe_file.is_file() and not self._state_file.is_file():
            return None
        self._stages = self._read_stages()
        recorded: Json = {"algorithm": None, "run_id": ""}
        if self._recipe_file.is_file():
            recorded |= _read_json(self._recipe_file, ("algorithm", "recipe"), ("run_id",))
        else:
            recorded |= _read_json(self._state_file, ("recipe",))
        recorded["recipe"] = rename_keys(recorded["recipe"])
        return recorded

    def _write_recipe(self, algorithm: str, recipe: Mapping[str, Any]) -> None:
        recorded = {
            "algorithm": algorithm,
            "run_id": secrets.token_hex(6),
            "recipe": dict(recipe),
        }
        write_atomically(self._recipe_file, json.dumps(recorded, indent=2) + "\n")

    def _read_stages(self) -> dict[str, Json]:
        if not self._state_file.is_file():
            return {}
        state = _read_json(self._state_file, ("layout",))
        if state["layout"] not in (1, _STATE_LAYOUT):
            raise CheckpointDamaged(f"{self._state_file} has layout {state['layout']}", field="out")
        return _read_json(self._state_file, ("finished",))["finished"]

    def _has_progress(self) -> bool:
        """Tell whether anything was computed that a new run would mix with."""
        return bool(self._stages) or self.metrics_log.exists() or self._report_file.exists()

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Keep other processes from changing the state; a lock on the folder ends with us."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _remove(self) -> None:
        """Remove what a training wrote, and nothing else; the recipe, which marks it, last."""
        folders = [self.folder / name for name in _OWN_FOLDERS]
        for pattern in _OWN_PATTERNS:
            folders += self.folder.glob(pattern)
        for path in folders:
            shutil.rmtree(path, ignore_errors=True)
        for path in (*(self.folder / name for name in _OWN_FILES), self._state_file):
            path.unlink(missing_ok=True)
        self._recipe_file.unlink(missing_ok=True)
        self._stages = {}


def _read_json(path: Path, keys: Sequence[str], optional: Sequence[str] = ()) -> Json:
    """Read an object that has these keys, and may have some; raises CheckpointDamaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: content[key] for key in (*keys, *(it for it in optional if it in content))}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointDamaged(f"{path} is damaged: {error!r}", field="out") from error


def _refuse_foreign(folder: Path) -> None:
    if folder.is_file():
        raise OutputOccupied(folder, "this is a file")
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputOccupied(folder, "the folder holds files that no training wrote")


def _binding(changes: Sequence[Difference], free: Sequence[str]) -> list[Difference]:
    """Return the changes that a resume may not make."""
    return [
        change
        for change in changes
        if not any(change.field == key or change.field.startswith(f"{key}.") for key in free)
    ]
