"""The account: its projects with their tasks, and what differs from the state that is asked for."""

from __future__ import annotations

from collections import Counter
from typing import Final

from env_servers.environments.todo.store import Project, TodoStore
from env_servers.environments.todo.task_spec import EndState, current_end_state
from env_servers.sdk import View
from env_servers.toolkit.drawing import Table, document, facts, section, text_view

__all__ = ["draw"]

_MAX_PROJECTS: Final = 40
_MAX_ROWS: Final = 60
_HEAD: Final = ("", "task", "due", "priority", "section", "comments")
_STATE_HEAD: Final = ("order", "task", "completed", "priority", "due")


def draw(store: TodoStore, wanted: EndState) -> list[View]:
    """Draw an account; `wanted` is the state that it must be in at the end."""
    parts: list[object] = []
    lines: list[str] = []
    current = current_end_state(store)
    known = {"account": "as it must be" if current == wanted else "not as it must be at the end"}
    parts.append(facts(known))
    lines.append(f"account: {known['account']}")
    for title, table in (*_differences(current, wanted), *_projects(store)):
        parts.append(section(title, table.html()))
        lines += ["", f"# {title}", table.text()]
    return [
        document("account", "Account", *parts),
        text_view("account_text", "Account as text", "\n".join(lines)),
    ]


def _differences(current: EndState, wanted: EndState) -> list[tuple[str, Table]]:
    """What is there and must not be, and the other way round."""
    tables: list[tuple[str, Table]] = []
    for title, these, others in (
        ("Must still come", wanted, current),
        ("Must still go", current, wanted),
    ):
        todos = Counter(these.todos) - Counter(others.todos)
        projects = Counter(these.projects) - Counter(others.projects)
        if todos:
            tables.append((title, Table(_STATE_HEAD, list(todos), max_rows=_MAX_ROWS)))
        if projects:
            head = ("order", "colour", "project", "favourite")
            tables.append((title, Table(head, list(projects), max_rows=_MAX_ROWS)))
    return tables


def _projects(store: TodoStore) -> list[tuple[str, Table]]:
    projects = store.projects()
    tables = [(_named(project), _table(store, project)) for project in projects[:_MAX_PROJECTS]]
    if len(projects) > _MAX_PROJECTS:
        names = [[project.name] for project in projects[_MAX_PROJECTS:]]
        tables.append(("More projects", Table((), names, max_rows=_MAX_ROWS)))
    return tables


def _named(project: Project) -> str:
    return f"{project.name} ★" if project.is_favorite else project.name


def _table(store: TodoStore, project: Project) -> Table:
    sections = {one.id: one.name for one in store.sections(project.id)}
    rows = [
        (
            todo.order,
            todo.content,
            todo.due_date,
            todo.priority,
            sections.get(todo.section_id),
            "; ".join(comment.content for comment in store.comments(todo.id)),
        )
        for todo in store.todos(project.id)
    ]
    return Table(_HEAD, rows, max_rows=_MAX_ROWS)
