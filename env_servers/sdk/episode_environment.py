"""The base of environments that keep the state of their episode in one object.

A subclass says how an episode begins, how it is forked and what it holds open; that nothing works
before `reset`, and that a second reset lets the first episode go, is said here once.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection
from typing import ClassVar, Generic, NoReturn, Self, TypeVar

from env_servers.sdk.environment import Environment
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

    # A plain attribute, there only while an episode runs: steps read it several times, and a
    # property that checks costs an environment as quick as echo some per cent of its step.
    episode: EpisodeT
    """The state of the running episode; assign a new one where it is immutable.

    Reading it before `reset` or after `close` raises RuntimeError.
    """

    def __getattr__(self, name: str) -> NoReturn:
        if name == "episode":
            raise RuntimeError("reset has to come before everything else")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def running(self) -> bool:
        """Whether there is an episode: `reset` came, and `close` did not."""
        return "episode" in vars(self)

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
        self.episode = episode
        return observation

    def fork(self) -> Self:
        twin = type(self)(self.tasks)
        if self.running:
            twin.episode = self.fork_episode(self.episode)
        return twin

    def close(self) -> None:
        # Cleared first: whatever a failing release leaves behind, it is released only once.
        episode: EpisodeT | None = vars(self).pop("episode", None)
        if episode is not None:
            self.close_episode(episode)
