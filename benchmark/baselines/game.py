"""The environments that the baseline servers host, behind one small face.

`echo` is built in and as light as possible: an observation of OBSERVATION_BYTES that starts with
the action. Any other name is loaded through the SDK. Knows nothing of servers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from env_servers.sdk import (
    Environment,
    EnvironmentConfig,
    Observation,
    ResetOptions,
    TaskSet,
    load_environment,
)

__all__ = ["OBSERVATION_BYTES", "Echo", "Game", "Hosted", "Turn", "open_games"]

OBSERVATION_BYTES: Final = 600
"""Size of every observation of the echo environment."""
LISTED: Final = 4096
"""Tasks of a split that episodes are spread over, at most."""


class Turn(NamedTuple):
    """What one step gave."""

    observation: str
    reward: float
    done: bool


class Game(Protocol):
    """One live episode."""

    def reset(self, index: int) -> Turn:
        """Start the index-th task (modulo their number)."""
        ...

    def step(self, action: str) -> Turn:
        """Apply a native action."""
        ...


class Echo:
    """Answers with the action, padded to OBSERVATION_BYTES."""

    __slots__ = ()

    def reset(self, index: int) -> Turn:
        return Turn(f"episode {index}".ljust(OBSERVATION_BYTES, "."), 0.0, False)

    def step(self, action: str) -> Turn:
        return Turn(action.ljust(OBSERVATION_BYTES, "."), 0.0, False)


class Hosted:
    """An episode of an environment of the SDK."""

    __slots__ = ("_environment", "_item_ids", "_tasks")

    def __init__(self, environment: Environment, tasks: TaskSet, item_ids: Sequence[str]) -> None:
        self._environment = environment
        self._tasks = tasks
        self._item_ids = item_ids

    def reset(self, index: int) -> Turn:
        task = self._tasks.get(self._item_ids[index % len(self._item_ids)])
        return _turn(self._environment.reset(task, ResetOptions()))

    def step(self, action: str) -> Turn:
        return _turn(self._environment.step(action))


def _turn(seen: Observation) -> Turn:
    return Turn(seen.text, seen.reward or 0.0, seen.terminated or seen.truncated)


def open_games(name: str) -> Callable[[], Game]:
    """A factory of episodes of the named environment, which is loaded once.

    Tasks are the first LISTED of its first split. Raises what `load_environment` raises.
    """
    if name == "echo":
        return Echo
    family = load_environment(name)
    data = os.environ.get("AGENTGYM_DATA")
    tasks = family.load_tasks(EnvironmentConfig(data_dir=Path(data) if data else None))
    split, size = next((split, size) for split, size in tasks.splits().items() if size)
    item_ids = tasks.item_ids(split, 0, min(size, LISTED))
    return lambda: Hosted(family(tasks), tasks, item_ids)
