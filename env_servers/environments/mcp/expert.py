"""The scripted expert makes the calls of a task's solution, and hands in its answer."""

from __future__ import annotations

from typing import Final

from env_servers.environments.mcp.prompt import McpTool
from env_servers.environments.mcp.task_file import FileTask
from env_servers.toolkit.tool_calls import Plan, PlannedCall, fixed_plan

__all__ = ["make_plan"]

_WHY: Final = (
    "The next thing that the task needs is {tool}.",
    "I call {tool}, which brings me nearer to what is asked.",
    "With {tool} I go on.",
)


def make_plan(task: FileTask, tools: dict[str, McpTool]) -> Plan | None:
    """Return the plan of a task's solution; None = it has none.

    `tools` are those of the server by its own names; all that the task names are among them.
    """
    if task.solution is None:
        return None
    calls: list[PlannedCall] = []
    for call in task.solution:
        tool = tools[call.tool]
        why = tuple(it.format(tool=tool.name) for it in _WHY)
        calls.append(PlannedCall(tool.name, tool.own_arguments(call.arguments), why))
    return fixed_plan(calls, task.answer)
