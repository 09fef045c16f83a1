"""What can go wrong between a recipe and a trained checkpoint.

OrchestratorError               of `orchestrator`: commands turn it into an exit code
└── TrainingError               base; its message names a field of the recipe and the fix
    ├── RecipeError             a recipe cannot be read or asks for what does not exist
    ├── OutputOccupied          the output folder is in use and overwriting was not asked for
    ├── RecipeChanged           a resume with another recipe; names each difference
    ├── CheckpointDamaged       a saved state is incomplete or of another run
    ├── DataError               a source cannot be trained on
    │   ├── NothingToTrainOn    no token of it is a target (empty masks, all left out)
    │   ├── TokenizerMismatch   ids do not belong to the tokenizer of the model that is trained
    │   ├── Contaminated        tasks are learned from whose contents are held out
    │   ├── LogprobsMissing     an algorithm needs sampled logprobs and the source has none
    │   └── ImagesNotLearned    its observations have images, and models here read texts only
    ├── ModelUnusable           a checkpoint cannot be loaded for training
    ├── NotEnoughMemory         the plan needs more than there is; computed beforehand
    └── TrainingDiverged        the loss is not finite
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.errors import Difference, OrchestratorError

__all__ = [
    "CheckpointDamaged",
    "Contaminated",
    "DataError",
    "ImagesNotLearned",
    "LogprobsMissing",
    "ModelUnusable",
    "NotEnoughMemory",
    "NothingToTrainOn",
    "OutputOccupied",
    "RecipeChanged",
    "RecipeError",
    "TokenizerMismatch",
    "TrainingDiverged",
    "TrainingError",
]


class TrainingError(OrchestratorError):
    """Base of this package's errors; `field` is a dotted path of the recipe, empty = none."""

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class RecipeError(TrainingError):
    """When a recipe has an unknown key or an impossible value; `valid` tells what would be right.

    The command ends with 2, as for wrong flags.
    """

    exit_code = 2

    def __init__(self, message: str, *, field: str = "", valid: Iterable[str] = ()) -> None:
        self.valid = tuple(valid)
        choices = f" (valid: {', '.join(self.valid)})" if self.valid else ""
        super().__init__(message + choices, field=field)


class OutputOccupied(TrainingError):
    """When the output folder holds something and neither resume nor overwrite was asked for."""

    exit_code = 2

    def __init__(self, folder: Path, problem: str) -> None:
        self.folder = folder
        super().__init__(f"{folder}: {problem}", field="out")


class RecipeChanged(TrainingError):
    """When a resumed run has another recipe than it was begun with."""

    exit_code = 2

    def __init__(self, folder: Path, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        listed = "\n".join(f"  {difference}" for difference in self.differences)
        super().__init__(
            f"{folder} was begun with another recipe; resume it unchanged or choose another "
            f"folder. Recorded -> requested:\n{listed}",
            field="out",
        )


class CheckpointDamaged(TrainingError):
    """When a saved training state is incomplete, damaged or of another number of processes."""


class DataError(TrainingError):
    """When a source cannot be trained on."""


class NothingToTrainOn(DataError):
    """When no token of the data is a target."""


class TokenizerMismatch(DataError):
    """When recorded token ids were not made by the model's tokenizer."""


class Contaminated(DataError):
    """When a task that somebody is judged on begins as one that is learned from."""


class LogprobsMissing(DataError):
    """When sampled logprobs are needed and a source has none."""


class ImagesNotLearned(DataError):
    """When observations of a source have images: models that are trained here read texts only."""

    def __init__(self, name: str, source: str) -> None:
        super().__init__(
            f"the observations of episode {name} ({source}) have images, which training does not "
            "read, and replies to what is not seen teach guessing: record the episodes without "
            "the environment's option for images, or leave them out of the source",
            field="data.sources",
        )


class ModelUnusable(TrainingError):
    """When a checkpoint cannot be loaded, or is of an architecture that cannot be trained here."""


class NotEnoughMemory(TrainingError):
    """When the memory plan needs more than the device has."""


class TrainingDiverged(TrainingError):
    """When the loss is not finite."""
