"""Who answers the tools of Sheet: a workbook in memory. The real service is in `live.py`.

Every session can tell the grid of any sheet, whether it is open or not.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, cast, runtime_checkable

from env_servers.environments.sheet.assignments import Assignment
from env_servers.environments.sheet.memory import MemorySpreadsheet
from env_servers.environments.sheet.prompt import TOOLS
from env_servers.environments.sheet.scoring import Grid
from env_servers.environments.sheet.tools import SheetTools, Spreadsheet
from env_servers.environments.sheet.workbook import Workbook, WorksheetNotFound
from env_servers.toolkit.tool_calls import EMBEDDED, Backend, TooledSession, ToolSet, ToolTask

__all__ = ["EmbeddedSession", "EmbeddedSheet", "SheetSession", "get_assignment"]


@runtime_checkable
class SheetSession(Protocol):
    """What the environment asks of a session beyond its calls."""

    @property
    def book(self) -> Spreadsheet:
        """The spreadsheet that the tools work on."""
        ...

    def grid(self, name: str) -> Grid:
        """Displayed values of a sheet; empty where it was deleted."""
        ...


def get_assignment(task: ToolTask) -> Assignment:
    """Return the assignment of a task."""
    return cast("Assignment", task.init["assignment"])


class EmbeddedSession(SheetTools, TooledSession):
    """Tools on a workbook in memory."""

    toolset: ClassVar[ToolSet] = TOOLS

    def __init__(self, spreadsheet: MemorySpreadsheet) -> None:
        super().__init__(spreadsheet)
        self.spreadsheet = spreadsheet

    def grid(self, name: str) -> Grid:
        """Displayed values of a sheet; empty where it was deleted."""
        try:
            return self.spreadsheet.book.sheet(name).values()
        except WorksheetNotFound:
            return []

    def fork(self) -> EmbeddedSession:
        """Return an independent copy."""
        return type(self)(self.spreadsheet.fork())


class EmbeddedSheet(Backend):
    """Workbooks in memory: each episode has its own, and all share what nobody wrote to."""

    name: ClassVar[str] = EMBEDDED

    def open(self, task: ToolTask) -> EmbeddedSession:
        return EmbeddedSession(MemorySpreadsheet(Workbook(get_assignment(task).book)))
