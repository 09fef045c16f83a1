"""What goes wrong in a gateway, in the words and numbers that each protocol needs.

    GatewayError            base: a sentence, a reason, an HTTP status
    ├── BadRequest          the request cannot be read
    ├── UnknownId           no such id: never given out, closed, or forgotten
    ├── EpisodeLapsed       it was closed because nobody used it
    ├── EpisodeOver         it has ended and takes no more steps
    └── NoRoom              no server had room in time, or there are too many ids

What the servers and the way to them say comes as `AgentRuntimeError`; `problem_of` gives both the
same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent_runtime.errors import AgentRuntimeError, ConnectionLost, EnvironmentFailure
from agent_runtime.redaction import redact_text

__all__ = [
    "BadRequest",
    "EpisodeLapsed",
    "EpisodeOver",
    "GatewayError",
    "NoRoom",
    "Problem",
    "UnknownId",
    "problem_of",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, for people and programs."""

    status: int
    """HTTP status."""
    reason: str
    """For programs: an `ErrorReason` of the contract without its prefix, or one of a gateway."""
    detail: str
    """A sentence."""
    retriable: bool = False
    """Whether the same request may succeed later."""
    retry_after: float | None = None
    """Seconds after which to come back; None = nobody said."""
    metadata: tuple[tuple[str, str], ...] = ()
    """What the contract adds to the reason, for example `expected` or `valid`."""


class GatewayError(Exception):
    """Base: a request that cannot be answered."""

    status: int = 500
    reason: str = "GATEWAY_ERROR"
    retriable: bool = False

    def __init__(self, message: str, *, reason: str = "") -> None:
        """Say a sentence; `reason` names what is wrong more exactly than the class does."""
        super().__init__(message)
        self.reason = reason or self.reason


class BadRequest(GatewayError):
    """When a request cannot be read."""

    status = 400
    reason = "BAD_REQUEST"


class UnknownId(GatewayError):
    """When nothing is under an id or a name: never given out, closed, or long forgotten."""

    status = 404
    reason = "EPISODE_NOT_FOUND"


class EpisodeLapsed(GatewayError):
    """When an episode was closed because nobody asked for it for too long."""

    status = 410
    reason = "EPISODE_LAPSED"


class EpisodeOver(GatewayError):
    """When an episode has ended and takes no more steps."""

    status = 409
    reason = "EPISODE_ENDED"


class NoRoom(GatewayError):
    """When no server had room for another episode in time, or the gateway has none for an id."""

    status = 503
    reason = "CAPACITY_EXHAUSTED"
    retriable = True


_STATUS: Final = {
    "SEQ_GAP": 409,
    "SEQ_CONFLICT": 409,
    "EPISODE_BUSY": 409,
    "EPISODE_NOT_FOUND": 404,
    "EPISODE_ENDED": 409,
    "RESPONSE_EVICTED": 410,
    "UNKNOWN_ENVIRONMENT": 404,
    "UNKNOWN_ITEM": 404,
    "UNKNOWN_SPLIT": 404,
    "UNKNOWN_OPTION": 400,
    "UNSUPPORTED_ACTION_FORMAT": 400,
    "UNSUPPORTED_CAPABILITY": 501,
    "UNSUPPORTED_VERB": 501,
    "CONTRACT_REVISION_UNSUPPORTED": 400,
    "INVALID_ARGUMENT": 400,
    "TEXT_TOO_LONG": 413,
    "CAPACITY_EXHAUSTED": 503,
    "CLIENT_LIMIT": 503,
    "CREDITS_EXCEEDED": 503,
    "DEADLINE_EXCEEDED": 504,
    "CANCELLED": 409,
    "DRAINING": 503,
    "UNAUTHENTICATED": 502,
    "ENVIRONMENT_UNAVAILABLE": 501,
}
"""HTTP status of each reason of the contract; the rest are failures behind the gateway: 502."""


def problem_of(error: GatewayError | AgentRuntimeError) -> Problem:
    """Return what an error means to whoever asked."""
    if isinstance(error, GatewayError):
        return Problem(error.status, error.reason, str(error), error.retriable)
    detail = redact_text(str(error))
    if isinstance(error, EnvironmentFailure):
        status = _STATUS.get(error.reason, 502)
        metadata = tuple(sorted(error.metadata.items()))
        return Problem(status, error.reason, detail, error.retriable, error.retry_after, metadata)
    if isinstance(error, ConnectionLost):
        detail = f"the environment server is gone: {detail}"
        return Problem(503, error.reason, detail, error.retriable, error.retry_after)
    return Problem(502, error.reason, detail, error.retriable, error.retry_after)
