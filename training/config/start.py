"""Whether a run begins, goes on, or replaces one: the choice behind --resume and --overwrite."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Start"]


class Start(StrEnum):
    """What to do with the output folder of a run."""

    NEW = "new"
    """Begin in an empty folder; refuse one that holds a run."""
    RESUME = "resume"
    """Go on where the folder's run stopped; begin one where there is none."""
    OVERWRITE = "overwrite"
    """Remove the run that is there, and begin."""
