"""Every error that a server can answer with: one exception, one constructor per case.

What is fixed about each reason is in `env_servers.error_reasons`. Errors travel in-band as
google.rpc.Status with ErrorInfo (and RetryInfo where the server knows when). Raise what a
constructor returns: `raise errors.seq_gap(episode, 4, "...")`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyProto
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from agentgym.env.v1 import environment_pb2 as pb
from agentgym.env.v1 import types_pb2
from env_servers.error_reasons import DOMAIN, REASONS
from env_servers.sdk import (
    EnvironmentUnavailable,
    InvalidOption,
    SdkError,
    UnknownEnvironment,
    UnknownItem,
    UnknownSplit,
)

if TYPE_CHECKING:
    from env_servers.server.episode import Episode

__all__ = [
    "CommandError",
    "EndCause",
    "abort",
    "being_opened",
    "cancelled",
    "capacity_exhausted",
    "client_limit",
    "closed",
    "closed_while_opening",
    "crashed",
    "credits_exceeded",
    "deadline_exceeded",
    "draining",
    "episode_busy",
    "episode_ended",
    "episode_not_found",
    "hung",
    "invalid_argument",
    "journal_too_long",
    "lacks_capability",
    "lacks_scope",
    "not_deterministic",
    "outbox_full",
    "over_share",
    "replay_diverged",
    "response_evicted",
    "revision_unsupported",
    "seq_conflict",
    "seq_gap",
    "text_too_long",
    "unauthenticated",
    "unknown_environment",
    "unknown_profile",
    "unsupported_action_format",
    "unsupported_verb",
    "worker_killed_twice",
    "worker_lost",
    "workers_stopped",
    "workers_unavailable",
]

_SDK_REASONS: dict[type[SdkError], pb.ErrorReason] = {
    UnknownEnvironment: pb.ERROR_REASON_UNKNOWN_ENVIRONMENT,
    UnknownItem: pb.ERROR_REASON_UNKNOWN_ITEM,
    UnknownSplit: pb.ERROR_REASON_UNKNOWN_SPLIT,
    InvalidOption: pb.ERROR_REASON_UNKNOWN_OPTION,
    EnvironmentUnavailable: pb.ERROR_REASON_ENVIRONMENT_UNAVAILABLE,
}


_MAX_CHARS = 2_000
"""Of a message or metadata value: errors quote what clients sent and what foreign code raised."""


def _bounded(text: str) -> str:
    """A text that the wire can carry: short, and without lone surrogates."""
    return text[:_MAX_CHARS].encode("utf-8", "replace").decode()


class EndCause(Enum):
    """Why a server ended an episode of its own accord."""

    LEASE = "no stream held it until its lease ran out"
    """Its stream was lost for longer than its lease."""
    IDLE = "no command named it for longer than the idle limit"
    """Its stream lives, but nobody used it."""
    SEATS = "it was unused while another client lacked its share of episodes"
    """Its client held more episodes than its share."""
    MEMORY = "it was the longest unused when the server's memory budget was exceeded"
    """Its client held more bytes than its share."""


class CommandError(Exception):
    """Raised when a command is answered with an error; it concerns that command alone."""

    def __init__(
        self,
        reason: pb.ErrorReason,
        message: str,
        *,
        retry_after: float | None = None,
        **metadata: object,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = _bounded(message)
        self.retry_after = retry_after
        """Seconds after which the same command may succeed."""
        self.metadata = {key: _bounded(str(value)) for key, value in metadata.items()}

    @classmethod
    def from_sdk(cls, error: SdkError) -> CommandError:
        """Return the error for what a task set or environment says of a request."""
        reason = next(
            (known for kind, known in _SDK_REASONS.items() if isinstance(error, kind)),
            pb.ERROR_REASON_INVALID_ARGUMENT,
        )
        if error.valid:
            return cls(reason, str(error), retry_after=error.retry_after, valid=error.valid)
        return cls(reason, str(error), retry_after=error.retry_after)

    @property
    def code(self) -> grpc.StatusCode:
        """The gRPC code of the reason."""
        return REASONS[self.reason].code

    def status(self) -> status_pb2.Status:
        """Return the error as it travels."""
        rule = REASONS[self.reason]
        number: int = rule.code.value[0]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportIndexIssue]
        status = status_pb2.Status(code=number, message=self.message)
        info = error_details_pb2.ErrorInfo(
            reason=pb.ErrorReason.Name(self.reason).removeprefix("ERROR_REASON_"),
            domain=DOMAIN,
            metadata={
                **self.metadata,
                "fault": types_pb2.Fault.Name(rule.fault).removeprefix("FAULT_"),
                "retriable": "true" if rule.retriable else "false",
            },
        )
        packed = AnyProto()
        packed.Pack(info)
        status.details.append(packed)
        if self.retry_after is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(self.retry_after * 1e9))
            packed = AnyProto()
            packed.Pack(retry)
            status.details.append(packed)
        return status


async def abort(context: grpc.aio.ServicerContext[Any, Any], status: status_pb2.Status) -> NoReturn:
    """End a call with a status, whose details travel in `grpc-status-details-bin`."""
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    metadata = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, status.message, metadata)
    raise AssertionError("abort returned")


# ------------------------------------------------------------------ sequence numbers


def seq_gap(episode: Episode, expected: int, detail: str) -> CommandError:
    """A command skips or precedes states; `detail` says what it wanted there."""
    return CommandError(
        pb.ERROR_REASON_SEQ_GAP,
        f"episode {episode.episode_id} is at seq {episode.seq}: {detail}",
        expected=expected,
    )


def seq_conflict(episode_id: str, detail: str) -> CommandError:
    """A command contradicts what was executed or opened under the same key."""
    return CommandError(pb.ERROR_REASON_SEQ_CONFLICT, f"episode {episode_id} {detail}")


def response_evicted(episode: Episode, seq: int, oldest: int) -> CommandError:
    """A repeated command asks for a result that is no longer cached."""
    return CommandError(
        pb.ERROR_REASON_RESPONSE_EVICTED,
        f"the result of seq {seq} of episode {episode.episode_id} is no longer cached; "
        f"the episode is at seq {episode.seq}",
        oldest=oldest,
    )


# ------------------------------------------------------------------ the state of an episode


def episode_busy(episode_id: str, in_flight: int) -> CommandError:
    """Another command of the episode is executing."""
    return CommandError(
        pb.ERROR_REASON_EPISODE_BUSY,
        f"episode {episode_id} is executing seq {in_flight}",
        in_flight=in_flight,
    )


def being_opened(episode_id: str) -> CommandError:
    """The episode is there soon."""
    return CommandError(pb.ERROR_REASON_EPISODE_BUSY, f"episode {episode_id} is being opened")


def episode_not_found(
    episode_id: str, *, journal_replayable: bool, cause: EndCause | None = None
) -> CommandError:
    """No such live episode here; `cause` is why the server ended it, where it did and knows."""
    why = "it was closed, its lease ran out, or its server was restarted"
    error = CommandError(
        pb.ERROR_REASON_EPISODE_NOT_FOUND,
        f"no live episode {episode_id!r} here: {cause.value if cause else why}; a deterministic "
        "one can be opened again with its journal",
        journal_replayable="true" if journal_replayable else "false",
    )
    if cause is not None:
        error.metadata["cause"] = cause.name
    return error


def episode_ended(episode: Episode) -> CommandError:
    """A step comes after the end."""
    return CommandError(
        pb.ERROR_REASON_EPISODE_ENDED,
        f"episode {episode.episode_id} ended at seq {episode.seq} and takes no more steps",
    )


def cancelled(command: pb.Command) -> CommandError:
    """A command was cancelled while it was executing."""
    return _gave_up(pb.ERROR_REASON_CANCELLED, command, "was cancelled")


def deadline_exceeded(command: pb.Command) -> CommandError:
    """A command is still executing when its deadline passes."""
    return _gave_up(
        pb.ERROR_REASON_DEADLINE_EXCEEDED,
        command,
        f"is not done after {command.deadline_ms} ms",
    )


def _gave_up(reason: pb.ErrorReason, command: pb.Command, what: str) -> CommandError:
    return CommandError(
        reason,
        f"seq {command.seq} of episode {command.episode_id} {what}; sending it again waits for "
        "its one result",
        may_have_been_applied="true",
    )


def closed() -> CommandError:
    """The episode was closed before the operation could be executed."""
    return CommandError(
        pb.ERROR_REASON_CANCELLED, "the episode was closed", may_have_been_applied="true"
    )


def closed_while_opening(episode_id: str) -> CommandError:
    """The episode was closed before it was there."""
    return CommandError(
        pb.ERROR_REASON_CANCELLED,
        f"episode {episode_id} was closed while it was being opened",
        may_have_been_applied="false",
    )


# ------------------------------------------------------------------ what a request asks for


def unknown_environment(name: str, valid: Iterable[str]) -> CommandError:
    """The server does not host the environment."""
    names = ", ".join(valid)
    return CommandError(
        pb.ERROR_REASON_UNKNOWN_ENVIRONMENT,
        f"this server has no environment {name!r} (it has {names})",
        valid=names,
    )


def unknown_profile(environment: str, profile: str, valid: Iterable[str]) -> CommandError:
    """The environment has no such profile."""
    names = ", ".join(valid)
    return CommandError(
        pb.ERROR_REASON_UNKNOWN_OPTION,
        f"{environment} has no profile {profile!r} (it has {names})",
        valid=names,
    )


def unsupported_action_format(
    environment: str, action_format: int, valid: Iterable[str]
) -> CommandError:
    """The environment does not read replies of this format."""
    names = ", ".join(valid)
    return CommandError(
        pb.ERROR_REASON_UNSUPPORTED_ACTION_FORMAT,
        f"{environment} does not speak action format {action_format} (it speaks {names})",
        valid=names,
    )


def lacks_capability(message: str, capability: str) -> CommandError:
    """The environment lacks a capability that the command needs."""
    return CommandError(pb.ERROR_REASON_UNSUPPORTED_CAPABILITY, message, capability=capability)


def not_deterministic(environment: str, detail: str) -> CommandError:
    """A journal was to be replayed in an environment where that proves nothing."""
    return lacks_capability(f"{environment} is not deterministic: {detail}", "DETERMINISTIC")


def unsupported_verb() -> CommandError:
    """The command has no body, or one of a later contract revision."""
    return CommandError(
        pb.ERROR_REASON_UNSUPPORTED_VERB, "the command has no body that this server knows"
    )


def revision_unsupported(client_revision: int, server_revision: int) -> CommandError:
    """The client speaks another contract revision."""
    return CommandError(
        pb.ERROR_REASON_CONTRACT_REVISION_UNSUPPORTED,
        f"the client speaks contract revision {client_revision}, this server speaks "
        f"{server_revision}",
        client_revision=client_revision,
        server_revisions=server_revision,
    )


def invalid_argument(field: str, message: str) -> CommandError:
    """A field of a request has a value that it cannot have."""
    return CommandError(pb.ERROR_REASON_INVALID_ARGUMENT, message, field=field)


def text_too_long(limit: int) -> CommandError:
    """A text has more bytes than the server takes."""
    return CommandError(
        pb.ERROR_REASON_TEXT_TOO_LONG, f"a text may have {limit} bytes", limit=limit
    )


def journal_too_long(limit: int) -> CommandError:
    """The inputs of an episode have more bytes together than the server keeps of one."""
    return CommandError(
        pb.ERROR_REASON_TEXT_TOO_LONG,
        f"the inputs of an episode may have {limit} bytes together, as the server keeps them",
        limit=limit,
    )


def unauthenticated() -> CommandError:
    """The call lacks the bearer token."""
    return CommandError(
        pb.ERROR_REASON_UNAUTHENTICATED, "a bearer token is required, and this is not it"
    )


def lacks_scope(client: str, scope: str) -> CommandError:
    """The call's token is for other things."""
    return CommandError(
        pb.ERROR_REASON_UNAUTHENTICATED, f"the {client} does not have the scope {scope}"
    )


