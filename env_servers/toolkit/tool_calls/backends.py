"""Where a tool's answer comes from: one interface, whatever stands behind it.

    Backend (one per process)   opens a Session for each episode
    Session (one per episode)   answers calls; holds what an episode may change

Backends are called `embedded` (in this process, the default), `recorded` (what the original
answered) and `live` (the real service). A session that raises has changed nothing, so the call can
be made again.

    ToolError                   the tool answers this call with an error, which the agent sees
    ├── NotRecorded             ... because no recording has the call
    ServiceUnavailable          (an EnvironmentUnavailable) the service is down, slow or refuses:
                                a fault of infrastructure, never an observation and never a reward
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

from env_servers.sdk import EnvironmentUnavailable, InvalidOption
from env_servers.toolkit.tool_calls.declarations import ToolSet
from env_servers.toolkit.tool_calls.payload import ToolTask

__all__ = [
    "ALL_CALLS",
    "EMBEDDED",
    "LIVE",
    "OTHER_TASKS",
    "RECORDED",
    "RECORDED_CALLS",
    "Backend",
    "NotRecorded",
    "Reply",
    "ServiceUnavailable",
    "Session",
    "ToolError",
    "TooledSession",
]

EMBEDDED: Final = "embedded"
RECORDED: Final = "recorded"
LIVE: Final = "live"

ALL_CALLS: Final = "all"
OTHER_TASKS: Final = "other_tasks"
RECORDED_CALLS: Final = (ALL_CALLS, OTHER_TASKS, "none")
"""What an episode on a recording may look up: the option `recorded_calls`."""


class ToolError(Exception):
    """When a tool answers with an error; shown as `ERROR | <text>`, and it ends nothing."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NotRecorded(ToolError):
    """When a recording is asked for a call that nobody recorded."""

    def __init__(self, tool: str, arguments: object) -> None:
        shown = repr(arguments)
        shown = shown if len(shown) <= 200 else shown[:200] + "..."
        super().__init__(f"NotRecorded({tool} was never recorded with {shown})")


class ServiceUnavailable(EnvironmentUnavailable):
    """When a live service does not answer, or refuses for now; the run's budget retries."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """`retry_after` in seconds, as the service asked for."""
        super().__init__(message)
        self.retry_after = retry_after


class Reply(NamedTuple):
    """What a tool returned."""

    value: Any
    """Shown to the agent as `str(value)`."""
    ok: bool = True
    """False: the tool refused in words of its own; the value satisfies no subgoal."""
    output: Any = ...
    """What is compared with subgoals, where that is not the value itself."""

    @property
    def compared(self) -> Any:
        """What is compared with subgoals."""
        return self.value if self.output is ... else self.output


class Session(ABC):
    """The tools as one episode sees them."""

    @abstractmethod
    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Answer a declared tool; required arguments are there, of any type and value.

        Raises ToolError, ServiceUnavailable; any other exception is shown to the agent as the
        original shows its own, `ERROR | Type(text)`.
        """

    def fork(self) -> Self:
        """Return an independent copy; the default suits sessions that hold nothing of their own."""
        return self

    def cancel(self) -> None:
        """Called from another thread: let a call that waits return early."""

    def close(self) -> None:
        """Release what the episode holds."""


class TooledSession(Session):
    """A session whose methods are its tools: `call("f", {"a": 1})` is `self.f(a=1)`.

    Only names of declared tools are looked up, so no other attribute can be reached. A method
    returns a Reply, or just the value where there is nothing more to say.
    """

    toolset: ClassVar[ToolSet]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        if self.toolset.get(tool) is None:
            raise ToolError(f"Invalid action: {tool}.")
        method: Callable[..., Any] = getattr(self, tool)
        result = method(**arguments)
        return result if isinstance(result, Reply) else Reply(result)


class Backend(ABC):
    """Answers the tools of one environment, for all episodes of a process."""

    name: ClassVar[str] = EMBEDDED

    @abstractmethod
    def open(self, task: ToolTask) -> Session:
        """Return the session of a new episode; raises ServiceUnavailable."""

    def knowing(self, calls: str, task: ToolTask) -> Backend:
        """Return a backend that looks up only these calls, one of RECORDED_CALLS, for a task.

        Raises InvalidOption where nothing is looked up.
        """
        if calls != ALL_CALLS:
            raise InvalidOption(f"option recorded_calls: backend {self.name} has none")
        return self

    def prepare(self) -> None:
        """Make what answers come from, so that no episode waits for it; may be called again."""

    def close(self) -> None:
        """Release connections; called once when the process ends."""
