"""OpenEnv's routes as an ASGI application: one environment at the root, or several by name."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from agent_runtime.errors import AgentRuntimeError
from env_servers.gateways.backend import Backend
from env_servers.gateways.errors import BadRequest, GatewayError, UnknownId, problem_of
from env_servers.gateways.leases import Leases
from env_servers.gateways.messages import (
    Action,
    InvalidMessage,
    Observation,
    Reset,
    State,
    validate,
)
from env_servers.gateways.openenv.conversation import Conversation
from env_servers.gateways.openenv.messages import Step, Tasks, error_message, parse
from env_servers.gateways.openenv.tools import Tools
from env_servers.gateways.sessions import Environment, Session, Sessions
from orchestrator.errors import UsageError

__all__ = ["OpenEnvGateway"]

_MOST_TASKS: Final = 10_000
"""In one answer."""
_POLICY_VIOLATION: Final = 1008

Handler = Callable[[Request], Awaitable[Response]]


class AnswerLate(GatewayError):
    """When an answer took longer than the request allows; the step is played all the same."""

    status = 504
    reason = "DEADLINE_EXCEEDED"


class OpenEnvGateway:
    """OpenEnv's servers, in front of a backend."""

    def __init__(
        self,
        backend: Backend,
        *,
        split: str = "",
        idle_limit: float = 3600.0,
        answer_seconds: float = 50.0,
    ) -> None:
        """Serve all environments of a backend.

        Args:
            backend: Where they are played.
            split: Tasks of resets that name none; empty = the first that has some.
            idle_limit: Seconds without a request after which an episode is closed.
            answer_seconds: See `Conversation`.

        Raises:
            UsageError: An environment has no such split.
        """
        try:
            environments = [Environment(backend, it, split) for it in backend.environments]
        except UnknownId as unknown:
            raise UsageError(str(unknown)) from None
        self._served = [_Served(it, idle_limit, answer_seconds) for it in environments]
        routes: list[BaseRoute] = []
        for served in self._served:
            routes += served.routes(f"/{served.environment.name}")
        if len(self._served) == 1:
            routes += self._served[0].routes("")
        self.application = Starlette(
            routes=[*routes, Route("/", self._show)],
            exception_handlers={HTTPException: _no_route},
        )

    @property
    def leases(self) -> Collection[Leases[Session]]:
        """The sessions of all clients."""
        return [it.sessions.leases for it in self._served]

    def refusal(self, status: int, sentence: str) -> tuple[bytes, bytes]:
        """Say no as FastAPI does."""
        return b"application/json", orjson.dumps({"detail": sentence})

    def describe(self, base: str) -> Sequence[str]:
        """Return what is where."""
        alone = len(self._served) == 1
        return [
            f"{base}{'' if alone else '/' + it.environment.name}  {it.environment.name}: "
            f"tasks of the split {it.environment.split}"
            for it in self._served
        ]

    async def _show(self, request: Request) -> Response:
        return _json({"environments": [f"/{it.environment.name}" for it in self._served]})


