"""OpenEnv's tools over JSON-RPC: `tools/list`, `tools/call`, and sessions for clients of HTTP.

Clients send it to POST /mcp, with the `session_id` that `openenv/session/create` gave, or over a
WebSocket as messages of the type `mcp`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_runtime.errors import AgentRuntimeError
from env_servers.gateways.errors import BadRequest, GatewayError, UnknownId, problem_of
from env_servers.gateways.leases import Lease
from env_servers.gateways.messages import Action, InvalidMessage, validate
from env_servers.gateways.openenv.messages import parse
from env_servers.gateways.sessions import Session, Sessions

__all__ = ["Tools"]

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_METHOD_NOT_FOUND: Final = -32601
_INVALID_PARAMS: Final = -32602
_SERVER_ERROR: Final = -32000


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


class Tools:
    """Answers JSON-RPC."""

    def __init__(self, sessions: Sessions) -> None:
        """Serve the tools of sessions."""
        self._sessions = sessions

    async def answer_text(self, text: bytes) -> dict[str, Any]:
        """Answer the body of a request."""
        try:
            return await self.answer(parse(text))
        except InvalidMessage as error:
            return _error(None, _INVALID_REQUEST, str(error))
        except BadRequest as error:
            return _error(None, _PARSE_ERROR, str(error))

    async def answer(self, value: Any, lease: Lease[Session] | None = None) -> dict[str, Any]:
        """Answer a request; `lease` is the session of a WebSocket."""
        try:
            request = validate(_Request, value)
        except InvalidMessage as error:
            return _error(None, _INVALID_REQUEST, str(error))
        try:
            result = await self._call(request, lease)
        except UnknownId as error:
            code = _METHOD_NOT_FOUND if error.reason == "NO_SUCH_CALL" else _INVALID_PARAMS
            return _error(request.id, code, str(error))
        except BadRequest as error:
            return _error(request.id, _INVALID_PARAMS, str(error))
        except (GatewayError, AgentRuntimeError) as error:
            problem = problem_of(error)
            data = {"reason": problem.reason, "retriable": problem.retriable}
            return _error(request.id, _SERVER_ERROR, problem.detail, data)
        return {"jsonrpc": "2.0", "id": request.id, "result": result}

    async def _call(self, request: _Request, lease: Lease[Session] | None) -> dict[str, Any]:
        sessions, params = self._sessions, request.params
        name = str(params.get("session_id", ""))
        match request.method:
            case "openenv/session/create":
                return {"session_id": sessions.create()}
            case "openenv/session/close":
                sessions.end(name)
                return {"session_id": name, "closed": True}
            case "tools/list":
                return {"tools": sessions.environment.tools()}
            case "tools/call":
                call = {"type": "call_tool", "tool_name": params.get("name")}
                action = validate(Action, {**call, "arguments": params.get("arguments", {})})
                played = await sessions.step(lease or sessions.require(name), action)
                text = played["observation"]["text"]
                return {"content": [{"type": "text", "text": text}], "data": text, **played}
            case unknown:
                raise UnknownId(f"Method not found: {unknown[:100]}", reason="NO_SUCH_CALL")


def _error(number: str | int | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": number,
        "error": {"code": code, "message": message, "data": data},
    }
