"""What a task of this environment asks for, whoever made it: official or generated.

A specification is plain data that can be compared and printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from env_servers.environments.todo.store import COLOUR, Project, Todo, TodoStore, World

__all__ = ["EndState", "Lookup", "TaskSpec", "current_end_state", "end_state"]


class Lookup(NamedTuple):
    """One call that looks something up. `subject` is a project's name or a task's content."""

    tool: str
    subject: str = ""


class EndState(NamedTuple):
    """An account without its ids, as the original compares it."""

    projects: tuple[tuple[int, str, str, bool], ...]
    """(order, color, name, is_favorite)."""
    todos: tuple[tuple[int, str, bool, int, str], ...]
    """(order, content, is_completed, priority, due_date), by project."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A goal in a world, with everything that scores it and solves it."""

    world: World
    goal: str
    answer: object
    """What `finish` must be given; "done" for operations."""
    end: EndState
    """What the account must be in the end."""
    date: str
    """The user's current date, `YYYY-MM-DD`."""
    location: str
    """The user's current city."""
    lookups: tuple[Lookup, ...]
    """What has to be looked up before anything is changed, in this order."""
    removal: str = "complete_task"
    """The tool that makes a task vanish: `complete_task` or `delete_task`."""
    kind: str = ""
    """Sort of goal."""
    seed: int = 0
    """Decides the ids of the account."""


def end_state(projects: Sequence[Project], todos: Sequence[Todo]) -> EndState:
    """Return the end state of an account with these projects and active tasks."""
    return EndState(
        tuple((p.order, p.color or COLOUR, p.name, p.is_favorite) for p in projects),
        tuple((t.order, t.content, t.is_completed, t.priority, t.due_date) for t in todos),
    )


def current_end_state(store: TodoStore) -> EndState:
    """Return the end state of a store as it is now."""
    return end_state(store.projects(), store.todos())
