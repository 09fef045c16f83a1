"""A to-do account: projects, sections, tasks and comments, and what may be done to them.

The rules are those of the original's REST service: ids are opaque text, `order` counts from 1
within a parent, only active tasks are listed, completing or deleting a task hides it for good,
deleting a project takes everything in it along. A store belongs to one episode; worlds are shared
and never change.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

__all__ = [
    "Comment",
    "NotFound",
    "Project",
    "ProjectSeed",
    "Section",
    "Todo",
    "TodoSeed",
    "TodoStore",
    "World",
    "parse_date",
]

COLOUR: Final = "charcoal"
"""The service's default."""
_T = TypeVar("_T")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_PROJECT_IDS: Final = 2_330_000_000
_TODO_IDS: Final = 7_890_000_000
_ID_SPREAD: Final = 9_000_000


class NotFound(LookupError):
    """No active object has this id."""


def parse_date(text: str) -> datetime.date:
    """Return a `YYYY-MM-DD` date; raises ValueError."""
    if not _DATE.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is no date in the YYYY-MM-DD format")
    return datetime.date.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class TodoSeed:
    """A task as a world lists it."""

    content: str
    due_date: str
    """`YYYY-MM-DD`."""
    priority: int = 1
    """1 (normal) to 4 (urgent)."""
    description: str = ""
    duration: int = 0
    """In `duration_unit`; 0 = none given."""
    duration_unit: str = "minute"
    section: str = ""
    """Name of its section in the project; empty = none."""
    comments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectSeed:
    """A project as a world lists it."""

    name: str
    todos: tuple[TodoSeed, ...]
    is_favorite: bool = False
    sections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    """What an account holds when an episode begins."""

    projects: tuple[ProjectSeed, ...]

    def todos(self) -> Iterator[tuple[ProjectSeed, TodoSeed]]:
        """Return every task with its project, in order."""
        for project in self.projects:
            for todo in project.todos:
                yield project, todo


@dataclass(frozen=True, slots=True)
class Project:
    """A project of the account."""

    id: str
    name: str
    order: int
    color: str = COLOUR
    is_favorite: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading inside a project."""

    id: str
    project_id: str
    name: str
    order: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A remark on a task."""

    id: str
    todo_id: str
    content: str


@dataclass(frozen=True, slots=True)
class Todo:
    """A task of the account."""

    id: str
    project_id: str
    order: int
    content: str
    priority: int
    due_date: str
    description: str = ""
    duration: int = 0
    duration_unit: str = "minute"
    section_id: str = ""
    is_completed: bool = False


@dataclass(slots=True)
class _Ids:
    """Draws opaque ids that look like the service's: ten digits, ascending."""

    rng: random.Random
    last: dict[str, int] = field(default_factory=dict[str, int])

    def next(self, kind: str) -> str:
        start = _PROJECT_IDS if kind == "project" else _TODO_IDS
        last = self.last.get(kind, start + self.rng.randrange(_ID_SPREAD))
        self.last[kind] = last + 1 + self.rng.randrange(200)
        return str(self.last[kind])


