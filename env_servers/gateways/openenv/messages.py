"""What OpenEnv's clients send and are answered, beside resets, actions and their answers.

The shapes are those of `openenv` 0.10; those others are in `env_servers.gateways.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from env_servers.gateways.errors import BadRequest, Problem
from env_servers.gateways.messages import InvalidMessage

__all__ = ["Step", "Tasks", "error_message", "parse"]

_CODES: Final[Mapping[str, str]] = {
    "CAPACITY_EXHAUSTED": "CAPACITY_REACHED",
    "CLIENT_LIMIT": "CAPACITY_REACHED",
    "EPISODE_LAPSED": "SESSION_ERROR",
    "INVALID_JSON": "INVALID_JSON",
    "RESET_FIRST": "EXECUTION_ERROR",
    "UNKNOWN_TYPE": "UNKNOWN_TYPE",
}
"""OpenEnv's codes by reason; other requests that are wrong are VALIDATION_ERROR, and what fails in
playing is EXECUTION_ERROR."""


class Step(BaseModel):
    """The body of an HTTP step; further fields are not looked at."""

    model_config = ConfigDict(extra="ignore")

    action: dict[str, Any]
    episode_id: str = Field(max_length=255, description="As the reset's observation names it")
    timeout_s: float | None = Field(default=None, gt=0)
    request_id: str | None = Field(
        default=None,
        max_length=255,
        description="The same again is answered the same, and not played",
    )


class Tasks(BaseModel):
    """The body of a question after tasks: `index` of one, or a range, or neither."""

    model_config = ConfigDict(extra="forbid")

    split: str
    index: int | None = Field(default=None, ge=0)
    start: int | None = Field(default=None, ge=0)
    stop: int | None = Field(default=None, ge=0)


def parse(text: str | bytes) -> dict[str, Any]:
    """Return a JSON object; raises BadRequest with OpenEnv's words."""
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"Invalid JSON: {error}", reason="INVALID_JSON") from None
    if not isinstance(value, dict):
        raise InvalidMessage("Invalid message: a JSON object is wanted", [])
    return value


def error_message(problem: Problem, errors: list[Any] | None = None) -> dict[str, Any]:
    """Return a WebSocket's error message."""
    fallback = "VALIDATION_ERROR" if problem.status in (400, 413) else "EXECUTION_ERROR"
    data: dict[str, Any] = {
        "message": problem.detail,
        "code": _CODES.get(problem.reason, fallback),
        "reason": problem.reason,
        "retriable": problem.retriable,
    }
    if errors is not None:
        data["errors"] = errors
    return {"type": "error", "data": data}
