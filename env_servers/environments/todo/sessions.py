"""Who answers the tools of TODOList: an account in memory, or a recording.

Every session can tell the end state that its account is in. The real service is in `live.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from env_servers.environments.todo.prompt import TOOLS
from env_servers.environments.todo.store import TodoStore
from env_servers.environments.todo.task_spec import EndState, TaskSpec, current_end_state, end_state
from env_servers.environments.todo.tools import Account, TodoTools
from env_servers.toolkit.tool_calls import (
    EMBEDDED,
    Backend,
    RecordedBackend,
    RecordedSession,
    Recording,
    Reply,
    Session,
    ToolSet,
    ToolTask,
    parse_value,
)
from env_servers.toolkit.tool_calls.backends import TooledSession

__all__ = [
    "AccountSession",
    "EmbeddedSession",
    "EmbeddedTodo",
    "RecordedTodo",
    "RecordedTodoSession",
    "TodoSession",
    "get_task_spec",
    "recorded_ids",
]


@runtime_checkable
class TodoSession(Protocol):
    """What the environment asks of a session beyond its calls."""

    def state(self) -> EndState:
        """Return the account as it is now, without ids."""
        ...


def get_task_spec(task: ToolTask) -> TaskSpec:
    """Return the specification of a task."""
    return cast("TaskSpec", task.init["spec"])


class AccountSession(TodoTools, TooledSession):
    """Tools on an account; a refusal in words satisfies no subgoal."""

    toolset: ClassVar[ToolSet] = TOOLS

    def __init__(self, account: Account, date: str, location: str) -> None:
        super().__init__(account, date, location)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        reply = super().call(tool, arguments)
        refused = isinstance(reply.value, str) and not tool.startswith("get_user_")
        return reply._replace(ok=False) if refused else reply

    def state(self) -> EndState:
        """Return the account as it is now, without ids."""
        return end_state(self.account.projects(), self.account.todos())


class EmbeddedSession(AccountSession):
    """Tools on an account in memory."""

    def __init__(self, store: TodoStore, date: str, location: str) -> None:
        super().__init__(store, date, location)
        self.store = store

    def fork(self) -> EmbeddedSession:
        """Return an independent copy."""
        return type(self)(self.store.fork(), self.date, self.location)


def recorded_ids(recording: Recording | None, item: int) -> dict[str, str]:
    """Names of projects and contents of tasks to the ids that a recorded conversation shows."""
    ids: dict[str, str] = {}
    exchanges = recording.conversations.get(item, ()) if recording is not None else ()
    for exchange in exchanges:
        value = parse_value(exchange.reply) if exchange.reply is not None else None
        entries = cast("list[Any]", value) if isinstance(value, list) else []
        for entry in entries:
            if isinstance(entry, dict) and "id" in entry:
                listed = cast("dict[str, Any]", entry)
                ids[str(listed.get("name", listed.get("content")))] = str(listed["id"])
    return ids


class EmbeddedTodo(Backend):
    """Accounts in memory, one per episode.

    An official task that AgentTraj-L recorded gets the ids of its conversation.
    """

    name: ClassVar[str] = EMBEDDED

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def open(self, task: ToolTask) -> EmbeddedSession:
        spec = get_task_spec(task)
        ids = recorded_ids(self._recording, task.index) if task.official else {}
        store = TodoStore.of(spec.world, seed=spec.seed, ids=ids)
        return EmbeddedSession(store, spec.date, spec.location)


class RecordedTodoSession(RecordedSession):
    """Replies from a recording; what they report is done to an account in memory, by name."""

    def __init__(
        self, recording: Recording, task: ToolTask, own: EmbeddedSession, store: TodoStore
    ) -> None:
        super().__init__(
            recording, task, own, ("get_user_current_date", "get_user_current_location")
        )
        self.user = own
        self.store = store

    def value(self, tool: str, reply: Reply) -> Reply:
        """Applies what the reply reports."""
        if isinstance(reply.value, dict):
            self._apply(tool, cast("dict[str, Any]", reply.value))
        return reply

    def _apply(self, tool: str, value: Mapping[str, Any]) -> None:
        about = value.get("project") or value.get("task")
        if not isinstance(about, dict):
            return
        fields = cast("dict[str, Any]", about)
        if tool == "update_project":
            for project in self.store.projects():
                if project.name == fields.get("name"):
                    self.store.update_project(project.id, is_favorite=fields.get("is_favorite"))
        for todo in self.store.todos():
            if todo.content != fields.get("content"):
                continue
            if tool == "update_task":
                self.store.update_todo(todo.id, due_date=fields.get("due_date"))
            elif tool == "complete_task":
                self.store.complete_todo(todo.id)
            elif tool == "delete_task":
                self.store.delete_todo(todo.id)

    def state(self) -> EndState:
        """Return the account as the replies left it."""
        return current_end_state(self.store)

    def fork(self) -> RecordedTodoSession:
        """Return an independent copy."""
        copy = RecordedTodoSession(self.recording, self.task, self.user, self.store.fork())
        copy.times.update(self.times)
        return copy


class RecordedTodo(RecordedBackend):
    """Sessions on recorded calls; a call that nobody recorded is an error of the tool."""

    def open(self, task: ToolTask) -> Session:
        own = EmbeddedTodo().open(task)
        return RecordedTodoSession(self.recording, task, own, own.store)