class TodoStore:
    """One account. Every method either does the whole thing or raises and changes nothing."""

    __slots__ = ("_comments", "_ids", "_projects", "_sections", "_todos")

    def __init__(self, seed: int = 0) -> None:
        """An empty account; `seed` decides its ids."""
        self._ids = _Ids(random.Random(seed))
        self._projects: dict[str, Project] = {}
        self._sections: dict[str, Section] = {}
        self._todos: dict[str, Todo] = {}
        self._comments: dict[str, Comment] = {}

    @classmethod
    def of(cls, world: World, *, seed: int = 0, ids: Mapping[str, str] = {}) -> TodoStore:
        """Return an account that holds the world.

        `ids` gives ids of its own to projects (by name) and tasks (by content): for replays.
        """
        store = cls(seed)
        for project in world.projects:
            new_project = store.add_project(
                project.name, is_favorite=project.is_favorite, id=ids.get(project.name)
            )
            sections = {name: store.add_section(new_project.id, name) for name in project.sections}
            for todo in project.todos:
                section = sections.get(todo.section)
                added = store.add_todo(
                    new_project.id, todo, section.id if section else "", id=ids.get(todo.content)
                )
                for content in todo.comments:
                    store.add_comment(added.id, content)
        return store

    # -- reading ------------------------------------------------------------------------------

    def projects(self) -> list[Project]:
        """Return all projects, in order."""
        return list(self._projects.values())

    def project(self, project_id: str) -> Project:
        """Raises NotFound."""
        return _found(self._projects, project_id, "project")

    def sections(self, project_id: str) -> list[Section]:
        """Return the headings of a project; raises NotFound."""
        self.project(project_id)
        return [section for section in self._sections.values() if section.project_id == project_id]

    def todos(self, project_id: str | None = None) -> list[Todo]:
        """Active tasks of a project, or of all, by project and order; raises NotFound."""
        if project_id is None:
            return [todo for project in self._projects for todo in self.todos(project)]
        self.project(project_id)
        return [
            todo
            for todo in self._todos.values()
            if todo.project_id == project_id and not todo.is_completed
        ]

    def todo(self, todo_id: str) -> Todo:
        """Return an active task; raises NotFound."""
        todo = _found(self._todos, todo_id, "task")
        if todo.is_completed:
            raise NotFound(f"task {todo_id} is completed")
        return todo

    def comments(self, todo_id: str) -> list[Comment]:
        """Return the remarks on an active task; raises NotFound."""
        self.todo(todo_id)
        return [comment for comment in self._comments.values() if comment.todo_id == todo_id]

    # -- writing ------------------------------------------------------------------------------

    def add_project(
        self,
        name: str,
        *,
        is_favorite: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> Project:
        """Add a project after the others."""
        project = Project(
            id or self._ids.next("project"),
            name,
            _next_order(self._projects.values()),
            is_favorite=is_favorite,
        )
        self._projects[project.id] = project
        return project

    def update_project(self, project_id: str, **changes: Any) -> Project:
        """Change `name` or `is_favorite`; raises NotFound."""
        changed = replace(self.project(project_id), **changes)
        self._projects[project_id] = changed
        return changed

    def delete_project(self, project_id: str) -> Project:
        """Remove a project with its sections, tasks and comments; raises NotFound."""
        gone = self.project(project_id)
        for todo in [t.id for t in self._todos.values() if t.project_id == project_id]:
            self._drop_todo(todo)
        for section in [s.id for s in self._sections.values() if s.project_id == project_id]:
            del self._sections[section]
        del self._projects[project_id]
        return gone

    def add_section(self, project_id: str, name: str) -> Section:
        """Add a heading at the end of a project; raises NotFound."""
        section = Section(
            self._ids.next("section"), project_id, name, _next_order(self.sections(project_id))
        )
        self._sections[section.id] = section
        return section

    def add_todo(
        self,
        project_id: str,
        seed: TodoSeed,
        section_id: str = "",
        *,
        id: str | None = None,  # noqa: A002
    ) -> Todo:
        """Add a task at the end of a project; raises NotFound, ValueError for a bad date."""
        parse_date(seed.due_date)
        siblings = (t for t in self._todos.values() if t.project_id == project_id)
        todo = Todo(
            id or self._ids.next("task"),
            self.project(project_id).id,
            _next_order(siblings),
            seed.content,
            seed.priority,
            seed.due_date,
            seed.description,
            seed.duration,
            seed.duration_unit,
            section_id,
        )
        self._todos[todo.id] = todo
        return todo

    def update_todo(self, todo_id: str, **changes: Any) -> Todo:
        """Change fields of an active task; raises NotFound, ValueError for a bad date."""
        if "due_date" in changes:
            parse_date(changes["due_date"])
        changed = replace(self.todo(todo_id), **changes)
        self._todos[todo_id] = changed
        return changed

    def complete_todo(self, todo_id: str) -> Todo:
        """Mark an active task as done: it is listed no longer; returns it as it was."""
        before = self.todo(todo_id)
        self._todos[todo_id] = replace(before, is_completed=True)
        return before

    def delete_todo(self, todo_id: str) -> Todo:
        """Remove an active task and its comments; returns it as it was."""
        before = self.todo(todo_id)
        self._drop_todo(todo_id)
        return before

    def add_comment(self, todo_id: str, content: str) -> Comment:
        """Add a remark to an active task; raises NotFound."""
        comment = Comment(self._ids.next("comment"), self.todo(todo_id).id, content)
        self._comments[comment.id] = comment
        return comment

    def _drop_todo(self, todo_id: str) -> None:
        for comment in [c.id for c in self._comments.values() if c.todo_id == todo_id]:
            del self._comments[comment]
        del self._todos[todo_id]

    # -- the whole ----------------------------------------------------------------------------

    def fork(self) -> TodoStore:
        """Return an independent copy; objects are shared, because they never change."""
        copy = TodoStore()
        state = random.Random()
        state.setstate(self._ids.rng.getstate())
        copy._ids = _Ids(state, dict(self._ids.last))
        copy._projects = dict(self._projects)
        copy._sections = dict(self._sections)
        copy._todos = dict(self._todos)
        copy._comments = dict(self._comments)
        return copy

    def content(self) -> tuple[object, ...]:
        """Everything that the account holds, ids too: equal contents mean equal futures."""
        return (
            tuple(self._projects.values()),
            tuple(self._sections.values()),
            tuple(self._todos.values()),
            tuple(self._comments.values()),
        )


def _found(objects: Mapping[str, _T], object_id: str, kind: str) -> _T:
    try:
        return objects[object_id]
    except KeyError:
        raise NotFound(f"no {kind} has the id {object_id[:100]!r}") from None


def _next_order(siblings: Iterable[Project | Section | Todo]) -> int:
    return 1 + max((sibling.order for sibling in siblings), default=0)
