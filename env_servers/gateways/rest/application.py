"""JSON over HTTP as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_runtime.errors import AgentRuntimeError
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.gateways.backend import Backend
from env_servers.gateways.errors import BadRequest, GatewayError, Problem, UnknownId, problem_of
from env_servers.gateways.leases import Leases
from env_servers.gateways.rest.calls import SERVICE, Calls, connect_error
from env_servers.gateways.rest.description import Operation, describe, page
from env_servers.gateways.rest.episodes import EPISODES, Episodes
from env_servers.gateways.rest.messages import as_json, json_response, problem_response

__all__ = ["RestGateway"]

_EPISODE: Final = EPISODES + "/{episode}"
_PAGE_POLICY: Final = {"content-security-policy": "default-src 'none'"}

Handler = Callable[[Request], Awaitable[Response]]


class RestGateway:
    """The contract as JSON, in front of a backend."""

    def __init__(self, backend: Backend, *, idle_limit: float = 3600.0) -> None:
        """Serve all environments of a backend.

        Args:
            backend: Where they are played.
            idle_limit: Seconds without a request after which an episode is closed.
        """
        self._backend = backend
        self._episodes = Episodes(backend, idle_limit)
        self._calls = Calls(backend, idle_limit)
        self._operations = [operation for operation, _ in self._handled()]
        routes = [
            Route(it.path, _answering(handler), methods=[it.method])
            for it, handler in self._handled()
        ]
        calls = f"/{SERVICE.full_name}/{{method}}"
        self.application = Starlette(
            routes=[
                *routes,
                Route(calls, _answering(self._calls.answer, connect_error), methods=["POST"]),
                Route("/openapi.json", self._describe),
                Route("/", self._show),
            ],
            exception_handlers={HTTPException: _no_route},
        )

    @property
    def leases(self) -> Collection[Leases[Any]]:
        """The episodes of all clients."""
        return [self._episodes.leases, self._calls.leases]

    def refusal(self, status: int, sentence: str) -> tuple[bytes, bytes]:
        """Say no as a problem."""
        response = problem_response(Problem(status, "REFUSED", sentence))
        return b"application/problem+json", bytes(response.body)

    def describe(self, base: str) -> Sequence[str]:
        """Return what is where."""
        names = ", ".join(self._backend.environments)
        return [f"{base}  {names}", f"{base}/openapi.json  what can be asked"]

    def _handled(self) -> Sequence[tuple[Operation, Handler]]:
        """Return what is answered, each with what answers it."""
        episodes = self._episodes
        return [
            (Operation("GET", "/v1/environments", "Environments"), self._list_environments),
            (
                Operation(
                    "GET",
                    "/v1/environments/{environment}",
                    "All about an environment",
                    answer=pb.GetEnvironmentResponse,
                ),
                self._show_environment,
            ),
            (
                Operation(
                    "GET",
                    "/v1/environments/{environment}/tasks",
                    "A page of the tasks of a split",
                    answer=pb.ListTasksResponse,
                    query=("split", "page_size", "page_token"),
                ),
                self._list_tasks,
            ),
            (Operation("POST", EPISODES, "Open an episode", pb.Reset, status=201), episodes.create),
            (Operation("GET", EPISODES, "Live episodes"), episodes.list_all),
            (Operation("GET", _EPISODE, "An episode and its last answer"), episodes.show),
            (Operation("DELETE", _EPISODE, "Close an episode", status=204), episodes.end),
            (
                Operation(
                    "POST", f"{_EPISODE}/steps", "Play", types_pb2.ActionInput, answer=pb.Event
                ),
                episodes.step,
            ),
            (
                Operation(
                    "POST", f"{_EPISODE}/advice", "Ask the expert", pb.Consult, answer=pb.Advice
                ),
                episodes.advise,
            ),
            (Operation("POST", f"{_EPISODE}/fork", "Copy an episode", status=201), episodes.fork),
            (
                Operation("GET", f"{_EPISODE}/journal", "What opens it anywhere", answer=pb.Reset),
                episodes.journal,
            ),
            (
                Operation(
                    "GET", f"{_EPISODE}/views", "Pictures of the state", answer=pb.RenderResponse
                ),
                episodes.views,
            ),
            (
                Operation("GET", f"{_EPISODE}/views/{{name}}", "A picture as it is", media="*/*"),
                episodes.view,
            ),
            (
                Operation(
                    "GET",
                    f"{_EPISODE}/events",
                    "Answers as they come, as server-sent events",
                    media="text/event-stream",
                ),
                episodes.events,
            ),
        ]

    async def _list_environments(self, request: Request) -> Response:
        listed = [
            {
                "name": name,
                "description": it.description,
                "splits": {split.name: split.size for split in it.splits},
                "self": f"/v1/environments/{name}",
            }
            for name, it in self._backend.environments.items()
        ]
        return json_response({"environments": listed})

    async def _show_environment(self, request: Request) -> Response:
        return json_response(as_json(self._backend.environments[self._environment(request)]))

    async def _list_tasks(self, request: Request) -> Response:
        name, query = self._environment(request), request.query_params
        size = query.get("page_size", "100")
        if not (size.isascii() and size.isdecimal() and len(size) < 6):
            raise BadRequest(f"page_size {size[:40]!r} is no number of tasks")
        splits = self._backend.environments[name].splits
        split = query.get("split") or next((it.name for it in splits if it.size), "")
        place = await self._backend.fleet.acquire(name)
        try:
            token = query.get("page_token", "")
            listed = await place.connection.list_tasks(name, split, token, int(size))
        finally:
            place.release()
        return json_response(as_json(listed))

    def _environment(self, request: Request) -> str:
        name = request.path_params["environment"]
        known = self._backend.environments
        if name not in known:
            raise UnknownId(
                f"there is no environment {name[:100]!r}: {', '.join(known)}",
                reason="UNKNOWN_ENVIRONMENT",
            )
        return name

    async def _describe(self, request: Request) -> Response:
        messages: Sequence[type[Message]] = [pb.Reset, pb.Event]
        return json_response(describe(self._operations, messages))

    async def _show(self, request: Request) -> Response:
        shown = page(self._operations, list(self._backend.environments))
        return Response(shown, 200, _PAGE_POLICY, "text/html")


def _answering(
    handler: Handler, refuse: Callable[[Problem], Response] = problem_response
) -> Handler:
    """Return a handler that answers expected errors as problems."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (GatewayError, AgentRuntimeError) as error:
            return refuse(problem_of(error))

    return answer


async def _no_route(request: Request, error: Exception) -> Response:
    """Say that there is no such address, or not for this method."""
    assert isinstance(error, HTTPException)
    reason = "NO_SUCH_METHOD" if error.status_code == 405 else "NO_SUCH_ADDRESS"
    detail = f"{request.method} {request.url.path[:200]} is not answered: see /openapi.json"
    response = problem_response(Problem(error.status_code, reason, detail))
    headers: Mapping[str, str] = error.headers or {}
    response.headers.update(headers)
    return response