# ------------------------------------------------------------------ room


def capacity_exhausted(message: str) -> CommandError:
    """The server holds as many episodes as it can."""
    return CommandError(pb.ERROR_REASON_CAPACITY_EXHAUSTED, message, retry_after=0.5)


def over_share(what: str, share: int, clients: int) -> CommandError:
    """The client holds its fair share, and others want theirs."""
    return CommandError(
        pb.ERROR_REASON_CAPACITY_EXHAUSTED,
        f"{clients} clients share this server: more than {share} {what} would take the others' "
        "part; end an episode, or wait",
        retry_after=0.5,
        share=share,
    )


def client_limit(limit: int) -> CommandError:
    """The client holds as many episodes as it may."""
    return CommandError(
        pb.ERROR_REASON_CLIENT_LIMIT,
        f"this client has {limit} live episodes, its full share",
        retry_after=0.5,
    )


def outbox_full() -> CommandError:
    """The client has not read so much that no repeated results are added to it."""
    return CommandError(
        pb.ERROR_REASON_CAPACITY_EXHAUSTED,
        "answers wait for this client to read them; attach again when it has",
        retry_after=0.5,
    )


def credits_exceeded(max_in_flight: int) -> CommandError:
    """The stream has as many commands in flight as it may."""
    return CommandError(
        pb.ERROR_REASON_CREDITS_EXCEEDED,
        f"more than {max_in_flight} commands are in flight on this stream",
        retry_after=0.1,
    )


