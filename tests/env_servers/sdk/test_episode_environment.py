"""What environments with an episode object get from their base."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from env_servers.sdk import (
    ActionFormat,
    ConversationStart,
    EnvironmentConfig,
    EnvironmentSpec,
    EpisodeEnvironment,
    Grammar,
    InvalidOption,
    Observation,
    ResetOptions,
    StaticTaskSet,
    Task,
)

TASKS = StaticTaskSet({"train": [Task("notes_1", payload=["first"])]})
TASK = TASKS.get("notes_1")


@dataclass
class Notebook:
    lines: list[str] = field(default_factory=list)
    closed: bool = False


class Notes(EpisodeEnvironment[Notebook]):
    option_names = ("title",)
    spec = EnvironmentSpec(
        name="notes",
        version="1",
        description="Writes down what it hears.",
        grammar=Grammar(),
        conversation_starts={ActionFormat.REACT: ConversationStart("Write.")},
        max_rounds=3,
    )

    @classmethod
    def load_tasks(cls, config: EnvironmentConfig) -> StaticTaskSet:
        return TASKS

    def start(self, task: Task, options: ResetOptions) -> tuple[Notebook, Observation]:
        title = options.options.get("title", "")
        if not isinstance(title, str):
            raise InvalidOption("option title must be a text")
        return Notebook([title, *task.payload]), Observation(title)

    def step(self, action: str) -> Observation:
        self.episode.lines.append(action)
        return Observation(" ".join(self.episode.lines))

    def close_episode(self, episode: Notebook) -> None:
        assert not episode.closed
        episode.closed = True


def test_nothing_works_before_the_reset() -> None:
    with pytest.raises(RuntimeError, match="reset has to come before"):
        Notes(TASKS).step("x")


def test_unknown_profiles_and_options_are_refused_before_the_episode_starts() -> None:
    for options in (ResetOptions(profile="other"), ResetOptions(options={"colour": "red"})):
        with pytest.raises(InvalidOption):
            Notes(TASKS).reset(TASK, options)


def test_a_fork_goes_its_own_way_and_shares_the_tasks() -> None:
    notes = Notes(TASKS)
    notes.reset(TASK, ResetOptions())
    fork = notes.fork()
    fork.step("forked")
    assert (notes.episode.lines, fork.episode.lines) == (["", "first"], ["", "first", "forked"])
    assert fork.tasks is TASKS


def test_a_fork_before_the_reset_has_no_episode_either() -> None:
    with pytest.raises(RuntimeError, match="reset has to come before"):
        Notes(TASKS).fork().step("x")


def test_an_episode_is_released_once_by_close_or_by_the_next_reset() -> None:
    notes = Notes(TASKS)
    notes.reset(TASK, ResetOptions())
    first = notes.episode
    notes.reset(TASK, ResetOptions())
    second = notes.episode
    assert (first.closed, second.closed) == (True, False)
    notes.close()
    notes.close()
    assert second.closed


def test_a_refused_reset_leaves_the_running_episode_alone() -> None:
    notes = Notes(TASKS)
    notes.reset(TASK, ResetOptions())
    with pytest.raises(InvalidOption):
        notes.reset(TASK, ResetOptions(options={"title": 3}))
    assert notes.step("on").text.endswith("first on")
