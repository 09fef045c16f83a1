"""AgentGym's routes as an ASGI application: one environment at the root, or several by name.

Paths are looked up in a dictionary: this is the way of every step.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from env_servers.gateways.access import reply
from env_servers.gateways.agentgym.environment import (
    JSON,
    Answer,
    HttpEnvironment,
    Route,
    Slot,
    Unknown,
    json_answer,
)
from env_servers.gateways.agentgym.id_family import ID_FAMILY
from env_servers.gateways.agentgym.index_family import INDEX_FAMILY
from env_servers.gateways.agentgym.requests import RawHeaders, Unreadable
from env_servers.gateways.backend import Backend
from env_servers.gateways.leases import Leases
from orchestrator.errors import UsageError

__all__ = ["ENVIRONMENTS", "AgentGymGateway"]

ENVIRONMENTS: Final[Mapping[str, type[HttpEnvironment]]] = {**ID_FAMILY, **INDEX_FAMILY}
"""Environments that AgentGym has, too, by their names here."""
_BY_PREFIX: Final = frozenset({"maze", "wordle"})
"""One server of the original has both, below their names; it is the same for one of them."""
_NOT_FOUND: Final = json_answer({"detail": "Not Found"}, 404)
_WRONG_METHOD: Final = json_answer({"detail": "Method Not Allowed"}, 405)


class AgentGymGateway:
    """AgentGym's servers, in front of a backend."""

    def __init__(self, backend: Backend, *, split: str = "", idle_limit: float = 3600.0) -> None:
        """Serve all environments of a backend.

        Args:
            backend: Where they are played.
            split: What the numbers of tasks count; empty = see `Numbering.choose`.
            idle_limit: Seconds without a request after which an episode is closed.

        Raises:
            UsageError: AgentGym does not have an environment, or there are no tasks.
        """
        self.environments: dict[str, HttpEnvironment] = {}
        for name in backend.environments:
            if name not in ENVIRONMENTS:
                raise UsageError(
                    f"AgentGym has no environment {name!r}: another gateway may serve it",
                    valid=sorted(ENVIRONMENTS),
                )
            try:
                self.environments[name] = ENVIRONMENTS[name](
                    backend, split=split, idle_limit=idle_limit
                )
            except Unknown as unknown:
                raise UsageError(str(unknown)) from None
        self._routes: dict[str, dict[str, Route]] = {}
        for name, environment in self.environments.items():
            below = environment.routes()
            if name in _BY_PREFIX:  # where the original answers nothing at the prefix itself
                below = [it for it in below if it.path != "/"]
            self._add(f"/{name}", below)
        if len(self.environments) == 1 and not _BY_PREFIX.issuperset(self.environments):
            self._add("", next(iter(self.environments.values())).routes())
        else:
            self._add("", [Route("GET", "/", self._greet)])
        described = [("/openapi.json", self._describe_routes), ("/docs", self._show_routes)]
        self._add("", [Route("GET", path, answer) for path, answer in described])

    @property
    def application(self) -> AgentGymGateway:
        """Return this object: it is one."""
        return self

    @property
    def leases(self) -> Collection[Leases[Slot]]:
        """The environments of all clients."""
        return [it.slots for it in self.environments.values()]

    def refusal(self, status: int, sentence: str) -> tuple[bytes, bytes]:
        """Say no as FastAPI does."""
        return JSON, orjson.dumps({"detail": sentence})

    def describe(self, base: str) -> Sequence[str]:
        """Return what is where."""
        alone = len(self.environments) == 1 and not _BY_PREFIX.issuperset(self.environments)
        return [
            f"{base}{'' if alone else '/' + name}  {name}: {environment.numbers()}"
            for name, environment in self.environments.items()
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers: RawHeaders = dict(scope["headers"])
        methods = self._routes.get(scope["path"])
        extra: list[tuple[bytes, bytes]] = []
        if methods is None:
            answer = _NOT_FOUND
            location = self._without_slash(scope, headers)
            if location:
                answer, extra = Answer(307, b"", b""), [(b"location", location)]
        elif scope["method"] not in methods:
            answer = _WRONG_METHOD
            extra = [(b"allow", ", ".join(sorted(methods)).encode())]
        else:
            answer = await _answer(methods[scope["method"]], scope, headers, receive)
        head = scope["method"] == "HEAD"
        await reply(send, answer.status, answer.content_type, answer.body, extra, head=head)

    def _add(self, prefix: str, routes: Sequence[Route]) -> None:
        for route in routes:
            self._routes.setdefault(prefix + route.path, {})[route.method] = route

    async def _greet(self, _: object) -> Answer:
        if _BY_PREFIX.issuperset(self.environments):
            return json_answer("This is environment LMRL-Gym.")
        return json_answer({"environments": [f"/{name}" for name in self.environments]})

    async def _describe_routes(self, _: object) -> Answer:
        paths = {
            path: {
                method.lower(): {"responses": {"200": {"description": "OK"}}} for method in methods
            }
            for path, methods in self._routes.items()
        }
        info = {"title": "AgentGym over gRPC", "version": version("agentgym-grpc")}
        return json_answer({"openapi": "3.1.0", "info": info, "paths": paths})

    async def _show_routes(self, _: object) -> Answer:
        rows = "".join(
            f"<li>{method} {html.escape(path)}</li>"
            for path, methods in self._routes.items()
            for method in methods
        )
        title = "AgentGym over gRPC"
        page = f"<!doctype html><html lang=en><title>{title}</title><h1>{title}</h1><ul>{rows}</ul>"
        return Answer(200, page.encode(), b"text/html; charset=utf-8")

    def _without_slash(self, scope: Scope, headers: RawHeaders) -> bytes:
        """Return where a path leads that has a slash too many; empty = nowhere."""
        path: str = scope["path"]
        if not path.endswith("/") or path[:-1] not in self._routes:
            return b""
        query = scope["query_string"].decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1")
        return f"{scope['scheme']}://{host}{path[:-1]}{'?' + query if query else ''}".encode()


async def _answer(route: Route, scope: Scope, headers: RawHeaders, receive: Receive) -> Answer:
    body = await _body(receive)
    values: Any = None
    if route.read is not None:
        try:
            values = route.read(headers, scope["query_string"], body)
        except Unreadable as unreadable:
            return _refusal(unreadable)
    return await route.answer(values)


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return body


def _refusal(unreadable: Unreadable) -> Answer:
    try:
        return json_answer({"detail": unreadable.detail}, unreadable.status)
    except TypeError:  # orjson: what was sent has integers that JSON's writers do not all know
        return json_answer({"detail": _plain(unreadable.detail)}, unreadable.status)


def _plain(value: Any) -> Any:
    """Return what can be written as JSON."""
    return orjson.loads(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS))
