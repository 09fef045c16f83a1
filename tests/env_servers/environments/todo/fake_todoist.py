"""A small Todoist on loopback: the REST endpoints that the live backend uses, on a TodoStore."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from env_servers.environments.todo.store import NotFound, Project, Todo, TodoSeed, TodoStore

_MOMENT = "2024-01-01T10:00:00.000000Z"


def project_json(project: Project) -> dict[str, Any]:
    return {
        **asdict(project),
        "description": "",
        "is_collapsed": False,
        "is_shared": False,
        "is_archived": False,
        "can_assign_tasks": False,
        "view_style": "list",
        "created_at": _MOMENT,
        "updated_at": _MOMENT,
        "inbox_project": project.name == "Inbox",
    }


def todo_json(todo: Todo) -> dict[str, Any]:
    duration = {"amount": todo.duration, "unit": todo.duration_unit} if todo.duration else None
    return {
        "id": todo.id,
        "content": todo.content,
        "description": todo.description,
        "project_id": todo.project_id,
        "section_id": todo.section_id or None,
        "parent_id": None,
        "labels": [],
        "priority": todo.priority,
        "due": {"date": todo.due_date, "string": todo.due_date},
        "deadline": None,
        "duration": duration,
        "is_collapsed": False,
        "child_order": todo.order,
        "responsible_uid": None,
        "assigned_by_uid": None,
        "completed_at": None,
        "added_by_uid": "1",
        "added_at": _MOMENT,
        "updated_at": _MOMENT,
    }


class FakeTodoist:
    """The account and what was asked of it."""

    def __init__(self) -> None:
        self.store = TodoStore(7)
        inbox = self.store.add_project("Inbox")
        self.private = self.store.add_project("Private")
        seed = TodoSeed("Secret plan", "2024-05-05")
        self.secret = self.store.add_todo(self.private.id, seed)
        self.store.add_todo(inbox.id, TodoSeed("Lookup mail", "2024-05-06"))
        self.failing: list[int] = []
        """Statuses of the next answers."""
        self.requests: list[tuple[str, str]] = []
        self.keys: set[str | None] = set()
        self.delay = threading.Event()
        self.slow = False

    def answer(self, method: str, target: str, body: dict[str, Any]) -> Any:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        kind, *rest = parts.path.strip("/").split("/")
        if kind == "projects":
            return self.answer_project(method, rest, body)
        if kind == "tasks":
            return self.answer_task(method, rest, body, query)
        if kind == "sections":
            made = self.store.add_section(body["project_id"], body["name"])
            return {**asdict(made), "is_collapsed": False}
        made = self.store.add_comment(body["task_id"], body["content"])
        return {
            "id": made.id,
            "content": made.content,
            "posted_uid": "1",
            "posted_at": _MOMENT,
            "item_id": made.todo_id,
        }

    def answer_project(self, method: str, rest: list[str], body: dict[str, Any]) -> Any:
        if method == "GET":
            return {"results": list(map(project_json, self.store.projects())), "next_cursor": None}
        if method == "DELETE":
            self.store.delete_project(rest[0])
            return None
        if rest:
            return project_json(self.store.update_project(rest[0], **body))
        made = self.store.add_project(body["name"], is_favorite=body.get("is_favorite", False))
        return project_json(made)

    def answer_task(
        self, method: str, rest: list[str], body: dict[str, Any], query: dict[str, str]
    ) -> Any:
        if method == "GET" and not rest:
            found = self.store.todos(query["project_id"])
            return {"results": list(map(todo_json, found)), "next_cursor": None}
        if method == "GET":
            return todo_json(self.store.todo(rest[0]))
        if method == "DELETE":
            self.store.delete_todo(rest[0])
            return None
        if rest[1:] == ["close"]:
            self.store.complete_todo(rest[0])
            return None
        if rest:
            return todo_json(self.store.update_todo(rest[0], due_date=body["due_date"]))
        seed = TodoSeed(
            body["content"],
            body["due_date"],
            body["priority"],
            body.get("description", ""),
            body.get("duration", 0),
        )
        return todo_json(self.store.add_todo(body["project_id"], seed, body.get("section_id", "")))


@contextmanager
def serving(fake: FakeTodoist) -> Iterator[str]:
    """The base URL of the fake while it is served."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or "{}")
            fake.requests.append((self.command, self.path))
            fake.keys.add(self.headers.get("Authorization"))
            if fake.slow:
                fake.delay.wait(5)
            if fake.failing:
                self.reply(fake.failing.pop(0), {"error": "no"})
                return
            try:
                found = fake.answer(self.command, self.path, body)
            except NotFound:
                self.reply(404, {"error": "not found"})
                return
            self.reply(204 if found is None else 200, found)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def reply(self, status: int, content: Any) -> None:
            text = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if status == 429:
                self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        fake.delay.set()
        server.shutdown()
        server.server_close()
