"""What a task of this environment asks for, whoever made it: official or generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from env_servers.environments.sheet.workbook import Sheet
from env_servers.toolkit.tool_calls import NO_ANSWER, PlannedCall, ToolTask, fixed_plan

__all__ = ["Assignment", "as_tool_task"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A goal about a sheet, with everything that scores it and solves it."""

    book: Mapping[str, Sheet]
    """The base workbook; shared and never changed."""
    sheet: str
    """Name of the sheet that counts."""
    goal: str
    target: tuple[tuple[str, ...], ...]
    """The grid of texts that is asked for."""
    calls: tuple[PlannedCall, ...]
    """What the expert does, from `open_sheet` on."""
    kind: str = ""
    """Sort of work."""


def as_tool_task(assignment: Assignment, index: int, *, official: bool = False) -> ToolTask:
    """Return the payload of an assignment."""
    return ToolTask(
        goal=assignment.goal,
        subgoals=(),
        official=official,
        index=index,
        init={"assignment": assignment},
        end_state=assignment.target,
        plan=fixed_plan(assignment.calls, NO_ANSWER),
        steps=len(assignment.calls) + 1,
    )
