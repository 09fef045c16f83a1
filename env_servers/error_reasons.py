"""What the contract fixes about every error reason: docs/protocol.md's table, for programs.

Servers make their errors by it, and the conformance suite holds every server's errors against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import grpc

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2

__all__ = ["DOMAIN", "REASONS", "ReasonRule"]

DOMAIN: Final = "agentgym.env"
"""`ErrorInfo.domain`."""


@dataclass(frozen=True, slots=True)
class ReasonRule:
    """What is fixed about an error reason."""

    code: grpc.StatusCode
    fault: types_pb2.Fault
    retriable: bool = False
    """The same command, sent again, can succeed; nothing is said of the episode played again."""
    metadata: tuple[str, ...] = ()
    """Keys that are always there, beside `fault` and `retriable`."""
    retry_info: bool = False
    """A RetryInfo says how long to wait."""


_AGENT: Final = types_pb2.FAULT_AGENT
_ENVIRONMENT: Final = types_pb2.FAULT_ENVIRONMENT
_INFRASTRUCTURE: Final = types_pb2.FAULT_INFRASTRUCTURE
_Code = grpc.StatusCode
_VALID: Final = ("valid",)
_APPLIED: Final = ("may_have_been_applied",)

REASONS: Final[Mapping[pb.ErrorReason, ReasonRule]] = {
    pb.ERROR_REASON_SEQ_GAP: ReasonRule(_Code.FAILED_PRECONDITION, _AGENT, metadata=("expected",)),
    pb.ERROR_REASON_SEQ_CONFLICT: ReasonRule(_Code.ABORTED, _AGENT),
    pb.ERROR_REASON_EPISODE_BUSY: ReasonRule(_Code.FAILED_PRECONDITION, _AGENT, retriable=True),
    pb.ERROR_REASON_EPISODE_NOT_FOUND: ReasonRule(
        _Code.NOT_FOUND, _INFRASTRUCTURE, metadata=("journal_replayable",)
    ),
    pb.ERROR_REASON_EPISODE_ENDED: ReasonRule(_Code.FAILED_PRECONDITION, _AGENT),
    pb.ERROR_REASON_RESPONSE_EVICTED: ReasonRule(_Code.OUT_OF_RANGE, _AGENT, metadata=("oldest",)),
    pb.ERROR_REASON_UNKNOWN_ENVIRONMENT: ReasonRule(_Code.NOT_FOUND, _AGENT, metadata=_VALID),
    pb.ERROR_REASON_UNKNOWN_ITEM: ReasonRule(_Code.NOT_FOUND, _AGENT, metadata=_VALID),
    pb.ERROR_REASON_UNKNOWN_SPLIT: ReasonRule(_Code.NOT_FOUND, _AGENT, metadata=_VALID),
    pb.ERROR_REASON_UNKNOWN_OPTION: ReasonRule(_Code.INVALID_ARGUMENT, _AGENT, metadata=_VALID),
    pb.ERROR_REASON_UNSUPPORTED_ACTION_FORMAT: ReasonRule(
        _Code.INVALID_ARGUMENT, _AGENT, metadata=_VALID
    ),
    pb.ERROR_REASON_UNSUPPORTED_CAPABILITY: ReasonRule(
        _Code.UNIMPLEMENTED, _AGENT, metadata=("capability",)
    ),
    pb.ERROR_REASON_UNSUPPORTED_VERB: ReasonRule(_Code.UNIMPLEMENTED, _AGENT),
    pb.ERROR_REASON_CONTRACT_REVISION_UNSUPPORTED: ReasonRule(
        _Code.UNIMPLEMENTED, _AGENT, metadata=("client_revision", "server_revisions")
    ),
    pb.ERROR_REASON_INVALID_ARGUMENT: ReasonRule(
        _Code.INVALID_ARGUMENT, _AGENT, metadata=("field",)
    ),
    pb.ERROR_REASON_TEXT_TOO_LONG: ReasonRule(_Code.INVALID_ARGUMENT, _AGENT, metadata=("limit",)),
    pb.ERROR_REASON_CAPACITY_EXHAUSTED: ReasonRule(
        _Code.RESOURCE_EXHAUSTED, _INFRASTRUCTURE, retriable=True, retry_info=True
    ),
    pb.ERROR_REASON_CLIENT_LIMIT: ReasonRule(
        _Code.RESOURCE_EXHAUSTED, _AGENT, retriable=True, retry_info=True
    ),
    pb.ERROR_REASON_CREDITS_EXCEEDED: ReasonRule(
        _Code.RESOURCE_EXHAUSTED, _AGENT, retriable=True, retry_info=True
    ),
    pb.ERROR_REASON_DEADLINE_EXCEEDED: ReasonRule(
        _Code.DEADLINE_EXCEEDED, _INFRASTRUCTURE, retriable=True, metadata=_APPLIED
    ),
    pb.ERROR_REASON_CANCELLED: ReasonRule(
        _Code.CANCELLED, _AGENT, retriable=True, metadata=_APPLIED
    ),
    pb.ERROR_REASON_ENVIRONMENT_CRASHED: ReasonRule(_Code.INTERNAL, _ENVIRONMENT),
    pb.ERROR_REASON_ENVIRONMENT_HUNG: ReasonRule(_Code.INTERNAL, _ENVIRONMENT),
    pb.ERROR_REASON_WORKER_LOST: ReasonRule(_Code.UNAVAILABLE, _INFRASTRUCTURE),
    pb.ERROR_REASON_REPLAY_DIVERGED: ReasonRule(
        _Code.DATA_LOSS, _ENVIRONMENT, metadata=("at_seq",)
    ),
    pb.ERROR_REASON_DRAINING: ReasonRule(
        _Code.UNAVAILABLE, _INFRASTRUCTURE, retriable=True, retry_info=True
    ),
    pb.ERROR_REASON_UNAUTHENTICATED: ReasonRule(_Code.UNAUTHENTICATED, _AGENT),
    pb.ERROR_REASON_ENVIRONMENT_UNAVAILABLE: ReasonRule(_Code.FAILED_PRECONDITION, _INFRASTRUCTURE),
}
"""Every reason but ERROR_REASON_UNSPECIFIED."""
