"""What an environment author writes: one class for a live episode, and one spec.

The runtime gives everything else: transport, idempotency, leases, workers, deadlines, limits.
An environment is plain synchronous Python and never sees a channel, a thread or a clock.
"""

from __future__ import annotations

import copy
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from env_servers.sdk.errors import InvalidOption
from env_servers.sdk.grammar import Grammar
from env_servers.sdk.tasks import TaskSet
from env_servers.sdk.types import (
    ActionFormat,
    Advice,
    ConversationStart,
    Execution,
    Metric,
    Observation,
    ResetOptions,
    Task,
)
from env_servers.sdk.views import View

__all__ = ["Environment", "EnvironmentConfig", "EnvironmentSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSpec:
    """What a client may know of an environment before it plays."""

    name: str
    """Lower-case identifier; also the `<task>` of embedded item ids."""
    version: str
    """Changes when observations, rewards or tasks change."""
    description: str
    grammar: Grammar
    """Native actions and how replies are read."""
    conversation_starts: Mapping[ActionFormat, ConversationStart]
    """The two messages that begin a conversation, per action format. Its keys are the supported
    formats, the first is the default."""
    max_rounds: int
    """Agent replies that an evaluation allows."""
    metric: Metric = Metric.SUCCESS_RATE
    success_score: float = 1.0
    """An episode is a success when its score is at least this."""
    profiles: tuple[str, ...] = ("agentgym",)
    """First = default. `agentgym` keeps the original's quirks, `fixed` does the right thing."""
    execution: Execution = Execution.INLINE
    deterministic: bool = True
    """The same item, seed, profile, options and actions give the same observations."""
    has_expert: bool = True
    has_score: bool = False
    """Observations carry `score` besides `reward`."""
    has_views: bool = False
    """`render` draws every state."""
    has_images: bool = False
    """Observations can have images: an option, `images` by custom, asks for them."""
    episode_bytes: int = 64 * 1024
    """Memory of one live episode, for admission; an upper estimate."""
    item_prefixes: tuple[str, ...] = ()
    """Further `<task>` names in item ids that are accepted, for example `lmrlgym_maze`."""


@dataclass(frozen=True, slots=True)
class EnvironmentConfig:
    """Where a process finds what its environments need."""

    data_dir: Path | None = None
    """Root of official data files (`AGENTGYM_DATA`); None = embedded tasks only."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Per-environment settings from `serve --set name.key=value`."""


class Environment(ABC):
    """One live episode. `reset` is called once, then `step` until the episode ends."""

    spec: ClassVar[EnvironmentSpec]

    def __init__(self, tasks: TaskSet) -> None:
        self.tasks = tasks

    @classmethod
    def configured(cls, config: EnvironmentConfig) -> type[Environment]:
        """Return the class that plays under a configuration; called once per process, first of all.

        The same one, unless a setting changes the spec: a live service waits, so it wants threads.
        Raises InvalidOption for a setting that does not exist.
        """
        return cls

    @classmethod
    @abstractmethod
    def load_tasks(cls, config: EnvironmentConfig) -> TaskSet:
        """Return the task set with everything that episodes share; called once per process.

        Raises:
            EnvironmentUnavailable: An engine or data is missing.
        """

    @property
    def grammar(self) -> Grammar:
        """How the replies of this episode are read; asked once, after its reset.

        The spec's, unless an option of the reset chose another one.
        """
        return self.spec.grammar

    @abstractmethod
    def reset(self, task: Task, options: ResetOptions) -> Observation:
        """Start the task; returns the first observation.

        Raises:
            InvalidOption: There is no such profile, option or value of an option.
        """

    @abstractmethod
    def step(self, action: str) -> Observation:
        """Apply a native action. Any text is legal input: an invalid action is an observation."""

    def render_error(self, message: str, last: Observation) -> Observation:
        """Return the observation for a reply that could not be read as one action."""
        return Observation(message, reward=0.0, score=last.score)

    def close(self) -> None:
        """Release what this episode holds."""

    def cancel(self) -> None:
        """Return early from `step`, where that is possible; called from another thread meanwhile.

        The step's observation counts all the same. Inline environments are never asked.
        """

    def fork(self) -> Self:
        """Return an independent copy of this episode; the default suits pure-Python state."""
        tasks = self.tasks
        return copy.deepcopy(self, {id(tasks): tasks})

    def fingerprint(self) -> bytes | None:
        """Return bytes that identify the hidden state, or None: the transcript identifies it.

        Equal fingerprints must mean equal futures. Without one, state hashes are chained over the
        transcript, which proves replays just as well but cannot recognise equal states that were
        reached on different ways.
        """
        return None

    def render(self) -> Sequence[View]:
        """Return pictures of the state for people, the most telling first; changes nothing.

        Hidden state may show. Asked for at any state, the last one included; the same actions give
        the same pictures. It runs where steps run: some 20 ms at most, where that is Python.
        """
        raise InvalidOption(f"{self.spec.name} draws no pictures")

    def advise_expert(self, seed: int) -> Advice:
        """Return the scripted expert's next action; a pure function of the episode so far.

        `seed` varies only the wording of the thought.
        """
        raise InvalidOption(f"{self.spec.name} has no expert")

    def advise_random(self, rng: random.Random) -> Advice:
        """Return a uniformly drawn plausible action."""
        raise InvalidOption(f"{self.spec.name} has no random agent", valid="ADVISOR_NOOP")

    def advise_noop(self) -> Advice:
        """Return an action that changes nothing."""
        return Advice("")
