"""The scripted expert's way through a task: look up, change, answer.

Ids are taken from what the calls returned, never from the account: the plan knows only what an
agent could know, and which calls are needed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple, cast

from env_servers.environments.todo.store import TodoStore
from env_servers.environments.todo.task_spec import Lookup, TaskSpec, current_end_state
from env_servers.toolkit.tool_calls import Plan, PlannedCall

__all__ = ["Change", "find_changes", "make_plan"]

_WHY: Final[Mapping[str, tuple[str, ...]]] = {
    "get_user_current_date": (
        "The task depends on today's date, so I ask for that first.",
        "I need to know what day it is.",
        "Before I compare dates, I look up the current one.",
    ),
    "get_projects": (
        "I need the ids of the projects, so I list them.",
        "First I look which projects there are.",
        "The list of projects tells me where to look next.",
    ),
    "get_tasks": (
        'I look at the tasks of "{subject}".',
        'The tasks of the project "{subject}" come next.',
        'What I need should be in "{subject}", so I list its tasks.',
    ),
    "get_task_duration": (
        'How long "{subject}" takes matters here, so I ask for it.',
        'I still need the duration of "{subject}".',
        'Durations are not in the list; I get the one of "{subject}".',
    ),
    "get_task_description": (
        'The description of "{subject}" should say it.',
        'Only the description tells this, so I read that of "{subject}".',
        'I open "{subject}" to read its description.',
    ),
    "update_project": (
        'Now I set the favorite mark of "{subject}" as I was asked.',
        'I know the id of "{subject}", so I can change its favorite mark.',
        '"{subject}" is the project that has to be changed.',
    ),
    "update_task": (
        'I move "{subject}" to {value}.',
        '"{subject}" must be due on {value}, so I update it.',
        'The due date of "{subject}" becomes {value}.',
    ),
    "complete_task": (
        'I mark "{subject}" as completed.',
        '"{subject}" is one of the tasks to complete.',
        'Next I complete "{subject}".',
    ),
    "delete_task": (
        'I delete "{subject}".',
        '"{subject}" is one of the tasks that have to go.',
        'Next I remove "{subject}".',
    ),
}


class Change(NamedTuple):
    """One call that changes the account."""

    tool: str
    subject: str
    value: str = ""


def find_changes(spec: TaskSpec) -> tuple[Change, ...]:
    """Return the calls that turn the world into the end state."""
    before, end = current_end_state(TodoStore.of(spec.world)), spec.end
    favourites = {project[2]: project[3] for project in end.projects}
    dates = {todo[1]: todo[4] for todo in end.todos}
    changes = [
        Change("update_project", name, str(favourites[name]))
        for _, _, name, was in before.projects
        if favourites[name] != was
    ]
    for _, content, _, _, due_date in before.todos:
        if content not in dates:
            changes.append(Change(spec.removal, content))
        elif dates[content] != due_date:
            changes.append(Change("update_task", content, dates[content]))
    return tuple(changes)


def make_plan(spec: TaskSpec) -> Plan:
    """Return the plan of a task."""
    changes = find_changes(spec)

    def run() -> Generator[PlannedCall, Any, Any]:
        ids: dict[str, str] = {}
        for read in spec.lookups:
            planned = _reading(read, ids)
            if planned is not None:
                _learn(ids, (yield planned))
        for change in changes:
            if change.subject in ids:
                yield _changing(change, ids[change.subject])
        return spec.answer

    return run


def _reading(read: Lookup, ids: Mapping[str, str]) -> PlannedCall | None:
    """Return the call of a look-up; None where what it is about was never seen."""
    why = tuple(text.format(subject=read.subject) for text in _WHY[read.tool])
    if not read.subject:
        return PlannedCall(read.tool, {}, why)
    if read.subject not in ids:
        return None
    parameter = "project_id" if read.tool == "get_tasks" else "task_id"
    return PlannedCall(read.tool, {parameter: ids[read.subject]}, why)


def _changing(change: Change, object_id: str) -> PlannedCall:
    why = tuple(
        text.format(subject=change.subject, value=change.value) for text in _WHY[change.tool]
    )
    if change.tool == "update_project":
        return PlannedCall(change.tool, {"project_id": object_id, "is_favorite": change.value}, why)
    if change.tool == "update_task":
        return PlannedCall(change.tool, {"task_id": object_id, "due_date": change.value}, why)
    return PlannedCall(change.tool, {"task_id": object_id}, why)


def _learn(ids: dict[str, str], value: Any) -> None:
    """Remember the ids of the projects or tasks that a call listed."""
    if not isinstance(value, list):
        return
    for entry in cast("list[Any]", value):
        if isinstance(entry, dict):
            listed = cast("dict[str, Any]", entry)
            ids[str(listed.get("name", listed.get("content")))] = str(listed.get("id"))