def draining() -> CommandError:
    """The server is shutting down."""
    return CommandError(
        pb.ERROR_REASON_DRAINING,
        "this server is shutting down and opens no more episodes",
        retry_after=1.0,
    )


# ------------------------------------------------------------------ what environments do


def crashed(environment: str, error: BaseException) -> CommandError:
    """The environment's code raised."""
    return CommandError(
        pb.ERROR_REASON_ENVIRONMENT_CRASHED,
        f"environment {environment} raised {type(error).__name__}: {error}",
    )


def hung(environment: str, limit: float) -> CommandError:
    """The environment did not return in time and was reclaimed; `limit` in seconds."""
    return CommandError(
        pb.ERROR_REASON_ENVIRONMENT_HUNG,
        f"environment {environment} did not answer within {limit:g} s and was reclaimed",
    )


def replay_diverged(message: str, at_seq: int) -> CommandError:
    """A journal, played again, led to another state."""
    return CommandError(pb.ERROR_REASON_REPLAY_DIVERGED, message, at_seq=at_seq)


def worker_killed_twice(environment: str) -> CommandError:
    """One operation ended two worker processes in a row."""
    return CommandError(
        pb.ERROR_REASON_ENVIRONMENT_CRASHED,
        f"environment {environment} killed its worker process twice",
    )


def worker_lost(environment: str) -> CommandError:
    """The episode's worker died and no journal can rebuild it."""
    return CommandError(
        pb.ERROR_REASON_WORKER_LOST,
        f"the worker of this {environment} episode died, and the environment is not "
        "deterministic: play the episode again",
    )


def workers_stopped() -> CommandError:
    """The server is stopping and has ended its workers."""
    return CommandError(pb.ERROR_REASON_WORKER_LOST, "the server is stopping: its workers are gone")


def workers_unavailable(deaths: int) -> CommandError:
    """Worker processes die before they can execute anything."""
    return CommandError(
        pb.ERROR_REASON_WORKER_LOST,
        f"{deaths} worker processes in a row died before they executed anything; the server's log "
        "says why",
    )
