"""What can go wrong while one agent plays one episode, each with the fault attributed.

    AgentRuntimeError               base; carries fault, retriable, reason
    ├── EnvironmentFailure          an in-band error of an environment server
    ├── ConnectionMisconfigured     how servers are to be reached cannot work, or would tell secrets
    ├── ConnectionLost              no server answers; says which address, after how long
    │   └── ServerReplaced          another server answers at its address
    ├── ServerNotStarted            a server of ours did not start, or died too often
    │   └── ServerArgumentsInvalid  what it was asked to serve does not exist
    ├── WaitTooLong                 a server wants a command to wait longer than is reasonable
    ├── AnswerOverdue               a server never answered a command
    ├── ContractMismatch            client and server speak different contract revisions
    ├── OutcomeNotFinite            an environment gave a reward or score that is no finite number
    ├── ImageUnusable               an environment gave an image that cannot be shown or recorded
    ├── EpisodeClosed               a command for an episode that this program has closed
    ├── ProcessForked               gRPC was used before this process was forked
    ├── UnknownName                 no split, advisor or format of that name; says which there are
    ├── EpisodeBroken               this program failed while it played; the log has the traceback
    ├── RecordInvalid               what was played cannot be stored
    ├── CommandTooLong              no message carries the command; it was not sent
    ├── CommandGivenUp              each time it was sent, its server ended or its stream broke
    ├── ModelNotMakeable            a known model cannot be made on this machine now
    │   ├── DownloadFailed          no package index gave the file, or it cannot be read
    │   ├── FileAltered             the file has another hash than the one that is known
    │   └── DiskTooFull             less room than is needed, computed beforehand
    └── PolicyError                 the model or its server failed
        ├── PolicyUnavailable       down, unreachable or out of time
        │   ├── PolicyLost          the connection broke, or the server is going away or starting
        │   └── PolicyStale         its engines have weights that they should not have
        ├── PolicyOverloaded        it refused for load; retriable, may say after how long
        ├── PolicyRejected          it refused the request itself; never retriable
        │   └── ContextOverflow     because it is longer than the model's context
        ├── PolicyMisbehaved        it answered with what cannot be used (NaN logprobs, no tokens)
        ├── PolicyMisconfigured     what the user set cannot work (no key, unknown policy)
        │   ├── ModelNotMade        a known model is not on this machine yet
        │   └── MemoryTooSmall      a model or its cache does not fit, computed beforehand
        └── ImagesNotTaken          observations have images, and the policy takes texts only

`retriable` speaks of the whole episode: whether playing it again can succeed; the run's retry
budget decides whether that is done. What has no side effect or is idempotent (model requests,
environment commands) is sent again by this package before such an error is raised. `trouble` says
of an error of a request why the same request may succeed when it is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from agentgym.env.v1 import types_pb2

__all__ = [
    "AgentRuntimeError",
    "AnswerOverdue",
    "CommandGivenUp",
    "CommandTooLong",
    "ConnectionLost",
    "ConnectionMisconfigured",
    "ContextOverflow",
    "ContractMismatch",
    "DiskTooFull",
    "DownloadFailed",
    "EnvironmentFailure",
    "EpisodeBroken",
    "EpisodeClosed",
    "FileAltered",
    "ImageUnusable",
    "ImagesNotTaken",
    "MemoryTooSmall",
    "ModelNotMade",
    "ModelNotMakeable",
    "OutcomeNotFinite",
    "PolicyError",
    "PolicyLost",
    "PolicyMisbehaved",
    "PolicyMisconfigured",
    "PolicyOverloaded",
    "PolicyRejected",
    "PolicyStale",
    "PolicyUnavailable",
    "ProcessForked",
    "RecordInvalid",
    "ServerArgumentsInvalid",
    "ServerNotStarted",
    "ServerReplaced",
    "Trouble",
    "UnknownName",
    "WaitTooLong",
]


class Trouble(StrEnum):
    """What happened to a request that may be sent again."""

    REFUSED = "refused"
    """The server refused it for load."""
    DOWN = "down"
    """No connection, or the server says that it is not there: HTTP 502, 503, 504."""
    ERROR = "error"
    """The server failed: HTTP 500, 408, 409, 425 and the like."""
    BROKEN = "broken"
    """The connection broke before the answer was whole."""
    TIMEOUT = "timeout"
    """No answer in time."""
    INVALID = "invalid"
    """The answer could not be read: cut off, no JSON, empty."""
    STALE = "stale"
    """It was answered by weights that should not be served any more."""


class AgentRuntimeError(Exception):
    """Base: a failure with a fault, a machine-readable reason, and whether to play again."""

    fault: types_pb2.Fault = types_pb2.FAULT_INFRASTRUCTURE
    retriable: bool = True
    reason: str = "AGENT_RUNTIME_ERROR"
    retry_after: float | None = None
    """Seconds that a server asked to wait before another attempt; None = it did not ask."""


class EnvironmentFailure(AgentRuntimeError):
    """When an environment server answers a command with an error."""

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        fault: types_pb2.Fault,
        retriable: bool,
        metadata: dict[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.fault = fault
        self.retriable = retriable
        self.metadata = metadata or {}
        self.retry_after = retry_after


class ConnectionLost(AgentRuntimeError):
    """When a server cannot be reached within its deadline."""

    reason = "CONNECTION_LOST"


class ConnectionMisconfigured(AgentRuntimeError):
    """When TLS files cannot be used, or a token would travel in plain text."""

    retriable = False
    reason = "CONNECTION_MISCONFIGURED"


class ServerReplaced(ConnectionLost):
    """When what answers at a server's address is not what was there before."""

    reason = "SERVER_REPLACED"


