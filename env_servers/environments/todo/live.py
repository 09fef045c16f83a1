"""TODOList on a real Todoist account, through Todoist's own Python client.

To keep an account safe, an episode makes projects of its own, sees and changes nothing else, and
removes only what it made. Emptying the account first, as the original does on every reset, takes an
explicit consent. Errors of the service become faults of infrastructure.

Needs the extra `todo-live`; the key is read from TODO_KEY.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import ClassVar, Final, NoReturn, TypeVar

from env_servers.environments.todo.sessions import AccountSession, get_task_spec
from env_servers.environments.todo.store import (
    COLOUR,
    NotFound,
    Project,
    ProjectSeed,
    Todo,
    World,
    parse_date,
)
from env_servers.environments.todo.tools import Account
from env_servers.sdk import EnvironmentUnavailable, InvalidOption
from env_servers.sdk.extras import install_command
from env_servers.toolkit.tool_calls import (
    LIVE,
    Backend,
    ServiceUnavailable,
    ToolError,
    ToolSettings,
    ToolTask,
)
from env_servers.toolkit.tool_calls.live import LiveService, Rate

try:
    import httpx
    from todoist_api_python import api as todoist
    from todoist_api_python import models
except ModuleNotFoundError as error:
    raise EnvironmentUnavailable(
        f"backend live of todo needs Todoist's client: {install_command('todo-live')}"
    ) from error

__all__ = ["LiveAccount", "LiveTodo"]

KEY: Final = "TODO_KEY"
API: Final = "https://api.todoist.com/api/v1"
"""Where Todoist's client sends its requests."""
_CALLS_PER_MINUTE: Final = 60
_TIMEOUT: Final = 20.0
_REFUSED: Final = (401, 403, 429)
_UNKNOWN: Final = (400, 404)
"""Todoist's answers to ids that do not exist, or that it cannot read."""

T = TypeVar("T")


class LiveTodo(Backend):
    """Episodes on one Todoist account."""

    name: ClassVar[str] = LIVE

    def __init__(
        self, key: str, *, base_url: str, rate: Rate, timeout: float, empty_account: bool
    ) -> None:
        """`empty_account`: delete all projects of the account before every episode."""
        transport = _Rebased(base_url, timeout)
        self._api = todoist.TodoistAPI(key, client=httpx.Client(transport=transport))
        self._service = LiveService("Todoist", rate=rate, timeout=timeout)
        self._empty_account = empty_account

    @classmethod
    def of(cls, settings: ToolSettings) -> LiveTodo:
        """From settings; raises EnvironmentUnavailable naming a missing key."""
        calls = settings.number("calls_per_minute", _CALLS_PER_MINUTE)
        return cls(
            settings.secret(KEY),
            base_url=settings.text("base_url", API),
            rate=Rate(1, 60.0 / calls),
            timeout=settings.number("timeout", _TIMEOUT),
            empty_account=settings.flag("allow_destructive"),
        )

    def open(self, task: ToolTask) -> LiveSession:
        spec = get_task_spec(task)
        account = LiveAccount(self._api, self._service)
        if self._empty_account:
            account.delete_all_projects()
        try:
            account.create_projects(spec.world)
        except EnvironmentUnavailable:
            account.delete_own_projects()
            raise
        return LiveSession(account, spec.date, spec.location)

    def close(self) -> None:
        self._service.close()


class LiveSession(AccountSession):
    """Tools on the projects of one episode."""

    def __init__(self, account: LiveAccount, date: str, location: str) -> None:
        super().__init__(account, date, location)
        self.own = account

    def fork(self) -> LiveSession:
        raise InvalidOption("an episode on a live account cannot be forked")

    def cancel(self) -> None:
        self.own.cancel()

    def close(self) -> None:
        self.own.delete_own_projects()


