"""The official to-do tasks: the published file, and the account that they are about.

The task file gives every project and task, the seed file and recorded calls add descriptions and
durations. Nothing is invented; what no file tells stays empty. A malformed file is reported with
file, line and field.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from env_servers.environments.todo.expert import find_changes, make_plan
from env_servers.environments.todo.store import (
    Project,
    ProjectSeed,
    Todo,
    TodoSeed,
    World,
    parse_date,
)
from env_servers.environments.todo.task_spec import EndState, Lookup, TaskSpec, end_state
from env_servers.sdk import EnvironmentUnavailable
from env_servers.toolkit.tool_calls import (
    MalformedFile,
    Recording,
    ToolTask,
    parse_value,
    read_tasks,
)

__all__ = ["as_tool_task", "read_official"]

_TASKS: Final = Path("tools", "todo.jsonl")
_SEED: Final = Path("tools", "todo_projects.json")
_NAME: Final = "todo"
MAX_READS: Final = 14
"""An evaluation allows 15 rounds, and `finish` is one."""
_PLACE: Final = re.compile(r'What is the location for conducting the task "([^"]+)"\?')
_LEVEL: Final = re.compile(r"with a priority level of ([1-4])")
_TIME_WORDS: Final = re.compile(
    r"\b(long|longest|duration|time|hours?|minutes?|require[sd]?)\b", re.IGNORECASE
)
_TEXT_WORDS: Final = re.compile(
    r"\b(description|location|chapter's|Student Building|contact the teacher)\b"
)
_DATE_WORDS: Final = re.compile(
    r"\b(today|tomorrow|overdue|expired?|days later|next \d+ days)\b", re.IGNORECASE
)


@dataclass(slots=True)
class _Details:
    """What other files tell of a task."""

    description: dict[str, str] = field(default_factory=dict[str, str])
    duration: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])


def read_official(data_dir: Path, recording: Recording | None) -> list[ToolTask] | None:
    """Return all official tasks, or None where the task file is not there; raises MalformedFile."""
    needed = ("current_date", "current_location")
    tasks = read_tasks(data_dir, _NAME, required_init=needed)
    if tasks is None:
        return None
    path = data_dir / _TASKS
    ends = [_end(path, number, task) for number, task in enumerate(tasks, start=1)]
    world = _world(ends, _details(data_dir, tasks, recording))
    return [
        as_tool_task(_task_spec(path, number, task, end, world), task.index, official=True)
        for number, (task, end) in enumerate(zip(tasks, ends, strict=True), start=1)
    ]


def as_tool_task(spec: TaskSpec, index: int, *, official: bool = False) -> ToolTask:
    """Return the payload of a task."""
    return ToolTask(
        goal=spec.goal,
        subgoals=(spec.answer,),
        official=official,
        index=index,
        init={"spec": spec},
        end_state=spec.end,
        plan=make_plan(spec),
        steps=len(spec.lookups) + len(find_changes(spec)) + 1,
    )


def _details(data_dir: Path, tasks: Sequence[ToolTask], recording: Recording | None) -> _Details:
    details = _Details()
    if recording is not None:
        _add_recorded(details, recording)
    _add_seed(details, data_dir / _SEED)
    for task in tasks:
        # Where a description is nowhere, a question about its place still tells that.
        match = _PLACE.search(task.goal)
        if match and isinstance(task.subgoals[0], str):
            details.description.setdefault(match[1], f"- Place: {task.subgoals[0]}")
    return details


def _add_seed(details: _Details, path: Path) -> None:
    """The seed account; it may list only some of the projects."""
    if not path.is_file():
        return
    try:
        for project in json.loads(path.read_text(encoding="utf-8")):
            for todo in project["tasks"]:
                content = todo["content"]
                details.description[content] = str(todo["description"])
                details.duration[content] = (int(todo["duration"]), str(todo["duration_unit"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentUnavailable(f"cannot read {path}: {error!r}") from error


def _add_recorded(details: _Details, recording: Recording) -> None:
    """Descriptions and durations that recorded replies show."""
    for texts in recording.by_call.values():
        reply = parse_value(texts[0])
        if not isinstance(reply, dict):
            continue
        fields = cast("dict[str, Any]", reply)
        content = str(fields.get("content"))
        if "description" in fields:
            details.description[content] = str(fields["description"])
        amount, _, unit = str(fields.get("duration", "")).rstrip(")").partition("(")
        if amount.isascii() and amount.isdigit():
            details.duration[content] = (int(amount), unit)


def _end(path: Path, line: int, task: ToolTask) -> EndState:
    name = "additional_info.answer"
    try:
        projects = [
            Project("", p["name"], p["order"], p["color"], is_favorite=p["is_favorite"])
            for p in task.end_state["projects"]
        ]
        todos = [_todo(entry) for entry in task.end_state["tasks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedFile(path, line, name, repr(error)) from error
    if todos and todos[0].order != 1 and not projects:
        raise MalformedFile(path, line, name, "tasks without projects")
    return end_state(projects, todos)


def _todo(entry: Mapping[str, Any]) -> Todo:
    parse_date(entry["due_date"])
    return Todo(
        "",
        "",
        entry["order"],
        entry["content"],
        entry["priority"],
        entry["due_date"],
        is_completed=entry["is_completed"],
    )


def _world(ends: Sequence[EndState], details: _Details) -> World:
    """Return the account before any task: what most tasks leave as it is."""
    before, _ = Counter(ends).most_common(1)[0]
    groups: list[list[TodoSeed]] = []
    for order, content, _, priority, due_date in before.todos:
        if order == 1:
            groups.append([])
        amount, unit = details.duration.get(content, (0, "minute"))
        description = details.description.get(content, "")
        groups[-1].append(TodoSeed(content, due_date, priority, description, amount, unit))
    if len(groups) != len(before.projects):
        raise EnvironmentUnavailable(f"{_TASKS}: {len(groups)} groups of tasks do not fit")
    return World(
        tuple(
            ProjectSeed(name, tuple(group), is_favorite)
            for (_, _, name, is_favorite), group in zip(before.projects, groups, strict=True)
        )
    )


def _task_spec(path: Path, line: int, task: ToolTask, end: EndState, world: World) -> TaskSpec:
    if len(task.subgoals) != 1:
        raise MalformedFile(path, line, "subgoals", "must have exactly one entry")
    date = task.init["current_date"]
    try:
        parse_date(date)
    except ValueError as error:
        name = "additional_info.init_config.current_date"
        raise MalformedFile(path, line, name, str(error)) from error
    names = {project.name for project in world.projects}
    if {project[2] for project in end.projects} != names:
        raise MalformedFile(path, line, "additional_info.answer.projects", "are others than before")
    spec = TaskSpec(
        world,
        task.goal.strip(),
        task.subgoals[0],
        end,
        date,
        task.init["current_location"],
        (),
        removal="delete_task" if "delete" in task.goal.lower() else "complete_task",
        seed=task.index,
    )
    changes = find_changes(spec)
    kind = "operation" if changes else "query"
    touched = [change.subject for change in changes]
    return replace(spec, kind=kind, lookups=_lookups(spec, touched))


def _lookups(spec: TaskSpec, changed: Sequence[str]) -> tuple[Lookup, ...]:
    """Return what the expert looks up: the projects and tasks that the goal or the changes name."""
    goal = spec.goal
    lookups = [Lookup("get_projects")]
    if _DATE_WORDS.search(goal):
        lookups.insert(0, Lookup("get_user_current_date"))
    homes = {todo.content: project.name for project, todo in spec.world.todos()}
    named = [content for content in homes if _names(goal, content)]
    touched = [subject for subject in dict.fromkeys([*named, *changed]) if subject in homes]
    projects = {name for name in homes.values() if name in goal}
    projects |= {homes[content] for content in touched}
    names = [project.name for project in spec.world.projects]
    to_read = [name for name in names if name in projects] or names
    if goal.startswith(("How many projects", "Which project is marked")):
        to_read = []
    lookups += [Lookup("get_tasks", name) for name in to_read]
    level = _LEVEL.search(goal)
    priorities = {todo.content: str(todo.priority) for _, todo in spec.world.todos()}
    subjects = touched or [
        content
        for content, home in homes.items()
        if home in to_read and (level is None or priorities[content] == level[1])
    ]
    if _TEXT_WORDS.search(goal):
        lookups += [Lookup("get_task_description", content) for content in subjects]
    elif _TIME_WORDS.search(goal):
        lookups += [Lookup("get_task_duration", content) for content in subjects]
    return tuple(lookups[: MAX_READS - len(changed)])


def _names(goal: str, content: str) -> bool:
    """Return whether a goal names a task, be it in another form of the verb."""
    words = content.lower().split()
    if len(words) < 3:
        return content in goal
    ending = " ".join(words[-2:])
    return " ".join(words[1:]) in goal.lower() or (words[-2] != "the" and ending in goal.lower())
