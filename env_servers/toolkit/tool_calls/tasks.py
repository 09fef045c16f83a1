"""Tasks of a tool environment: what is asked, what is expected, in which world it plays.

Owns the payload of tasks, the task set over generated and official ones, the choice of a backend
for a task, and the settings of a process. Generated tasks are pure functions of their index; it
knows no generator and no tool.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from env_servers.sdk import (
    EMBEDDED_BASE,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    RangeSplit,
    RangeTaskSet,
    StaticTaskSet,
    Task,
    TaskSet,
    UnknownItem,
    UnknownSplit,
)
from env_servers.toolkit.tool_calls.backends import EMBEDDED, LIVE, RECORDED, Backend
from env_servers.toolkit.tool_calls.planning import Plan

__all__ = ["EVAL_BASE", "OFFICIAL_SPLITS", "ToolSettings", "ToolTask", "ToolTaskSet", "split_range"]

EVAL_BASE: Final = EMBEDDED_BASE + 500_000
"""First index of embedded eval tasks."""
OFFICIAL_SPLITS: Final = ("official_train", "official_eval")
AUTO: Final = "auto"
BACKENDS: Final = (AUTO, EMBEDDED, RECORDED, LIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTask:
    """The payload of a task."""

    goal: str
    """What the user asks for, with the form of the answer."""
    subgoals: tuple[Any, ...]
    """Values that outputs are compared with; nearly always one, the answer."""
    official: bool = False
    index: int = 0
    """The integer of the item id."""
    init: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """`init_config` of the official files, for example current_date and current_location."""
    end_state: Any = None
    """State that the world has to be in at the end, where that counts."""
    plan: Plan | None = None
    """The expert's way; None = it hands in the first subgoal."""
    steps: int = 0
    """Calls of the plan, with `finish`; 0 = unknown."""


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Settings of one environment: `serve --set <name>.<key>=<value>`."""

    name: str
    values: Mapping[str, str]

    @classmethod
    def read(
        cls, config: EnvironmentConfig, name: str, known: Sequence[str] = ("backend",)
    ) -> ToolSettings:
        """The settings that start with the name; raises InvalidOption for unknown ones."""
        prefix = f"{name}."
        values = {
            key.removeprefix(prefix): str(value)
            for key, value in config.settings.items()
            if key.startswith(prefix)
        }
        for key in values:
            if key not in known:
                raise InvalidOption(
                    f"unknown setting {key[:100]!r} of {name}", valid=known or "no settings"
                )
        backend = values.get("backend", AUTO)
        if backend not in BACKENDS:
            raise InvalidOption(f"unknown backend {backend[:100]!r} of {name}", valid=BACKENDS)
        return cls(name, values)

    @property
    def backend(self) -> str:
        """The backend that was asked for; `auto` without one."""
        return self.values.get("backend", AUTO)

    def text(self, key: str, default: str) -> str:
        """A setting as text."""
        return self.values.get(key, default)

    def number(self, key: str, default: float) -> float:
        """A positive number; raises InvalidOption."""
        try:
            value = float(self.values.get(key, default))
        except ValueError:
            value = -1.0
        if not 0 < value < float("inf"):
            raise InvalidOption(f"setting {self.name}.{key} must be a positive number")
        return value

    def flag(self, key: str) -> bool:
        """Whether a consent was given: `yes`, `true` or `1`."""
        return self.values.get(key, "").casefold() in ("yes", "true", "1")

    def secret(self, variable: str) -> str:
        """A key from the environment; raises EnvironmentUnavailable naming a missing variable."""
        value = os.environ.get(variable, "")
        if not value:
            raise EnvironmentUnavailable(
                f"backend live of {self.name} needs a key: set the environment variable {variable}"
            )
        return value


def split_range(start: int, size: int, make: Callable[[int], Task]) -> RangeSplit:
    """A split of generated tasks; `make` is a pure function of the index."""
    return RangeSplit(start, size, make)


class ToolTaskSet(TaskSet):
    """Generated and official tasks of one environment, and the backends that they play on."""

    def __init__(
        self,
        name: str,
        embedded: Mapping[str, RangeSplit],
        official: Mapping[str, Sequence[Task]],
        backends: Mapping[str, Backend],
        *,
        chosen: str = AUTO,
        version: str = "",
    ) -> None:
        """`backends` by their names; `version` changes when generators or worlds change."""
        self._embedded = RangeTaskSet(name, embedded)
        self._official = StaticTaskSet(official)
        self._sizes = {**self._embedded.splits(), **self._official.splits()}
        self._known = {task.item_id: task for split in official.values() for task in split}
        self._name = name
        self._backends = dict(backends)
        self._chosen = chosen
        self._version = version
        if chosen != AUTO and chosen not in backends:
            raise InvalidOption(f"{name} has no backend {chosen}", valid=(AUTO, *backends))

    def splits(self) -> Mapping[str, int]:
        return dict(self._sizes)

    def item_ids(self, split: str, start: int, stop: int) -> Sequence[str]:
        if split not in self._sizes:
            raise UnknownSplit(f"unknown split {split[:100]!r}", valid=self._sizes)
        owner = self._official if split in self._official.splits() else self._embedded
        return owner.item_ids(split, start, stop)

    def get(self, item_id: str) -> Task:
        bare = item_id if item_id.startswith(f"{self._name}_") else f"{self._name}_{item_id}"
        if bare in self._known:
            return self._known[bare]
        try:
            return self._embedded.get(item_id)
        except UnknownItem as error:
            if not self._known:
                raise
            raise UnknownItem(
                f"unknown item {item_id[:100]!r}",
                valid=f"{error.valid}, official ids such as {next(iter(self._known))}",
            ) from None

    def backend(self, task: ToolTask) -> Backend:
        """The backend that was chosen; by itself the recording for official tasks, if there."""
        if self._chosen != AUTO:
            return self._backends[self._chosen]
        if task.official and RECORDED in self._backends:
            return self._backends[RECORDED]
        return self._backends[EMBEDDED]

    def digest(self) -> bytes:
        digest = hashlib.blake2b(self._embedded.digest(), digest_size=8)
        digest.update(f"{self._version} {self._chosen}".encode())
        for task in self._known.values():
            payload: ToolTask = task.payload
            digest.update(repr((task.item_id, payload.goal, payload.subgoals)).encode())
        return digest.digest()

    def close(self) -> None:
        for backend in self._backends.values():
            backend.close()
