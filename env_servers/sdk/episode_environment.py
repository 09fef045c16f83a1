"""The base of environments that keep the state of their episode in one object.

A subclass says how an episode begins, how it is forked and what it holds open; that nothing works
before `reset`, and that a second reset lets the first episode go, is said here once.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, Generic, Self, TypeVar

from env_servers.sdk.environment import Environment
from env_servers.sdk.tasks import TaskSet
from env_servers.sdk.types import Observation, ResetOptions, Task

__all__ = ["EpisodeEnvironment"]

EpisodeT = TypeVar("EpisodeT")


class EpisodeEnvironment(Environment, Generic[EpisodeT]):
    """An environment whose hidden state is `episode`, an object of the subclass's choice.

    A subclass implements `load_tasks`, `start` and `step`, and where its episodes need it
    `fork_episode` and `close_episode`:

        class Guessing(EpisodeEnvironment[Game]):
            option_names = ("highest",)

            def start(self, task, options):
                game = Game(task.payload, options.options.get("highest", 100))
                return game, Observation("Guess my number.")

            def step(self, action):
                return self.episode.guess(action)
    """

    option_names: ClassVar[Collection[str]] = ()
    """Reset options that exist; any other one is refused, as is an unknown profile."""

    def __init__(self, tasks: TaskSet) -> None:
        super().__init__(tasks)
        self._episode: EpisodeT | None = None

    @property
    def episode(self) -> EpisodeT:
        """The state of the running episode; assign a new one where it is immutable.

        Raises:
            RuntimeError: Before `reset` and after `close`.
        """
        if self._episode is None:
            raise RuntimeError("reset has to come before everything else")
        return self._episode

    @episode.setter
    def episode(self, episode: EpisodeT) -> None:
        self._episode = episode

    @abstractmethod
    def start(self, task: Task, options: ResetOptions) -> tuple[EpisodeT, Observation]:
        """Return a new episode of the task and its first observation.

        The profile and the names of the options have been checked.

        Raises:
            InvalidOption: For an option whose value cannot be used.
        """

    def fork_episode(self, episode: EpisodeT) -> EpisodeT:
        """Return an independent copy of an episode; tasks are shared.

        The default copies everything. Override it where states are immutable, or hold what many
        episodes share.
        """
        return copy.deepcopy(episode, {id(self.tasks): self.tasks})

    def close_episode(self, episode: EpisodeT) -> None:
        """Release what an episode holds open; by default nothing."""

    def reset(self, task: Task, options: ResetOptions) -> Observation:
        options.require(self.spec.profiles, self.option_names)
        episode, observation = self.start(task, options)
        self.close()
        self._episode = episode
        return observation

    def fork(self) -> Self:
        twin = type(self)(self.tasks)
        if self._episode is not None:
            twin._episode = self.fork_episode(self._episode)
        return twin

    def close(self) -> None:
        # Cleared first: whatever a failing release leaves behind, it is released only once.
        episode, self._episode = self._episode, None
        if episode is not None:
            self.close_episode(episode)
