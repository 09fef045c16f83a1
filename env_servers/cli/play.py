"""`python -m env_servers play`: a person plays an environment in the terminal, in this process.

It works the same with lines from a pipe, and ends at the end of the input.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import tyro
from rich.console import Console
from rich.text import Text

from env_servers.cli.setting import read_setting
from env_servers.sdk import (
    ActionFormat,
    Environment,
    EnvironmentConfig,
    EnvironmentUnavailable,
    InvalidOption,
    MediaType,
    Observation,
    ResetOptions,
    Task,
    TaskSet,
    load_environment,
)
from env_servers.sdk.data import official_data_dir

__all__ = ["Play", "PlayConfig", "PlayResult", "play"]

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would obey instead of show."""

_HELP: Final = """\
Type an action, exactly as an agent would after "Action:", or
  /expert    what the scripted expert would do now
  /do        do that
  /random    do some plausible action
  /picture   the state as the environment draws it for people
  /rules     the instruction that agents are given
  /restart   the same task from its beginning
  /help      this text
  /quit      end"""


@dataclass(frozen=True, slots=True)
class PlayConfig:
    """Play an environment in the terminal."""

    name: tyro.conf.Positional[str]
    """The environment, for example textcraft."""
    item: str = ""
    """Item id to play, for example textcraft_1000003; empty = the first of the split."""
    split: str = ""
    """Split to take the item from where none is given; empty = the first that has items."""
    profile: str = ""
    """One of the environment's profiles; empty = its first."""
    seed: int = 0
    """For environments that draw."""
    options: tuple[str, ...] = ()
    """Reset options as name=value, the value as JSON or plain text."""
    set: tuple[str, ...] = ()
    """Environment settings as NAME.KEY=VALUE."""
    expert: bool = False
    """Watch the scripted expert instead of playing."""
    data: Path | None = None
    """Folder of official data files; none = embedded tasks only."""


@dataclass(frozen=True, kw_only=True)
class Play(PlayConfig):
    """Play an environment in the terminal."""

    def run(self) -> int:
        """Play; returns the exit status."""
        play(replace(self, data=self.data or official_data_dir()))
        return 0


@dataclass(frozen=True, slots=True)
class PlayResult:
    """How a session ended."""

    item_id: str
    steps: int
    """Actions since the last (re)start."""
    score: float | None
    """What the episode scores so far; None = not scored."""
    ended: bool
    """Whether the game ended, rather than the player."""
    solved: bool
    """Whether the score reaches the environment's `success_score`."""


def play(config: PlayConfig, console: Console | None = None) -> PlayResult:
    """Run a session on standard input until the game, the input or the player's patience ends.

    Raises SdkError for an environment, item, split, profile or option that does not exist.
    """
    environment_config = EnvironmentConfig(
        config.data, dict(read_setting(text) for text in config.set)
    )
    environment = load_environment(config.name).configured(environment_config)
    tasks = environment.load_tasks(environment_config)
    try:
        task = tasks.get(config.item or _first_item(tasks, config.split))
        options = ResetOptions(
            config.seed,
            config.profile or environment.spec.profiles[0],
            _parse_options(config.options),
        )
        session = _Session(environment, tasks, task, options, console or Console(highlight=False))
        if config.expert:
            session.watch_expert()
        else:
            session.listen()
        return session.result()
    finally:
        tasks.close()


def _first_item(tasks: TaskSet, split: str) -> str:
    names = [split] if split else [name for name, size in tasks.splits().items() if size]
    for item_id in tasks.item_ids(names[0], 0, 1) if names else ():
        return item_id
    raise EnvironmentUnavailable("there are no tasks to play; give --data")


def _parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidOption(f"{pair!r} is not an option", valid="name=value")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