class ServerNotStarted(AgentRuntimeError):
    """When an environment server that this program spawned does not start, or died too often."""

    retriable = False
    reason = "SERVER_NOT_STARTED"


class ServerArgumentsInvalid(ServerNotStarted):
    """When a server was asked for what does not exist, such as an unknown environment."""

    reason = "SERVER_ARGUMENTS_INVALID"


class WaitTooLong(AgentRuntimeError):
    """When a server refuses a command again and again, or asks to come back after ages."""

    reason = "WAIT_TOO_LONG"


class AnswerOverdue(AgentRuntimeError):
    """When a server that is alive never answered a command."""

    reason = "ANSWER_OVERDUE"


class ContractMismatch(AgentRuntimeError):
    """When client and server speak different contract revisions."""

    retriable = False
    reason = "CONTRACT_REVISION_UNSUPPORTED"


class OutcomeNotFinite(AgentRuntimeError):
    """When an environment gives NaN or infinity as a reward or score."""

    fault = types_pb2.FAULT_ENVIRONMENT
    retriable = False
    reason = "OUTCOME_NOT_FINITE"


class ImageUnusable(AgentRuntimeError):
    """When an environment gives an image that cannot be shown or recorded."""

    fault = types_pb2.FAULT_ENVIRONMENT
    retriable = False
    reason = "IMAGE_UNUSABLE"


class EpisodeBroken(AgentRuntimeError):
    """When code of this program or of a policy raises what it should not: one episode's failure."""

    reason = "EPISODE_BROKEN"


class EpisodeClosed(AgentRuntimeError):
    """When a command is meant for an episode that this program has closed."""

    retriable = False
    reason = "EPISODE_CLOSED"


class ProcessForked(AgentRuntimeError):
    """When a process wants to play that was forked from one that had played."""

    retriable = False
    reason = "PROCESS_FORKED"


class UnknownName(AgentRuntimeError, ValueError):
    """When there is nothing of that name; says what there is."""

    retriable = False
    reason = "UNKNOWN_NAME"

    def __init__(self, what: str, name: object, valid: Iterable[str]) -> None:
        self.valid = tuple(valid)
        super().__init__(f"no {what} is called {name!r} (valid: {', '.join(self.valid)})")