class LiveAccount(Account):
    """The projects that one episode made in an account, and nothing else of it."""

    def __init__(self, api: todoist.TodoistAPI, service: LiveService) -> None:
        self._api = api
        self._service = service
        self._orders: dict[str, int] = {}
        """Places of the projects and tasks of this episode, by id."""
        self._projects: list[str] = []

    # -- making and removing --------------------------------------------------------------------

    def delete_all_projects(self) -> None:
        """Delete every project of the account but its inbox."""
        for project in self._all_projects():
            if not project.is_inbox_project:
                self._ask(lambda project_id=project.id: self._api.delete_project(project_id))

    def create_projects(self, world: World) -> None:
        """Make the projects and tasks of a world; raises ServiceUnavailable."""
        for position, seed in enumerate(world.projects, start=1):
            created = self._ask(
                lambda s=seed: self._api.add_project(
                    s.name, color=COLOUR, is_favorite=s.is_favorite
                )
            )
            self._projects.append(created.id)
            self._orders[created.id] = position
            self._fill(created.id, seed)

    def _fill(self, project_id: str, seed: ProjectSeed) -> None:
        sections = {
            name: self._ask(lambda n=name: self._api.add_section(n, project_id)).id
            for name in seed.sections
        }
        for position, todo in enumerate(seed.todos, start=1):
            created = self._ask(
                lambda t=todo: self._api.add_task(
                    t.content,
                    description=t.description or None,
                    project_id=project_id,
                    section_id=sections.get(t.section),
                    priority=t.priority,
                    due_date=parse_date(t.due_date),
                    duration=t.duration or None,
                    duration_unit="minute" if t.duration else None,
                )
            )
            self._orders[created.id] = position
            for content in todo.comments:
                self._ask(lambda c=content, m=created.id: self._api.add_comment(c, task_id=m))

    def delete_own_projects(self) -> None:
        """Delete the projects that this episode made; what cannot be reached stays."""
        while self._projects:
            project_id = self._projects.pop()
            try:
                self._ask(lambda k=project_id: self._api.delete_project(k))
            except (ServiceUnavailable, ToolError, NotFound):
                continue

    def cancel(self) -> None:
        """Let a call that waits for its turn return early."""
        self._service.cancel(self)

    # -- the account ----------------------------------------------------------------------------

    def projects(self) -> list[Project]:
        own = set(self._projects)
        projects = [self._project(p) for p in self._all_projects() if p.id in own]
        return sorted(projects, key=lambda project: project.order)

    def update_project(self, project_id: str, *, is_favorite: bool) -> Project:
        self._check(project_id)
        return self._project(
            self._ask(lambda: self._api.update_project(project_id, is_favorite=is_favorite))
        )

    def todos(self, project_id: str | None = None) -> list[Todo]:
        if project_id is None:
            return [todo for own_id in self._projects for todo in self.todos(own_id)]
        self._check(project_id)
        pages = self._ask(lambda: list(self._api.get_tasks(project_id=project_id)))
        active = [self._todo(task) for task in _flat(pages) if task.completed_at is None]
        return sorted(active, key=lambda todo: todo.order)

    def todo(self, todo_id: str) -> Todo:
        if todo_id not in self._orders or todo_id in self._projects:
            raise NotFound(f"no task of this episode has the id {todo_id[:100]!r}")
        task = self._ask(lambda: self._api.get_task(todo_id))
        if task.completed_at is not None:
            raise NotFound(f"task {todo_id} is completed")
        return self._todo(task)

    def update_todo(self, todo_id: str, *, due_date: str) -> Todo:
        self.todo(todo_id)
        date = parse_date(due_date)
        return self._todo(self._ask(lambda: self._api.update_task(todo_id, due_date=date)))

    def complete_todo(self, todo_id: str) -> Todo:
        before = self.todo(todo_id)
        self._ask(lambda: self._api.complete_task(todo_id))
        return before

    def delete_todo(self, todo_id: str) -> Todo:
        before = self.todo(todo_id)
        self._ask(lambda: self._api.delete_task(todo_id))
        return before

    # -- inside ---------------------------------------------------------------------------------

    def _all_projects(self) -> list[models.Project]:
        return _flat(self._ask(lambda: list(self._api.get_projects())))

    def _check(self, project_id: str) -> None:
        if project_id not in self._projects:
            raise NotFound(f"no project of this episode has the id {project_id[:100]!r}")

    def _project(self, entry: models.Project) -> Project:
        order = self._orders.get(entry.id, entry.order)
        return Project(entry.id, entry.name, order, str(entry.color), entry.is_favorite)

    def _todo(self, entry: models.Task) -> Todo:
        return Todo(
            entry.id,
            entry.project_id,
            self._orders.get(entry.id, entry.order),
            entry.content,
            entry.priority,
            _day(entry),
            entry.description,
            entry.duration.amount if entry.duration else 0,
            entry.duration.unit if entry.duration else "minute",
            entry.section_id or "",
        )

    def _ask(self, call: Callable[[], T]) -> T:
        """Make a request; raises NotFound, ToolError, ServiceUnavailable."""
        try:
            return self._service.guarded(call, owner=self)
        except httpx.HTTPStatusError as error:
            self._refused(error)
        except httpx.TransportError as error:
            raise self._service.unavailable(f"cannot be reached: {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise self._service.unavailable(f"answers what cannot be read: {error}") from error

    def _refused(self, error: httpx.HTTPStatusError) -> NoReturn:
        status = error.response.status_code
        if status in _REFUSED or status >= 500:
            after = error.response.headers.get("Retry-After", "")
            wait = float(after) if after.isascii() and after.isdigit() else None
            raise self._service.unavailable(f"answers with {status}", wait) from error
        if status in _UNKNOWN:
            raise NotFound(f"Todoist answers with {status}") from error
        raise ToolError(f"HTTPError({status})") from error


def _flat(pages: Iterable[list[T]]) -> list[T]:
    return [entry for page in pages for entry in page]


def _day(entry: models.Task) -> str:
    date = entry.due.date if entry.due is not None else None
    if isinstance(date, datetime.datetime):
        date = date.date()
    return date.isoformat() if isinstance(date, datetime.date) else ""


class _Rebased(httpx.BaseTransport):
    """Sends what is meant for Todoist to a base URL, and waits no longer than a timeout."""

    def __init__(self, base_url: str, timeout: float) -> None:
        self._base = httpx.URL(base_url.rstrip("/"))
        self._timeout = httpx.Timeout(timeout).as_dict()
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = str(request.url).removeprefix(API)
        url = httpx.URL(str(self._base) + path)
        request.url = url
        request.headers["Host"] = url.netloc.decode()
        request.extensions = {**request.extensions, "timeout": self._timeout}
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()