class _Session:
    """One task, played as often as the player restarts it."""

    def __init__(
        self,
        environment: type[Environment],
        tasks: TaskSet,
        task: Task,
        options: ResetOptions,
        console: Console,
    ) -> None:
        self._environment = environment
        self._tasks = tasks
        self._task = task
        self._options = options
        self._console = console
        self._rng = random.Random(options.seed)
        self._quit = False
        self._commands: dict[str, Callable[[], None]] = {
            "/expert": self._show_expert,
            "/do": self._do_expert,
            "/random": self._do_random,
            "/picture": self._show_picture,
            "/rules": self._show_rules,
            "/restart": self._restart,
            "/help": lambda: self._say(_HELP),
            "/quit": self._end,
        }
        self._say(f"{task.item_id}, profile {options.profile}. /help lists the commands.")
        self._episode, self._observation = self._begin()

    def listen(self) -> None:
        """Obey one line after the other."""
        while not (self._quit or self._over):
            try:
                line = self._console.input("> ")
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                break
            if not sys.stdin.isatty():
                self._say(line)  # so that what came through a pipe can be read as a dialogue
            if line.strip():
                self._obey(line)
        self._close()

    def watch_expert(self) -> None:
        """Let the expert play, at most `max_rounds` actions."""
        while not self._over and self._steps < self._environment.spec.max_rounds:
            self._do_expert()
        self._close()

    def result(self) -> PlayResult:
        """Return how it went."""
        score = self._score
        solved = score is not None and score >= self._environment.spec.success_score
        return PlayResult(self._task.item_id, self._steps, score, self._over, solved)

    def _begin(self) -> tuple[Environment, Observation]:
        self._steps = 0
        episode = self._environment(self._tasks)
        observation = episode.reset(self._task, self._options)
        self._show(observation)
        return episode, observation

    @property
    def _over(self) -> bool:
        return self._observation.terminated or self._observation.truncated

    @property
    def _score(self) -> float | None:
        last = self._observation
        return last.reward if last.score is None else last.score

    def _obey(self, line: str) -> None:
        command = line.strip()
        if command not in self._commands:
            if command.startswith("/"):
                self._say(f"There is no command {command}; /help lists them.")
            else:
                self._step(line)
            return
        try:
            self._commands[command]()
        except InvalidOption as error:
            self._say(str(error))

    def _step(self, action: str) -> None:
        self._steps += 1
        self._observation = self._episode.step(action)
        self._show(self._observation)
        if self._steps == self._environment.spec.max_rounds and not self._over:
            self._say("An evaluation would end here; you may go on.")

    def _show_expert(self) -> None:
        advice = self._episode.advise_expert(self._options.seed)
        self._say(f"The expert thinks: {advice.thought}\nand does: {advice.action}")

    def _do_expert(self) -> None:
        advice = self._episode.advise_expert(self._options.seed)
        self._say(f"{advice.thought}\n> {advice.action}")
        self._step(advice.action)

    def _do_random(self) -> None:
        action = self._episode.advise_random(self._rng).action
        self._say(f"> {action}")
        self._step(action)

    def _show_picture(self) -> None:
        if not self._environment.spec.has_views:
            self._say(f"{self._environment.spec.name} draws no pictures.")
            return
        for view in self._episode.render():
            if view.media_type == MediaType.TEXT:
                self._say(f"{view.title}:\n{view.content.decode()}")
            else:
                self._say(f"{view.title}: {view.media_type}, no text; the viewer shows it.")

    def _show_rules(self) -> None:
        self._say(self._environment.spec.conversation_starts[ActionFormat.REACT].instruction)

    def _restart(self) -> None:
        self._episode.close()
        self._episode, self._observation = self._begin()

    def _end(self) -> None:
        self._quit = True

    def _close(self) -> None:
        self._episode.close()
        score = "not scored" if self._score is None else f"score {self._score:g}"
        reason = self._observation.stop_reason.name.lower().replace("_", " ")
        ending = f"over: {reason}" if self._over else "left"
        self._say(f"{self._task.item_id}, {self._steps} steps, {score}, {ending}")

    def _show(self, observation: Observation) -> None:
        reward = "" if observation.reward is None else f", reward {observation.reward:g}"
        score = "" if observation.score is None else f", score {observation.score:g}"
        self._console.rule(f"step {self._steps}{reward}{score}", align="left")
        self._say(observation.text)
        if observation.images:
            types = ", ".join(image.media_type for image in observation.images)
            self._say(f"[images, which a terminal does not show: {types}]")

    def _say(self, text: str) -> None:
        """Plain text: nothing that an environment or a person wrote is markup or an escape."""
        self._console.print(Text(_CONTROL.sub("", text)), soft_wrap=True)
