"""The values that pass between an environment and whoever runs it.

Enum values equal those of `agentgym.env.v1`; a test holds that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from env_servers.sdk.errors import InvalidOption
from env_servers.sdk.images import Image

__all__ = [
    "ActionFormat",
    "Advice",
    "Advisor",
    "ConversationStart",
    "Execution",
    "Metric",
    "Observation",
    "ResetOptions",
    "StopReason",
    "Task",
]


class ActionFormat(IntEnum):
    """How a model's reply is turned into one native action."""

    REACT = 1
    """Free thought, then `Action:` and a native action."""
    FUNCTION_CALLING = 2
    """One JSON object {"thought", "function_name", "arguments"}."""
    CODE_AS_ACTION = 3
    """A fenced python block with one call of literal arguments; parsed, never evaluated."""


class StopReason(IntEnum):
    """Why an episode ended, as far as an environment can know."""

    NONE = 0
    """The episode goes on."""
    GOAL_REACHED = 1
    """terminated: the task is solved."""
    GOAL_FAILED = 2
    """terminated: the rules ended the task without success."""
    STEP_LIMIT = 3
    """truncated: the environment's own step limit."""
    ANSWERED = 4
    """terminated: a final answer was submitted, whatever its score."""


class Metric(IntEnum):
    """How episodes are aggregated into an environment's figure."""

    SUCCESS_RATE = 1
    """Share of episodes whose score reaches `success_score`."""
    MEAN_SCORE = 2
    """Mean score."""


class Execution(StrEnum):
    """Where an environment's code runs."""

    INLINE = "inline"
    """On the event loop: pure Python, well under 1 ms a step."""
    THREAD = "thread"
    """In a thread: waits outside the GIL (network, subprocess)."""
    PROCESS = "process"
    """In a worker process that holds many episodes: computes, or uses an unsafe library."""


class Advisor(IntEnum):
    """A scripted player of an environment."""

    EXPERT = 1
    """Solves the task; may look at hidden state."""
    RANDOM = 2
    """A uniformly drawn plausible action; a gate, not an agent."""
    NOOP = 3
    """An action that changes nothing; a gate, not an agent."""


class Observation(NamedTuple):
    """What a reset or a step shows to the agent, and what it earned.

    `reward` is the step's reward in the environment's own unit; None = not scored, never a
    stand-in for 0. `score` is what the episode would score if it ended here; None = `reward`.
    """

    text: str
    reward: float | None = None
    score: float | None = None
    terminated: bool = False
    truncated: bool = False
    stop_reason: StopReason = StopReason.NONE
    info: Mapping[str, Any] | None = None
    images: tuple[Image, ...] = ()
    """What the agent sees beside the text, where the spec says `has_images` and an option of the
    reset asks for it."""


class Advice(NamedTuple):
    """A scripted player's next native action, with a short true reason for it."""

    action: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One task of an environment. `payload` is the environment's own business."""

    item_id: str
    """`<task>_<int>`, for example `textcraft_31`."""
    payload: Any = None
    category: str = ""
    """Task type within the environment, for per-type tables."""


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """The two messages that open a conversation before the first observation."""

    instruction: str
    acknowledgement: str = "OK. I'll follow your instructions and try my best to solve the task."


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """What a client chose for one episode."""

    seed: int = 0
    """For environments that draw; the same seed gives the same episode."""
    profile: str = "agentgym"
    """One of the environment's profiles."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Options of the environment, documented in its README; JSON values, and numbers may arrive
    as floats."""

    def require(self, profiles: Collection[str], option_names: Collection[str] = ()) -> None:
        """Raise InvalidOption for a profile or an option that does not exist."""
        if self.profile not in profiles:
            raise InvalidOption(f"unknown profile {self.profile[:100]!r}", valid=profiles)
        for name in self.options:
            if name not in option_names:
                raise InvalidOption(
                    f"unknown option {name[:100]!r}", valid=option_names or "no options"
                )

    def choose(self, name: str, values: Sequence[str]) -> str:
        """Return the value of an option, one of `values`; the first one where it is not given.

        A whole number stands for its digits. Raises InvalidOption for any other value.
        """
        value = self.options.get(name, values[0])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or str(value) not in values:
            raise InvalidOption(f"option {name} cannot be {str(value)[:100]!r}", valid=values)
        return str(value)

    def wants(self, name: str, *, default: bool = False) -> bool:
        """Return the value of an option that is on or off. Raises InvalidOption for any other."""
        value = self.options.get(name, default)
        if not isinstance(value, bool):
            raise InvalidOption(f"{name} must be true or false", valid="true, false")
        return value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: it never changes, and a mapping proxy could not be copied by `fork`."""
        return self
