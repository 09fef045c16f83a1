"""Stages of a long program: each one is done once, whatever ends the process in between.

Owns `state.json` in the program's folder: the recipe that it was begun with, and the result of
every finished stage. Invariant: a stage is in the file exactly if its work was finished and is on
disk; a stage that was cut off is simply done again. Several processes may do different stages of
one program at a time. Knows nothing of what stages do. POSIX only (flock).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from orchestrator.atomic_file import write_atomically
from training.config.recipe import differences
from training.errors import CheckpointDamaged, OutputOccupied, RecipeChanged

__all__ = ["STATE_FILE", "Stages", "read_state"]

STATE_FILE: Final = "state.json"
_LAYOUT: Final = 1

Json = dict[str, Any]


class Stages:
    """The finished stages of a program."""

    def __init__(
        self, folder: Path, recipe: Mapping[str, Any], finished: Mapping[str, Json]
    ) -> None:
        """Use `Stages.begin`."""
        self.folder = folder
        self._recipe = dict(recipe)
        self._finished = dict(finished)

    @classmethod
    def begin(
        cls,
        folder: Path,
        recipe: Mapping[str, Any],
        *,
        resume: bool = False,
        overwrite: bool = False,
        free: Sequence[str] = (),
    ) -> Stages:
        """Start in an empty folder, or go on where the folder's program stopped.

        `overwrite` removes what a program left here; it never touches a folder of anything else.
        A resume may change the fields in `free`, which only say how many stages there are.
        Raises OutputOccupied for a folder that is in use, RecipeChanged for one that was begun
        with another recipe, CheckpointDamaged for a state that cannot be read.
        """
        path = folder / STATE_FILE
        if overwrite and path.exists():
            shutil.rmtree(folder)
        if not path.exists():
            if folder.is_dir() and any(folder.iterdir()):
                raise OutputOccupied(folder, f"it is not empty and has no {STATE_FILE}")
            folder.mkdir(parents=True, exist_ok=True)
            stages = cls(folder, recipe, {})
            stages._write()
            return stages
        if not resume:
            raise OutputOccupied(folder, "a run is here; go on with --resume, or --overwrite it")
        state = read_state(path)
        found = differences(state["recipe"], recipe)
        if changed := [it for it in found if it.field not in free]:
            raise RecipeChanged(folder, changed)
        return cls(folder, recipe, state["finished"])

    @property
    def finished(self) -> tuple[str, ...]:
        """Names of the finished stages, in the order in which they were finished."""
        return tuple(self._finished)

    def do(self, name: str, work: Callable[[], Json]) -> Json:
        """The result of a stage: the recorded one, or that of doing the work now.

        `work` returns JSON values and must bear being done again after it was cut off anywhere.
        """
        if name not in self._finished:
            started = time.perf_counter()
            result = json.loads(json.dumps(work()))
            seconds = round(time.perf_counter() - started, 3)
            with self._alone():
                # Other processes may have finished stages of theirs since.
                self._finished |= read_state(self.folder / STATE_FILE)["finished"]
                self._finished[name] = {"result": result, "seconds": seconds}
                self._write()
        return cast("Json", self._finished[name]["result"])

    def seconds(self, name: str) -> float:
        """How long a finished stage took in the process that finished it."""
        return float(self._finished[name]["seconds"])

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Nobody else changes the state meanwhile; the lock goes with the process."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self) -> None:
        state = {"layout": _LAYOUT, "recipe": self._recipe, "finished": self._finished}
        write_atomically(self.folder / STATE_FILE, json.dumps(state, indent=1) + "\n")


def read_state(path: Path) -> Json:
    """The `recipe` of a program and, by the name of the stage, what is `finished`.

    Raises CheckpointDamaged.
    """
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        if state["layout"] != _LAYOUT:
            raise CheckpointDamaged(f"{path} has layout {state['layout']}, not {_LAYOUT}")
        return {"recipe": dict(state["recipe"]), "finished": dict(state["finished"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointDamaged(f"{path} cannot be read: {error!r}") from error
