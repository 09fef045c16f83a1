"""The contract's unary calls by their names, as the Connect protocol has them.

    POST /agentgym.env.v1.EnvironmentService/GetEnvironment   {"environment": "maze"}

A call is passed on to a server, message by message, and so are its rules: sequence numbers,
idempotency, leases. Clients made by Connect's generators call it (JSON or binary messages). A
command of an episode goes to the server where the episode was opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from google.protobuf.message import DecodeError, Message
from starlette.requests import Request
from starlette.responses import Response

from agentgym.env.v1 import environment_pb2 as pb
from env_servers.gateways.backend import Backend
from env_servers.gateways.errors import BadRequest, Problem, UnknownId
from env_servers.gateways.leases import Lease, Leases
from env_servers.gateways.rest.messages import as_json, json_response, read_body, read_message
from orchestrator.fleet import Place

__all__ = ["SERVICE", "Calls", "connect_error"]

SERVICE: Final = pb.DESCRIPTOR.services_by_name["EnvironmentService"]
_BINARY: Final = "application/proto"
_LONGEST: Final = 600.0
"""Seconds of a call."""
_COMMANDS: Final = frozenset({"Reset", "Step", "Close"})
_CODES: Final[Mapping[int, str]] = {
    400: "invalid_argument",
    401: "unauthenticated",
    404: "not_found",
    409: "failed_precondition",
    410: "failed_precondition",
    413: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
}
"""Connect's codes by HTTP status."""


@dataclass(slots=True)
class _Placed:
    """Where an episode was opened."""

    place: Place
    name: str
    known: dict[str, int]
    """Episode ids and the numbers of their leases."""

    def close(self) -> None:
        """Forget where it is: its own lease on the server ends it."""
        if self.known.pop(self.name, None) is not None:
            self.place.release()


class Calls:
    """The unary calls."""

    def __init__(self, backend: Backend, idle_limit: float) -> None:
        """Pass on to the servers of a backend."""
        self.leases: Leases[_Placed] = Leases(idle_limit)
        self._backend = backend
        self._known: dict[str, int] = {}

    async def answer(self, request: Request) -> Response:
        """Pass a call on; raises BadRequest, UnknownId, AgentRuntimeError."""
        name = request.path_params["method"]
        method = SERVICE.methods_by_name.get(name)
        if method is None or method.client_streaming or method.server_streaming:
            names = [it.name for it in SERVICE.methods if not it.client_streaming]
            raise UnknownId(
                f"there is no unary call {name!r}: {', '.join(names)}", reason="NO_SUCH_CALL"
            )
        binary = request.headers.get("content-type", "").startswith(_BINARY)
        message: Any = getattr(pb, method.input_type.name)()
        if binary:
            try:
                message.ParseFromString(await read_body(request))
            except DecodeError as error:
                raise BadRequest(f"the body is no {method.input_type.name}: {error}") from None
        else:
            await read_message(request, message)
        answered = await self._pass_on(name, message)
        if binary:
            return Response(answered.SerializeToString(), media_type=_BINARY)
        return json_response(as_json(answered))

    async def _pass_on(self, name: str, message: Any) -> Message:
        if name == "ListEnvironments":
            names = sorted(self._backend.environments)
            return pb.ListEnvironmentsResponse(environments=names, contract_revisions=[1])
        if name in _COMMANDS or name == "Render":
            command = message if name == "Render" else message.command
            known = command.episode_id in self._known
            lease = await self._place(command, opens=name == "Reset")
            done = not known  # an episode that was not opened is nowhere
            try:
                async with lease as placed:
                    answered = await placed.place.connection.call(name, message, _LONGEST)
                done = name == "Close" or (not known and answered.event.HasField("error"))
            finally:
                if done:
                    self.leases.end(lease.id)
            return answered
        place = await self._backend.fleet.acquire(self._environment(message.environment))
        try:
            return await place.connection.call(name, message, _LONGEST)
        finally:
            place.release()

    async def _place(self, command: Any, *, opens: bool) -> Lease[_Placed]:
        """Return where an episode is, or is to be opened."""
        name = command.episode_id
        lease = self.leases.get(self._known.get(name, -1))
        if lease is not None:
            return lease
        if not opens:
            raise UnknownId(f"no episode {name[:100]!r} was opened by this gateway")
        place = await self._backend.fleet.acquire(self._environment(command.reset.environment))
        lease = self.leases.add(_Placed(place, name, self._known))
        self._known[name] = lease.id
        return lease

    def _environment(self, name: str) -> str:
        known = self._backend.environments
        if not name and len(known) == 1:
            return next(iter(known))
        if name not in known:
            raise UnknownId(
                f"there is no environment {name[:100]!r}: {', '.join(known)}",
                reason="UNKNOWN_ENVIRONMENT",
            )
        return name


def connect_error(problem: Problem) -> Response:
    """Return what went wrong as Connect's clients read it."""
    code = _CODES.get(problem.status, "internal")
    body = {"code": code, "message": f"{problem.reason}: {problem.detail}"}
    return Response(orjson.dumps(body), problem.status, media_type="application/json")
