"""The contract's messages as ProtoJSON, and problems as RFC 9457 has them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message
from starlette.requests import Request
from starlette.responses import Response

from agent_runtime.episode import Transition
from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.gateways.access import BODY_LIMIT
from env_servers.gateways.errors import BadRequest, Problem

__all__ = ["as_json", "json_response", "problem_response", "read_body", "read_message", "to_event"]

_PROBLEM: Final = "application/problem+json"
_DEEPEST: Final = 64
"""Of messages within messages: an option of a reset is a value of any kind."""

M = TypeVar("M", bound=Message)


def as_json(message: Message) -> dict[str, Any]:
    """Return a message as ProtoJSON."""
    return json_format.MessageToDict(message)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a value as JSON."""
    return Response(orjson.dumps(value), status, dict(headers or {}), "application/json")


async def read_body(request: Request) -> bytes:
    """Return the body of a request, unpacked; raises BadRequest for one that cannot be."""
    body = await request.body()
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise BadRequest(f"content-encoding {encoding[:40]!r} is not known: gzip or identity")
    unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacking.decompress(body, BODY_LIMIT)
    except zlib.error as error:
        raise BadRequest(f"the body is no gzip: {error}") from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise BadRequest(f"the body is cut off, or longer than {BODY_LIMIT:,} bytes unpacked")
    return unpacked


async def read_message(request: Request, into: M) -> M:
    """Return the body of a request as a message; no body is an empty one.

    Names may be those of JSON or of the contract. Raises BadRequest for what the message does not
    have, so that a misspelt name is told.
    """
    body = await read_body(request)
    if not body:
        return into
    try:
        return json_format.Parse(body, into, max_recursion_depth=_DEEPEST)
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is no {into.DESCRIPTOR.name} in JSON: {error}") from None


def to_event(episode: str, last: Transition) -> pb.Event:
    """Return an answer of an episode as the contract's event."""
    event = pb.Event(
        episode_id=episode,
        seq=last.seq,
        observation=last.text,
        reward=last.reward,
        score=last.score,
        terminated=last.terminated,
        truncated=last.truncated,
        stop_reason=types_pb2.StopReason.Name(last.stop_reason),
        state_hash=last.state_hash,
        parsed_action=last.parsed_action,
    )
    if last.info is not None:
        event.info.update(dict(last.info))
    for image in last.images:
        event.images.add(media_type=image.media_type, content=image.content)
    return event


def problem_response(problem: Problem) -> Response:
    """Return what went wrong: `type` and `reason` are for programs, `detail` for people."""
    body: dict[str, Any] = {
        "type": f"urn:agentgym:{problem.reason.lower().replace('_', '-')}",
        "title": problem.reason.replace("_", " ").capitalize(),
        "status": problem.status,
        "detail": problem.detail,
        "reason": problem.reason,
        "retriable": problem.retriable,
    }
    if problem.metadata:
        body["metadata"] = dict(problem.metadata)
    headers: dict[str, str] = {}
    if problem.retry_after is not None:
        headers["retry-after"] = str(math.ceil(problem.retry_after))
    return Response(orjson.dumps(body), problem.status, headers, _PROBLEM)
