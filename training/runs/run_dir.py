"""The output folder of a training: what is where, and whether it may be written to.

    recipe.json            the resolved recipe that began it
    base/                  model and tokenizer from scratch, where the recipe asks for one
    data/                  the prepared sequences (training.data.dataset)
    state/step-N/          what a resume needs (training.trainer.learner)
    checkpoints/           Hugging Face folders written on the way
    final/                 the Hugging Face folder of the trained model
    agent_eval/            runs that were played to evaluate checkpoints
    log.jsonl  tensorboard/
    report.json            written last: the training is complete

Invariant: a folder in which anything was trained is written to only on a resume of the same recipe,
or after `overwrite`, which removes what a training wrote and refuses every other folder. Knows no
torch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.atomic_file import write_atomically
from orchestrator.errors import Difference
from training.config.recipe import differences
from training.errors import CheckpointDamaged, OutputOccupied, RecipeChanged

__all__ = ["SaveConfig", "Workspace"]

_RECIPE: Final = "recipe.json"
_REPORT: Final = "report.json"
_FREE: Final = ("out", "tracking", "device")
"""Sections that a resume may change: they do not decide what is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveConfig:
    """What is written on the way."""

    state_every: int = 0
    """Steps between states that a resume goes on from; 0 = at the end of each epoch."""
    keep_states: int = 2
    """How many states are kept."""
    checkpoint_every: int = 0
    """Epochs between Hugging Face folders; 0 = only the final one."""
    half: bool = False
    """Store bfloat16 weights instead of float32."""


class Workspace:
    """An output folder that this training may write to."""

    def __init__(self, folder: Path) -> None:
        """Use `Workspace.open`."""
        self.folder = folder
        self.base = folder / "base"
        self.data = folder / "data"
        self.states = folder / "state"
        self.checkpoints = folder / "checkpoints"
        self.final = folder / "final"
        self.log = folder / "log.jsonl"
        self.tensorboard = folder / "tensorboard"
        self.agent_eval = folder / "agent_eval"

    @classmethod
    def open(
        cls,
        folder: Path,
        recipe: Mapping[str, Any],
        *,
        algorithm: str,
        resume: bool = False,
        overwrite: bool = False,
    ) -> Workspace:
        """The folder, made or taken up again. `recipe` as `as_plain` gives it.

        A resume of a folder that is not there begins it. Raises OutputOccupied, RecipeChanged,
        CheckpointDamaged; then nothing was changed.
        """
        space = cls(folder)
        recorded = space._recorded()
        if recorded is None:
            _refuse_foreign(folder)
        elif recorded.get("algorithm") != algorithm:
            raise OutputOccupied(folder, f"a training by {recorded.get('algorithm')} is here")
        elif overwrite:
            space._remove()
        elif not resume and (space.log.exists() or recorded["recipe"] != dict(recipe)):
            raise OutputOccupied(
                folder, "a training is here already: --resume it, or --overwrite it"
            )
        else:
            changed = list(_binding(differences(recorded["recipe"], recipe)))
            if changed:
                raise RecipeChanged(folder, changed)
            return space
        folder.mkdir(parents=True, exist_ok=True)
        space.states.mkdir(exist_ok=True)
        space.checkpoints.mkdir(exist_ok=True)
        text = json.dumps({"algorithm": algorithm, "recipe": dict(recipe)}, indent=2) + "\n"
        write_atomically(folder / _RECIPE, text)
        return space

    def _recorded(self) -> dict[str, Any] | None:
        path = self.folder / _RECIPE
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise CheckpointDamaged(f"{path} is damaged: {error}", field="out") from error

    def _remove(self) -> None:
        """Remove what a training wrote, and nothing else."""
        for path in (self.base, self.data, self.states, self.checkpoints, self.final):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.tensorboard, self.agent_eval):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.log, self.folder / _REPORT, self.folder / _RECIPE):
            path.unlink(missing_ok=True)

    def report(self) -> dict[str, Any] | None:
        """What a complete training reported; None = it is not complete."""
        path = self.folder / _REPORT
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def conclude(self, report: Mapping[str, Any]) -> None:
        """Mark the training as complete."""
        write_atomically(self.folder / _REPORT, json.dumps(dict(report), indent=2) + "\n")


def _refuse_foreign(folder: Path) -> None:
    if folder.is_file():
        raise OutputOccupied(folder, "this is a file")
    if folder.is_dir() and any(folder.iterdir()):
        raise OutputOccupied(folder, "the folder holds files that no training wrote")


def _binding(found: Iterable[Difference]) -> Iterable[Difference]:
    return (it for it in found if it.field.split(".")[0] not in _FREE)
