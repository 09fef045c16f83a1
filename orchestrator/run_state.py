"""In which state a run is: being played, whole, or ended before it was whole, and by what."""

from __future__ import annotations

from enum import StrEnum

from orchestrator.run_plan import SessionEnd

__all__ = ["RunState", "run_state"]


class RunState(StrEnum):
    """What is going on with a run."""

    LIVE = "live"
    """A process of this machine is playing it."""
    FINISHED = "finished"
    """Every planned episode has a finished record."""
    INCOMPLETE = "incomplete"
    """Its last session ended by itself, and episodes were given up."""
    INTERRUPTED = "interrupted"
    """Somebody stopped it."""
    LIMITED = "limited"
    """A limit of money, tokens or time ended it."""
    KILLED = "killed"
    """Its last session was killed or ended by an error, or is played on another machine."""
    UNKNOWN = "unknown"
    """It was written before runs recorded their plan."""
    UNREADABLE = "unreadable"
    """The folder is damaged, or was written by a newer program."""


def run_state(
    *, writer: int | None, planned: int | None, complete: bool, end: SessionEnd | None
) -> RunState:
    """Return the state of a run that can be read.

    Args:
        writer: The process that is playing it.
        planned: How many episodes it was to play; None = it did not say, or it keeps what people
            play, which nobody plans: then it says how it ended.
        complete: Whether each of them has a finished record.
        end: How its last session ended.
    """
    if writer is not None:
        return RunState.LIVE
    if planned is None:
        return RunState.UNKNOWN if end is None else RunState.FINISHED
    if complete:
        return RunState.FINISHED
    if end is None:
        return RunState.KILLED
    if end.interrupted:
        return RunState.INTERRUPTED
    return RunState.LIMITED if end.limit else RunState.INCOMPLETE
