"""Recorded conversations of the original environments, played again on ours.

`FidelityContract` is the test that every environment with recordings inherits; `replay` plays one
recording for tests that look closer. What the recordings are is said in benchmark.fidelity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import pytest

from benchmark.fidelity.recordings import SOURCES, Recording, read_recordings
from env_servers.sdk import (
    ActionFormat,
    Environment,
    EnvironmentConfig,
    Observation,
    Rejected,
    ResetOptions,
    TaskSet,
)
from tests.kit.data import require_data

__all__ = ["FidelityContract", "Replay", "recordings", "replay"]


@dataclass(frozen=True, slots=True)
class Replay:
    """A recording and what our environment answered to it."""

    recording: Recording
    observations: tuple[Observation, ...]
    """The first observation, then one per reply, also after an end that came too early."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(our text, the recorded text) wherever something was recorded."""
        texts = (observation.text for observation in self.observations)
        return list(zip(texts, self.recording.observations, strict=False))

    @property
    def last(self) -> Observation:
        return self.observations[-1]


def recordings(name: str, every: int = 1) -> Iterator[Recording]:
    """Yield each `every`th recording of an environment; skip the test where they are not there."""
    source = SOURCES[name]
    folder = require_data(f"agenttraj_l/{source.file}" if source.file else name)
    return islice(read_recordings(source, folder), 0, None, every)


def replay(
    environment: type[Environment],
    tasks: TaskSet,
    recording: Recording,
    options: Mapping[str, Any] | None = None,
) -> Replay:
    """Play a recording's replies, each of which holds an action.

    Args:
        environment: The environment that plays.
        tasks: Its tasks.
        recording: What to play.
        options: Reset options in place of the recording's own.
    """
    episode = environment(tasks)
    reset = ResetOptions(options=recording.options if options is None else options)
    observations = [episode.reset(tasks.get(recording.item_id), reset)]
    for reply in recording.replies:
        action = episode.grammar.read(reply, ActionFormat.REACT)
        assert not isinstance(action, Rejected), (recording.item_id, reply)
        observations.append(episode.step(action))
    episode.close()
    return Replay(recording, tuple(observations))


class FidelityContract:
    """Inherit it in a class named `Test...`: the same actions give the same observations.

    Attributes:
        environment: The environment that plays.
        counts: How many recordings there are, and how many observations after the first ones.
        every: Plays one of so many recordings.
        options: Reset options in place of those that each recording has.
    """

    environment: ClassVar[type[Environment]]
    counts: ClassVar[tuple[int, int]]
    every: ClassVar[int] = 1
    options: ClassVar[Mapping[str, Any] | None] = None

    @pytest.fixture(scope="class")
    @classmethod
    def replayed_tasks(cls) -> Iterator[TaskSet]:
        """The tasks that are played; override it where a fixture has loaded them already."""
        tasks = cls.environment.load_tasks(EnvironmentConfig(require_data("agenttraj_l")))
        yield tasks
        tasks.close()

    @pytest.fixture(scope="class")
    @classmethod
    def replays(cls, replayed_tasks: TaskSet) -> list[Replay]:
        return [
            replay(cls.environment, replayed_tasks, recording, cls.options)
            for recording in recordings(cls.environment.spec.name, cls.every)
        ]

    def final_reward(self, tasks: TaskSet, episode: Replay) -> float | None:
        """Return the reward that a recording ends with; None = it is not looked at."""
        return 1.0

    def test_every_recorded_observation_comes_back(self, replays: list[Replay]) -> None:
        differing = [
            (episode.recording.item_id, ours, theirs)
            for episode in replays
            for ours, theirs in episode.pairs
            if ours != theirs
        ]
        assert differing == []
        recorded = [len(episode.recording.observations) for episode in replays]
        assert (len(replays), sum(recorded) - len(replays)) == self.counts

    def test_every_recording_ends_with_its_reward_and_not_before(
        self, replays: list[Replay], replayed_tasks: TaskSet
    ) -> None:
        for episode in replays:
            item_id = episode.recording.item_id
            assert episode.last.terminated, item_id
            assert not any(seen.terminated or seen.truncated for seen in episode.observations[:-1])
            reward = self.final_reward(replayed_tasks, episode)
            assert reward is None or episode.last.reward == reward, item_id
