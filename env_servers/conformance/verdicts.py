"""What a check can find, and the small comparisons that checks are written with."""

from __future__ import annotations

import math
from typing import cast

from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.error_reasons import DOMAIN, REASONS

__all__ = [
    "NotApplicable",
    "Violation",
    "error_info",
    "expect",
    "expect_equal",
    "expect_error",
    "expect_observation",
    "expect_well_formed",
]


class Violation(Exception):
    """Raised when the server breaks a rule; says what was expected and what came."""


class NotApplicable(Exception):
    """Raised when a check cannot be made on this target; says why."""


def expect(condition: bool, sentence: str) -> None:
    """Raise Violation with the sentence unless the condition holds."""
    if not condition:
        raise Violation(sentence)


def expect_equal(actual: object, expected: object, subject: str) -> None:
    """Raise Violation unless both are equal."""
    expect(actual == expected, f"{subject} is {actual!r:.200}, expected {expected!r:.200}")


def expect_observation(event: pb.Event, *, replayed: bool | None = None) -> pb.Event:
    """The event itself, if it is an observation with a state hash and finite figures."""
    if event.HasField("error"):
        raise Violation(f"an error instead of an observation: {event.error.message[:300]}")
    expect(event.HasField("observation"), f"{event.WhichOneof('body')} instead of an observation")
    expect_equal(len(event.state_hash), 8, "the length of state_hash")
    for name in ("reward", "score"):
        expect(math.isfinite(getattr(event, name)), f"a {name} of {getattr(event, name)}")
    if replayed is not None:
        expect_equal(event.replayed, replayed, f"`replayed` of seq {event.seq}")
    return event


def error_info(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    """The ErrorInfo of a status; raises Violation where there is not exactly one."""
    infos: list[error_details_pb2.ErrorInfo] = []
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            infos.append(info)
    expect_equal(len(infos), 1, "the number of ErrorInfo details")
    return infos[0]


def expect_well_formed(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    """The ErrorInfo of a status that has all that the contract asks for of its reason."""
    info = error_info(status)
    expect(bool(status.message), "an error has no message")
    expect_equal(info.domain, DOMAIN, "ErrorInfo.domain")
    name = f"ERROR_REASON_{info.reason}"
    known = info.reason != "UNSPECIFIED" and name in pb.ErrorReason.keys()  # noqa: SIM118
    expect(known, f"reason {info.reason!r} is not in the closed enum")
    rule = REASONS[cast("pb.ErrorReason", pb.ErrorReason.Value(name))]
    number: int = rule.code.value[0]
    expect_equal(status.code, number, f"code of {info.reason}")
    fault = types_pb2.Fault.Name(rule.fault).removeprefix("FAULT_")
    expect_equal(info.metadata.get("fault"), fault, f"metadata fault of {info.reason}")
    retriable = "true" if rule.retriable else "false"
    expect_equal(info.metadata.get("retriable"), retriable, f"metadata retriable of {info.reason}")
    for key in rule.metadata:
        expect(bool(info.metadata.get(key)), f"{info.reason} lacks the metadata {key!r}")
    has_retry_info = any(it.Unpack(error_details_pb2.RetryInfo()) for it in status.details)
    expect(has_retry_info or not rule.retry_info, f"{info.reason} has no RetryInfo")
    return info


def expect_error(event: pb.Event, reason: str, *keys: str, **values: str) -> dict[str, str]:
    """The metadata of an error with this reason, these metadata keys and these values."""
    if not event.HasField("error"):
        raise Violation(f"{event.WhichOneof('body')} instead of the error {reason}")
    info = expect_well_formed(event.error)
    expect(
        info.reason == reason,
        f"reason {info.reason} instead of {reason}: {event.error.message[:200]}",
    )
    metadata = dict(info.metadata)
    for key in keys:
        expect(bool(metadata.get(key)), f"{reason} lacks the metadata {key!r}")
    for key, value in values.items():
        expect_equal(metadata.get(key), value, f"metadata {key} of {reason}")
    return metadata
