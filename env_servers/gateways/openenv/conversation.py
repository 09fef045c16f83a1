"""A WebSocket of OpenEnv: one session, a request and its answer in turn.

OpenEnv's messages have no numbers, and its client takes the next message that it reads for the
answer to the last that it sent. A client that gave a request up (its `message_timeout_s`) would
therefore read each answer one request too late, for the rest of the episode. Two rules prevent it:

- Whoever asks again no longer waits: the answer to the request before is not sent. It is played,
  once; the next answer's `seq` shows it, and `state` has what it led to until then.
- An answer that is not there within `answer_seconds` is an error that ends the connection.

What is left is a client that gives up earlier than `answer_seconds`, and asks again only after the
answer was sent: on the wire it looks like one that has read it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.logs import get_logger
from env_servers.gateways.errors import BadRequest, GatewayError, problem_of
from env_servers.gateways.leases import Lease
from env_servers.gateways.messages import Action, InvalidMessage, Reset, validate
from env_servers.gateways.openenv.messages import error_message, parse
from env_servers.gateways.openenv.tools import Tools
from env_servers.gateways.sessions import Session, Sessions

__all__ = ["Conversation"]

log = get_logger(__name__)

_UNANSWERED: Final = 16
"""Requests that a client may have given up at once."""
_INTERNAL_ERROR: Final = 1011
_TRY_AGAIN_LATER: Final = 1013


class Conversation:
    """Answers one client until it goes."""

    def __init__(
        self,
        websocket: WebSocket,
        sessions: Sessions,
        lease: Lease[Session],
        answer_seconds: float,
    ) -> None:
        """Answer on a WebSocket that was accepted.

        Args:
            websocket: The client's.
            sessions: Where the client's session is.
            lease: What it plays.
            answer_seconds: After which a request is answered with an error, and the connection
                ended; below the time that clients wait.
        """
        self._websocket = websocket
        self._sessions = sessions
        self._lease = lease
        self._answer_seconds = answer_seconds
        self._tools = Tools(sessions)
        self._turns: set[asyncio.Task[dict[str, Any]]] = set()

    async def hold(self) -> None:
        """Answer until the client goes, or has to."""
        following = asyncio.ensure_future(self._receive())
        turn: asyncio.Task[dict[str, Any]] | None = None
        deadline: float | None = None
        try:
            while True:
                patience = None if deadline is None else max(0.0, deadline - time.monotonic())
                waited = {following} if turn is None else {following, turn}
                await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    # First: a client that asks again has not read what was ready just now.
                    message = following.result()
                    if message is None:
                        return
                    if turn is not None:
                        log.warning("openenv client gave a request up", session=self._lease.id)
                    if len(self._turns) >= _UNANSWERED:
                        await self._end(_TRY_AGAIN_LATER, "too many requests without an answer")
                        return
                    turn = self._begin(message)
                    deadline = time.monotonic() + self._answer_seconds
                    following = asyncio.ensure_future(self._receive())
                elif turn is not None and turn.done():
                    await self._send(turn.result())
                    turn = deadline = None
                else:
                    await self._end_late()
                    return
        finally:
            for task in (following, *self._turns):
                task.cancel()
            await asyncio.gather(following, *self._turns, return_exceptions=True)

    def _begin(self, message: str | bytes) -> asyncio.Task[dict[str, Any]]:
        # The lease's lock is fair: requests are played in the order in which they came.
        task = asyncio.ensure_future(self._answer(message))
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)
        return task

    async def _answer(self, message: str | bytes) -> dict[str, Any]:
        try:
            return await self._play(parse(message))
        except InvalidMessage as error:
            return error_message(problem_of(error), error.errors)
        except (GatewayError, AgentRuntimeError) as error:
            return error_message(problem_of(error))

    async def _play(self, request: dict[str, Any]) -> dict[str, Any]:
        sessions, lease = self._sessions, self._lease
        match request.get("type", ""):
            case "reset":
                reset = validate(Reset, request.get("data", {}), "data")
                return {"type": "observation", "data": await sessions.reset(lease, reset)}
            case "step":
                action = validate(Action, request.get("data"), "data")
                return {"type": "observation", "data": await sessions.step(lease, action)}
            case "mcp":
                return {"type": "mcp", "data": await self._tools.answer(request.get("data"), lease)}
            case "state":
                return {"type": "state", "data": await sessions.state(lease)}
            case unknown:
                said = f"Unknown message type: {str(unknown)[:100]}"
                raise BadRequest(said, reason="UNKNOWN_TYPE")

    async def _receive(self) -> str | bytes | None:
        """Return the next message; None = there are no more."""
        try:
            received = await self._websocket.receive()
        except WebSocketDisconnect:
            return None
        if received["type"] != "websocket.receive":
            return None
        message: str | bytes = received.get("text") or received.get("bytes") or b""
        return None if _is_close(message) else message

    async def _end_late(self) -> None:
        sentence = (
            f"no answer within {self._answer_seconds:g} s: the connection ends, so that a late "
            "answer is not taken for another request's"
        )
        await self._send({"type": "error", "data": {"message": sentence, "code": "SESSION_ERROR"}})
        await self._end(_INTERNAL_ERROR, "no answer in time")

    async def _end(self, code: int, reason: str) -> None:
        try:
            await self._websocket.close(code, reason)
        except (RuntimeError, WebSocketDisconnect):
            return  # it went by itself

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._websocket.send_text(orjson.dumps(message).decode())
        except (RuntimeError, WebSocketDisconnect):
            return  # it went by itself: the next thing to receive says so


def _is_close(message: str | bytes) -> bool:
    """Tell whether a client says good-bye."""
    if len(message) > 100:
        return False
    try:
        return parse(message).get("type") == "close"
    except BadRequest:
        return False
