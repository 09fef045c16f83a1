"""What the agent's functions do to an account, and what they reply, in the original's words.

Any `Account` will do, in memory or remote.
"""

from __future__ import annotations

from typing import Any, Protocol

from env_servers.environments.todo.store import NotFound, Project, Todo, parse_date

__all__ = ["Account", "TodoTools"]


class Account(Protocol):
    """The part of a to-do service that the functions need; unknown ids raise NotFound."""

    def projects(self) -> list[Project]:
        """Return all projects, in order."""
        ...

    def update_project(self, project_id: str, *, is_favorite: bool) -> Project:
        """Change a project; returns it as it is now."""
        ...

    def todos(self, project_id: str | None = None) -> list[Todo]:
        """Active tasks of a project, or of all."""
        ...

    def todo(self, todo_id: str) -> Todo:
        """Return an active task."""
        ...

    def update_todo(self, todo_id: str, *, due_date: str) -> Todo:
        """Change a task; returns it as it is now."""
        ...

    def complete_todo(self, todo_id: str) -> Todo:
        """Complete a task; returns it as it was."""
        ...

    def delete_todo(self, todo_id: str) -> Todo:
        """Delete a task; returns it as it was."""
        ...


class TodoTools:
    """The functions, on one account."""

    def __init__(self, account: Account, date: str, location: str) -> None:
        self.account = account
        self.date = date
        self.location = location

    def get_user_current_date(self) -> str:
        return self.date

    def get_user_current_location(self) -> str:
        return self.location

    def get_projects(self) -> list[dict[str, Any]]:
        return [_project(project) for project in self.account.projects()]

    def update_project(self, project_id: object, is_favorite: object) -> dict[str, Any] | str:
        value = {"True": True, "False": False}.get(str(is_favorite))
        if value is None:
            return "Error: is_favorite must be True or False."
        try:
            changed = self.account.update_project(str(project_id), is_favorite=value)
        except NotFound:
            return _missing("Project", project_id)
        return {"message": "Update the project successfully.", "project": _project(changed)}

    def get_tasks(self, project_id: object) -> list[dict[str, Any]] | str:
        try:
            return [_listed(todo) for todo in self.account.todos(str(project_id))]
        except NotFound:
            return _missing("Project", project_id)

    def get_task_description(self, task_id: object) -> dict[str, Any] | str:
        try:
            todo = self.account.todo(str(task_id))
        except NotFound:
            return _missing("Task", task_id)
        return {"id": todo.id, "content": todo.content, "description": todo.description}

    def get_task_duration(self, task_id: object) -> dict[str, Any] | str:
        try:
            todo = self.account.todo(str(task_id))
        except NotFound:
            return _missing("Task", task_id)
        duration = f"{todo.duration}({todo.duration_unit})" if todo.duration else "None"
        return {"id": todo.id, "content": todo.content, "duration": duration}

    def complete_task(self, task_id: object) -> dict[str, Any] | str:
        try:
            done = _listed(self.account.complete_todo(str(task_id)))
        except NotFound:
            return _missing("Task", task_id)
        # Recorded replies show no `is_completed` here, and only here.
        del done["is_completed"]
        return {"message": "Complete task successfully.", "task": done}

    def update_task(self, task_id: object, due_date: object) -> dict[str, Any] | str:
        try:
            parse_date(str(due_date))
        except ValueError as error:
            return f"Error: {error}."
        try:
            changed = self.account.update_todo(str(task_id), due_date=str(due_date))
        except NotFound:
            return _missing("Task", task_id)
        return {"message": "Update the task successfully", "task": _listed(changed)}

    def delete_task(self, task_id: object) -> dict[str, Any] | str:
        try:
            gone = self.account.delete_todo(str(task_id))
        except NotFound:
            return _missing("Task", task_id)
        return {"message": "Delete the task successfully.", "task": _listed(gone)}


def _missing(kind: str, object_id: object) -> str:
    return f"{kind} {str(object_id)[:100]} is not exists."


def _project(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "order": project.order,
        "color": project.color,
        "name": project.name,
        "is_favorite": project.is_favorite,
    }


def _listed(todo: Todo) -> dict[str, Any]:
    return {
        "id": todo.id,
        "order": todo.order,
        "content": todo.content,
        "is_completed": todo.is_completed,
        "priority": todo.priority,
        "due_date": todo.due_date,
    }
