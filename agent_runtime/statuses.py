"""From google.rpc.Status to this package's typed errors."""

from __future__ import annotations

from typing import cast

import grpc.aio
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from agent_runtime.errors import AgentRuntimeError, ConnectionLost, EnvironmentFailure
from agentgym.env.v1 import types_pb2

__all__ = ["rpc_failure", "to_failure"]


def to_failure(status: status_pb2.Status) -> EnvironmentFailure:
    """Convert an in-band status to the typed error."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    retry_after: float | None = None
    for detail in status.details:
        if not detail.Unpack(info) and detail.Unpack(retry):
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
            return to_failure(status_pb2.Status.FromString(value))  # pyright: ignore
    return ConnectionLost(f"{address}: {error.code().name}: {error.details()}")
