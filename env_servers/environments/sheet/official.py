"""The official sheet tasks: AgentBoard's task file and its reference workbook.

Sheets called `Answer...` are never shown to agents. A malformed file is reported with file, line
and field.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from env_servers.environments.sheet.assignments import Assignment, as_tool_task
from env_servers.environments.sheet.expert import planned, solution
from env_servers.environments.sheet.prompt import TOOLS
from env_servers.environments.sheet.reader import read_workbook
from env_servers.environments.sheet.workbook import Sheet
from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls import MalformedFile, PlannedCall, Tool, ToolTask
from env_servers.toolkit.tool_calls.official import read_objects

__all__ = ["WORKBOOK", "read_official"]

TASKS: Final = Path("tools", "sheet.jsonl")
WORKBOOK: Final = Path("tools", "sheet_reference_workbook.xlsx")
_ACTION: Final = re.compile(r"Action [0-9]+: ([A-Za-z0-9_]+) with Action Input: (.*)")


def read_official(data_dir: Path, workbook: Path | None = None) -> list[ToolTask] | None:
    """Return all official tasks, or None where the task file or the workbook is not there.

    Raises MalformedFile, EnvironmentUnavailable.
    """
    tasks, path = data_dir / TASKS, workbook or data_dir / WORKBOOK
    if not tasks.is_file() or not path.is_file():
        return None
    rows = _read_rows(tasks)
    try:
        book = read_workbook(path)
    except ValueError as error:
        raise EnvironmentUnavailable(str(error)) from error
    shown = {name: sheet for name, sheet in book.items() if not name.startswith("Answer")}
    for sheet in shown.values():
        sheet.values()
    return [_task(row, shown) for row in rows]


class _Line:
    """A line of the task file."""

    def __init__(self, path: Path, number: int, entry: Mapping[str, Any]) -> None:
        self.path = path
        self.number = number
        self.entry = entry

    def get(self, name: str, kind: type) -> Any:
        """Return a field by its dotted name; raises MalformedFile."""
        value: Any = self.entry
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                raise self.wrong(name, "is missing")
            value = cast("dict[str, Any]", value)[part]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(name, f"must be of type {kind.__name__}")
        return value

    def wrong(self, name: str, problem: str) -> MalformedFile:
        """Return the error of a field."""
        return MalformedFile(self.path, self.number, name, problem)


@dataclass(frozen=True, slots=True)
class _Row:
    """A checked line of the task file."""

    line: _Line
    index: int
    goal: str
    difficulty: str
    target: tuple[tuple[str, ...], ...]
    reference: tuple[PlannedCall, ...]


def _read_rows(path: Path) -> list[_Row]:
    """Return the checked lines of the task file; raises MalformedFile."""
    rows: list[_Row] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, entry in read_objects(path, iter(lines)):
                line = _Line(path, number, entry)
                index, goal = line.get("id", int), line.get("goal", str).strip()
                difficulty = line.get("difficulty", str)
                reference = tuple(_reference(line))
                rows.append(_Row(line, index, goal, difficulty, _grid(line), reference))
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error}") from error
    return rows


def _task(row: _Row, book: Mapping[str, Sheet]) -> ToolTask:
    name = f"Sheet{row.index + 1}"
    if name not in book:
        raise row.line.wrong("id", f"the workbook has no sheet {name}")
    opening = planned("open_sheet", {"name": name})
    calls = solution(book, name, row.target, (opening, *row.reference), opening)
    assignment = Assignment(book, name, row.goal, row.target, calls, row.difficulty)
    return as_tool_task(assignment, row.index, official=True)


def _grid(line: _Line) -> tuple[tuple[str, ...], ...]:
    name = "additional_info.answer"
    try:
        content: object = json.loads(line.get(name, str))
    except (ValueError, RecursionError) as error:
        raise line.wrong(name, f"no JSON: {error}") from error
    rows = cast("list[Any]", content) if isinstance(content, list) else []
    if not rows or not all(isinstance(row, list) for row in rows):
        raise line.wrong(name, "is no grid")
    if any(not isinstance(text, str) for row in rows for text in row):
        raise line.wrong(name, "has cells that are no text")
    return tuple(tuple(row) for row in rows)


def _reference(line: _Line) -> Iterator[PlannedCall]:
    """Return the file's own actions; one that cannot be read ends them."""
    for text in line.get("subgoals", str).splitlines():
        match = _ACTION.fullmatch(text.strip())
        if match is None:
            continue
        tool = TOOLS.get(match[1])
        try:
            arguments: object = ast.literal_eval(match[2])
            if tool is None or not isinstance(arguments, dict):
                return
            yield planned(tool.name, _typed(tool, cast("dict[str, Any]", arguments)))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return


def _typed(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the values of integers and lists, which the file writes as texts."""
    types = {parameter.name: parameter.type for parameter in tool.parameters}
    lists = ("position_list", "values_list", "index_list")
    return {
        name: ast.literal_eval(value)
        if isinstance(value, str) and (types.get(name) == "integer" or name in lists)
        else value
        for name, value in arguments.items()
    }
