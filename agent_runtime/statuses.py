"""From google.rpc.Status to this package's typed errors."""

from __future__ import annotations

import contextlib
from typing import cast

import grpc.aio
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from agent_runtime.errors import AgentRuntimeError, ConnectionLost, EnvironmentFailure
from agentgym.env.v1 import types_pb2

__all__ = ["rpc_failure", "to_failure"]


def to_failure(status: status_pb2.Status) -> EnvironmentFailure:
    """Convert an in-band status to the typed error."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    retry_after: float | None = None
    for detail in status.details:
        if not _unpack(detail, info) and _unpack(detail, retry):
            retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    metadata = dict(info.metadata)
    fault = types_pb2.Fault.DESCRIPTOR.values_by_name.get(
        f"FAULT_{metadata.pop('fault', 'UNSPECIFIED')}"
    )
    retriable = metadata.pop("retriable", "false") == "true"
    return EnvironmentFailure(
        status.message,
        reason=info.reason or "UNKNOWN",
        fault=cast("types_pb2.Fault", fault.number) if fault else types_pb2.FAULT_UNSPECIFIED,
        retriable=retriable,
        metadata=metadata,
        retry_after=retry_after,
    )


def rpc_failure(error: grpc.aio.AioRpcError, address: str) -> AgentRuntimeError:
    """Convert what a unary call failed of to the typed error."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            with contextlib.suppress(DecodeError):
                return to_failure(status_pb2.Status.FromString(value))  # pyright: ignore
    return ConnectionLost(f"{address}: {error.code().name}: {error.details()}")


def _unpack(detail: Any, into: Message) -> bool:
    """Read a detail of that type; one whose bytes are no message is as if it was not there."""
    try:
        return detail.Unpack(into)
    except DecodeError:
        return False