class RecordInvalid(AgentRuntimeError):
    """When the record of an episode cannot be stored; a record that says so takes its place."""

    reason = "RECORD_INVALID"


class CommandTooLong(AgentRuntimeError):
    """When a command is larger than any message may be."""

    fault = types_pb2.FAULT_AGENT
    retriable = False
    reason = "COMMAND_TOO_LONG"


class CommandGivenUp(AgentRuntimeError):
    """When a command's server ended, or its stream broke, each time it was sent.

    Not retriable: its neighbours would pay for another attempt, too.
    """

    fault = types_pb2.FAULT_ENVIRONMENT
    retriable = False

    def __init__(self, message: str, *, reason: str) -> None:
        """`reason` is ENDS_SERVER or BREAKS_STREAM."""
        super().__init__(message)
        self.reason = reason


class PolicyError(AgentRuntimeError):
    """When the policy fails."""

    fault = types_pb2.FAULT_POLICY
    reason = "POLICY_ERROR"
    trouble: Trouble | None = None
    """Why the same request may be sent again; None = it would fail again."""

    def __init__(
        self, message: str, *, trouble: Trouble | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.trouble = trouble if trouble is not None else self.trouble
        self.retry_after = retry_after


class PolicyUnavailable(PolicyError):
    """When the policy's server is down, unreachable or out of time."""

    reason = "POLICY_UNAVAILABLE"


class PolicyLost(PolicyUnavailable):
    """When the connection broke, or the server says that it is going away or still starting.

    Nothing of the reply was used: the same request may be sent again.
    """

    trouble = Trouble.DOWN


class PolicyStale(PolicyUnavailable):
    """When an engine was restarted and has not yet been given the weights that it should have."""

    reason = "POLICY_STALE"


class PolicyOverloaded(PolicyError):
    """When the policy's server refuses for load."""

    reason = "POLICY_OVERLOADED"
    trouble = Trouble.REFUSED


class PolicyRejected(PolicyError):
    """When the policy's server refuses the request itself: key, model name, parameters."""

    retriable = False
    reason = "POLICY_REJECTED"

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP, where the server refused by it; 0 = otherwise."""


class ContextOverflow(PolicyRejected):
    """When a prompt is longer than the model's context; policies turn it into a completion."""

    reason = "CONTEXT_OVERFLOW"


class PolicyMisbehaved(PolicyError):
    """When the policy answers with what cannot be used, such as NaN or missing logprobs."""

    retriable = False
    reason = "POLICY_MISBEHAVED"


class PolicyMisconfigured(PolicyError):
    """When what the user set cannot work: a missing key, an unknown policy, no chat template."""

    retriable = False
    reason = "POLICY_MISCONFIGURED"


class ImagesNotTaken(PolicyError):
    """When observations have images and the policy takes texts only."""

    retriable = False
    reason = "IMAGES_NOT_TAKEN"

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"{policy} takes no images, and the observations have some: leave out the option that "
            "asks the environment for them, or play by a policy that takes them (openai:MODEL, "
            "with --openai.base-url for other servers than OpenAI's)"
        )


class ModelNotMade(PolicyMisconfigured):
    """When a known model is asked for and has not been made on this machine."""

    reason = "MODEL_NOT_MADE"


class MemoryTooSmall(PolicyMisconfigured):
    """When a model's weights or its cache need more memory than there is."""

    reason = "MEMORY_TOO_SMALL"


class ModelNotMakeable(AgentRuntimeError):
    """When a known model cannot be made on this machine now."""

    retriable = False
    reason = "MODEL_NOT_MAKEABLE"


class DownloadFailed(ModelNotMakeable):
    """When no package index gave a model's file, or it cannot be read."""

    reason = "DOWNLOAD_FAILED"


class FileAltered(ModelNotMakeable):
    """When a model's file has another hash than the one that is known."""

    reason = "FILE_ALTERED"


class DiskTooFull(ModelNotMakeable):
    """When there is less room for a model's files than they take."""

    reason = "DISK_TOO_FULL"