class _Served:
    """The routes of one environment."""

    def __init__(self, environment: Environment, idle_limit: float, answer_seconds: float) -> None:
        self.environment = environment
        self.sessions = Sessions(environment, idle_limit)
        self._tools = Tools(self.sessions)
        self._answer_seconds = answer_seconds
        self._playing: set[asyncio.Task[dict[str, Any]]] = set()

    def routes(self, prefix: str) -> list[BaseRoute]:
        """Return all routes below a prefix."""
        tasks = f"/{self.environment.name}"
        handlers: Sequence[tuple[str, str, Handler]] = (
            ("POST", "/reset", self._reset),
            ("POST", "/step", self._step),
            ("GET", "/state", self._state),
            ("POST", "/mcp", self._answer_tools),
            ("GET", "/health", self._health),
            ("GET", "/metadata", self._metadata),
            ("GET", "/schema", self._schema),
            ("GET", "/openapi.json", self._openapi),
            ("GET", "/list_environments", self._list_environments),
            ("GET", f"{tasks}/splits", self._splits),
            ("POST", f"{tasks}/num_tasks", self._num_tasks),
            ("POST", f"{tasks}/tasks", self._list_tasks),
            ("POST", f"{tasks}/task_range", self._list_tasks),
            ("POST", f"{tasks}/task", self._task),
        )
        return [
            *(
                Route(prefix + path, _answering(handler), methods=[method])
                for method, path, handler in handlers
            ),
            WebSocketRoute(f"{prefix}/ws", self._converse),
        ]

    async def _converse(self, websocket: WebSocket) -> None:
        await websocket.accept()
        name = websocket.query_params.get("session_id", "")
        try:
            # A session with a name outlives the WebSocket.
            lease = self.sessions.require(name) if name else self.sessions.open()
        except GatewayError as error:
            await websocket.send_text(orjson.dumps(error_message(problem_of(error))).decode())
            await websocket.close(_POLICY_VIOLATION, "no such session, or no room for one")
            return
        try:
            await Conversation(websocket, self.sessions, lease, self._answer_seconds).hold()
        finally:
            if not name:
                self.sessions.leases.end(lease.id)
                lease.held.close()  # also where its number was forgotten

    async def _reset(self, request: Request) -> Response:
        reset = validate(Reset, await _body(request), "body")
        name = reset.episode_id or ""
        if self.sessions.find(name) is None:
            name = self.sessions.create(name)
        reset.episode_id = name
        return _json(await self.sessions.reset(self.sessions.require(name), reset))

    async def _step(self, request: Request) -> Response:
        step = validate(Step, await _body(request), "body")
        action = validate(Action, step.action, "body", "action")
        lease = self.sessions.require(step.episode_id)
        # A task of its own: what is waited for no longer is played all the same.
        task = asyncio.ensure_future(self.sessions.step(lease, action, step.request_id))
        self._playing.add(task)
        task.add_done_callback(self._done)
        done, _ = await asyncio.wait({task}, timeout=step.timeout_s)
        if not done:
            raise AnswerLate(
                f"no answer within {step.timeout_s:g} s; the step is played all the same: the "
                "same `request_id` gets its answer, and /state shows it"
            )
        return _json(task.result())

    def _done(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._playing.discard(task)
        if not task.cancelled():
            task.exception()  # told to whoever waits; without a look asyncio would log it

    async def _state(self, request: Request) -> Response:
        lease = self.sessions.require(request.query_params.get("episode_id", ""))
        return _json(await self.sessions.state(lease))

    async def _answer_tools(self, request: Request) -> Response:
        return _json(await self._tools.answer_text(await request.body()))

    async def _list_environments(self, request: Request) -> Response:
        return _json([self.environment.name])

    async def _splits(self, request: Request) -> Response:
        names = [it.name for it in self.environment.described.splits if it.size]
        kinds = {"train": "train", "validation": "validation"}
        return _json([{"name": it, "type": kinds.get(it, "test")} for it in names])

    async def _num_tasks(self, request: Request) -> Response:
        asked = validate(Tasks, await _body(request), "body")
        return _json({"num_tasks": self.environment.size(asked.split)})

    async def _task(self, request: Request) -> Response:
        asked = validate(Tasks, await _body(request), "body")
        place = asked.index or 0
        items = await self.environment.items(asked.split, place, place + 1)
        return _json({"task": {"item_id": items[0]}})

    async def _list_tasks(self, request: Request) -> Response:
        asked = validate(Tasks, await _body(request), "body")
        size = self.environment.size(asked.split)
        start, stop = asked.start or 0, min(size, size if asked.stop is None else asked.stop)
        if stop - start > _MOST_TASKS:
            raise BadRequest(
                f"{stop - start:,} tasks are too many for one answer: at most {_MOST_TASKS:,}, by "
                "`start` and `stop` of /task_range"
            )
        items = await self.environment.items(asked.split, start, stop)
        tasks = [{"item_id": it} for it in items]
        return _json({"tasks": tasks, "env_name": self.environment.name})

    async def _health(self, request: Request) -> Response:
        return _json({"status": "healthy"})

    async def _metadata(self, request: Request) -> Response:
        described = self.environment.described
        return _json(
            {
                "name": described.name,
                "description": described.description,
                "readme_content": None,
                "version": described.version,
                "author": None,
                "documentation_url": None,
            }
        )

    async def _schema(self, request: Request) -> Response:
        models = {"action": Action, "observation": Observation, "state": State}
        return _json({name: it.model_json_schema() for name, it in models.items()})

    async def _openapi(self, request: Request) -> Response:
        bodies = {"/reset": Reset, "/step": Step}
        answers = {"200": {"description": "OK"}}
        paths: dict[str, Any] = {
            path: {"get": {"responses": answers}}
            for path in ("/state", "/health", "/metadata", "/schema")
        }
        for path, model in bodies.items():
            content = {"application/json": {"schema": model.model_json_schema()}}
            paths[path] = {"post": {"requestBody": {"content": content}, "responses": answers}}
        info = {"title": self.environment.name, "version": version("agentgym-grpc")}
        return _json({"openapi": "3.1.0", "info": info, "paths": paths})


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, dict(headers or {}), "application/json")


async def _body(request: Request) -> dict[str, Any]:
    body = await request.body()
    return parse(body) if body else {}


def _answering(handler: Handler) -> Handler:
    """Return a handler that answers expected errors in FastAPI's form."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except InvalidMessage as error:
            return _json({"detail": error.errors or str(error)}, 422)
        except (GatewayError, AgentRuntimeError) as error:
            problem = problem_of(error)
            status = 422 if problem.reason == "INVALID_JSON" else problem.status
            headers: dict[str, str] = {}
            if problem.retry_after is not None:
                headers["retry-after"] = str(math.ceil(problem.retry_after))
            said = {
                "detail": problem.detail,
                "reason": problem.reason,
                "retriable": problem.retriable,
            }
            return _json(said, status, headers)

    return answer


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"detail": error.detail}, error.status_code, error.headers)
